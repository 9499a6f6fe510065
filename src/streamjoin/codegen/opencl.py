"""From the statements of `codegen/emit.py` to OpenCL C on vectors of four: another notation for the same meaning.

`emit` and `emit_numbers` define the meaning of operations once, in a small part of Python: assignments of expressions
of integers (i, 64 bits), single (f) and double (d) floats and booleans (b). Here each expression gets the type that
Numba gives it, and is written with the type's vector operations. A boolean is a vector of int, -1 or 0. Nothing is
fused or reordered, integers wrap, NaN compares as in IEEE 754. The emitted code already contains whatever else SQL
requires.
"""

from __future__ import annotations

import ast
import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from streamjoin.codegen.values import INT64_MIN

LANES = 4  # 256 bits of long or double: PoCL 3.0 computes wrongly with 512 on processors that have them, see 0016
VECTORS = {"b": "int4", "i": "long4", "f": "float4", "d": "double4"}
HELPERS = r"""
inline int any_of(int4 m) { ulong2 w = as_ulong2(m); return (w.x | w.y) != 0; }
inline uint bits_of(int4 m) {
  int4 b = m & (int4)(1, 2, 4, 8);
  int2 h = b.lo | b.hi;
  return (uint)(h.x | h.y);
}
inline long4 add_wrap(long4 a, long4 b) { return as_long4(as_ulong4(a) + as_ulong4(b)); }
inline long4 sub_wrap(long4 a, long4 b) { return as_long4(as_ulong4(a) - as_ulong4(b)); }
inline long4 mul_wrap(long4 a, long4 b) { return as_long4(as_ulong4(a) * as_ulong4(b)); }
inline int4 add_beyond(long4 a, long4 b) { long4 c = add_wrap(a, b); return convert_int4(((a ^ c) & (b ^ c)) < 0L); }
inline int4 sub_beyond(long4 a, long4 b) { long4 c = sub_wrap(a, b); return convert_int4(((a ^ b) & (a ^ c)) < 0L); }
inline int4 mul_beyond(long4 a, long4 b) { return convert_int4(mul_hi(a, b) != (mul_wrap(a, b) >> 63)); }
inline long4 floor_div(long4 a, long4 b) {
  long4 q = a / b;
  return q + ((mul_wrap(q, b) != a) & ((a < 0L) ^ (b < 0L)));
}
"""
HELPERS_DOUBLE = r"""
inline long4 to_int64(double4 v) {
  long4 above = v >= 9223372036854775808.0, below = v <= -9223372036854775808.0;
  long4 x = convert_long4(select(v, (double4)(0.0), above | below | (v != v)));
  return select(select(x, (long4)(LONG_MAX), above), (long4)(LONG_MIN), below);
}
"""
_SIGNS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_WRAPPING = {ast.Add: "add_wrap", ast.Sub: "sub_wrap", ast.Mult: "mul_wrap"}
_ON_FLOATS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_CASTS = {"np.int64": "i", "np.float32": "f", "np.float64": "d", "np.bool_": "b"}
_ODD = {"np.nan": math.nan, "np.inf": math.inf}


@dataclass(frozen=True)
class Code:
    """An expression in C and its type; `number` if it is a constant."""

    text: str
    type: str
    number: float | None = None


class Translator:
    """Translates the statements of one test. `columns` has, for "p" and "w", the type of every array.

    >>> import numpy as np
    >>> translator = Translator({"p": (np.dtype("f4"),), "w": (np.dtype("f4"),)})
    >>> translator.statements(["v1 = np.float32(w[0][j])", "v2 = v1 <= np.float32(p[0][i])"])
    >>> print("\\n".join(translator.lines))
    float4 v1 = w0[g];
    int4 v2 = (v1 <= (float4)(p0[i]));
    """

    def __init__(self, columns: Mapping[str, tuple[np.dtype[np.generic], ...]]) -> None:
        self.lines: list[str] = []
        self._columns = columns
        self._types: dict[str, str] = {}
        self._pairs: dict[str, tuple[str, str]] = {}  # results of checked operations: the value, whether it overflowed

    def statements(self, lines: list[str]) -> None:
        """Translates assignments; the C statements are appended to `lines`."""
        for statement in ast.parse(textwrap.dedent("\n".join(lines))).body:
            assert isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
            self._assign(statement.targets[0].id, statement.value)

    def truth(self, code: str) -> str:
        """An expression of type boolean."""
        found = self._code(ast.parse(code.strip(), mode="eval").body)
        assert found.type == "b", code
        return found.text

    def _assign(self, name: str, value: ast.expr) -> None:
        function = _name(value.func) if isinstance(value, ast.Call) else ""
        if function.endswith("_checked") and isinstance(value, ast.Call):
            a, b = (self._code(arg).text for arg in value.args)
            operation = function.removesuffix("_checked")
            self.lines += [f"long4 {name} = {operation}_wrap({a}, {b});"]
            self.lines += [f"int4 {name}_beyond = {operation}_beyond({a}, {b});"]
            self._pairs[name] = name, f"{name}_beyond"
            return
        code = self._code(value)
        self._types[name] = code.type
        self.lines.append(f"{VECTORS[code.type]} {name} = {code.text};")

    def _code(self, node: ast.expr) -> Code:
        code: Code = getattr(self, f"_{type(node).__name__.lower()}")(node)
        return code

    def _constant(self, node: ast.Constant) -> Code:
        value = node.value
        if isinstance(value, bool):
            return Code(f"(int4)({-int(value)})", "b")
        if isinstance(value, int | float):
            return _number(value, "d" if isinstance(value, float) else "i")
        raise AssertionError(f"no code for the constant {value!r}")

    def _attribute(self, node: ast.Attribute) -> Code:
        return _number(_ODD[_name(node)], "d")

    def _name(self, node: ast.Name) -> Code:
        return Code(node.id, self._types[node.id])

    def _subscript(self, node: ast.Subscript) -> Code:
        if isinstance(node.value, ast.Name):
            return Code(self._pairs[node.value.id][_index(node)], "ib"[_index(node)])
        assert isinstance(node.value, ast.Subscript)
        array, k = _name(node.value.value), _index(node.value)
        dtype = self._columns[array][k]
        text = f"w{k}[g]" if array == "w" else f"p{k}[i]"
        kind = {"f4": "f", "f8": "d", "b1": "b"}.get(dtype.str[1:], "i")
        if kind == "b":
            return Code(f"(convert_int4({text}) != 0)" if array == "w" else f"(int4)(-(int)({text} != 0))", "b")
        if array == "p":
            return Code(f"({VECTORS[kind]})({f'(long){text}' if kind == 'i' else text})", kind)
        return Code(f"convert_long4({text})" if kind == "i" and dtype != np.int64 else text, kind)

    def _unaryop(self, node: ast.UnaryOp) -> Code:
        code = self._code(node.operand)
        if isinstance(node.op, ast.Not):
            assert code.type == "b"
            return Code(f"(~{code.text})", "b")
        assert isinstance(node.op, ast.USub)
        if code.number is not None:
            return _number(-code.number, code.type)
        return Code(f"sub_wrap((long4)(0L), {code.text})" if code.type == "i" else f"(-{code.text})", code.type)

    def _binop(self, node: ast.BinOp) -> Code:
        a, b = self._code(node.left), self._code(node.right)
        if isinstance(node.op, ast.BitAnd | ast.BitOr):
            assert a.type == b.type == "b"
            return Code(f"({a.text} {'&' if isinstance(node.op, ast.BitAnd) else '|'} {b.text})", "b")
        a, b = self._alike(a, b)
        if isinstance(node.op, ast.FloorDiv):
            assert a.type == "i"
            return Code(f"floor_div({a.text}, {b.text})", "i")
        if a.type == "i":
            return Code(f"{_WRAPPING[type(node.op)]}({a.text}, {b.text})", "i")
        return Code(f"({a.text} {_ON_FLOATS[type(node.op)]} {b.text})", a.type)

    def _compare(self, node: ast.Compare) -> Code:
        a, b = self._alike(self._code(node.left), self._code(node.comparators[0]))
        sign = _SIGNS[type(node.ops[0])]
        if a.type == "b":  # false is below true
            x, y = a.text, b.text
            forms = {"==": f"~({x} ^ {y})", "!=": f"({x} ^ {y})", "<": f"(~{x} & {y})", ">": f"({x} & ~{y})"}
            forms |= {"<=": f"(~{x} | {y})", ">=": f"({x} | ~{y})"}
            return Code(f"({forms[sign]})", "b")
        text = f"({a.text} {sign} {b.text})"
        return Code(text if a.type == "f" else f"convert_int4{text}", "b")

    def _ifexp(self, node: ast.IfExp) -> Code:
        condition = self._code(node.test)
        yes, no = self._alike(self._code(node.body), self._code(node.orelse))
        wide = f"convert_long4({condition.text})" if yes.type in "id" else condition.text
        return Code(f"select({no.text}, {yes.text}, {wide})", yes.type)

    def _call(self, node: ast.Call) -> Code:
        name, args = _name(node.func), [self._code(arg) for arg in node.args]
        if name in _CASTS:
            return self._as(args[0], _CASTS[name])
        if name.startswith("np."):  # exact functions of floats, which OpenCL C and NumPy name alike
            kind = "f" if all(arg.type == "f" for arg in args) else "d"
            return Code(f"{name[3:]}({', '.join(self._as(arg, kind).text for arg in args)})", kind)
        if name == "to_int64":
            return Code(f"to_int64({self._as(args[0], 'd').text})", "i")
        if name == "truncated_div":
            return Code(f"({args[0].text} / {args[1].text})", "i")
        if name == "abs":
            (a,) = args
            whole = f"select({a.text}, sub_wrap((long4)(0L), {a.text}), {a.text} < 0L)"
            return Code(whole if a.type == "i" else f"fabs({a.text})", a.type)
        if name in ("min", "max"):
            assert args[0].type == args[1].type == "i"
            return Code(f"{name}({args[0].text}, {args[1].text})", "i")
        raise AssertionError(f"no code for {name}")

    def _alike(self, a: Code, b: Code) -> tuple[Code, Code]:
        """Both operands in the type in which Numba combines them."""
        if a.type == b.type:
            return a, b
        kinds = {a.type, b.type}
        if "b" in kinds:
            kinds = (kinds - {"b"}) or {"b"}
        zero = {code.type for code in (a, b) if code.number != 0}  # any float type holds zero
        if len(zero & kinds) == 1 and zero <= kinds:
            kinds = zero
        target = next(iter(kinds)) if len(kinds) == 1 else "d"
        return self._as(a, target), self._as(b, target)

    def _as(self, code: Code, target: str) -> Code:
        if code.type == target:
            return code
        if code.number is not None and target != "b":
            return _number(code.number, target)
        if code.type == "b":
            wide = f"(-convert_long4({code.text}))"
            return Code(wide if target == "i" else f"convert_{VECTORS[target]}({wide})", target)
        if target == "b":
            return Code(self._compare_zero(code), "b")
        assert target != "i", "floats become whole numbers by to_int64"
        return Code(f"convert_{VECTORS[target]}({code.text})", target)

    def _compare_zero(self, code: Code) -> str:
        a, zero = self._alike(code, _number(0, code.type))
        return f"({a.text} != {zero.text})" if code.type == "f" else f"convert_int4({a.text} != {zero.text})"


def _name(node: ast.expr) -> str:
    return ast.unparse(node)


def _index(node: ast.Subscript) -> int:
    assert isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int)
    return node.slice.value


def _number(value: float, kind: str) -> Code:
    """A constant to the last bit."""
    if kind == "i":
        text = f"{int(value)}L" if value != INT64_MIN else "LONG_MIN"
    elif kind == "f":
        single = np.float32(value)
        text = f"as_float(0x{single.view(np.uint32):08x}u)"
    else:
        text = f"as_double(0x{np.float64(value).view(np.uint64):016x}ul)"
    return Code(f"({VECTORS[kind]})({text})", kind, value)
