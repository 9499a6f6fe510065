"""From a typed tree to straight-line Python that Numba compiles: what each operation means, once.

A node becomes a value and up to two flags beside it:
  null  the SQL NULL,
  bad   an integer result outside of 64 bits (or of the type that a cast names). It spreads like NULL, but is never
        silently dropped: a pair whose answer depends on a bad value ends the join with an error.
Integers are computed in 64 bits whatever their type; where their possible range says that this cannot be exceeded,
the plain operation is emitted, otherwise a checked one.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from streamjoin.core import tree
from streamjoin.core.tree import Node, to_sql
from streamjoin.core.types import Type

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
SECONDS = {"us": 10**6, "ns": 10**9}
DAY = 86400


@dataclass(frozen=True)
class Value:
    """A computed node: names of variables (or short expressions) in the emitted code."""

    code: str
    null: str | None = None
    bad: str | None = None
    low: int = INT64_MIN  # of integers: what values are possible
    high: int = INT64_MAX
    constant: bool = False
    up: str | None = None  # where bad: whether the true result lies above; known for a single operation only


@dataclass(frozen=True)
class Slot:
    """Where a column is found: expressions for its value, its validity if it may be null, a digest's second half."""

    code: str
    valid: str | None = None
    second: str | None = None


def digest(value: str | bytes) -> tuple[int, int]:
    """A string as a 128-bit name in two signed halves: it stands for the string in comparisons."""
    data = value.encode() if isinstance(value, str) else value
    high, low = struct.unpack("<qq", hashlib.blake2b(data, digest_size=16).digest())
    return high, low


class Emitter:
    """Emits statements for nodes; the same node is emitted once."""

    def __init__(self, slots: Mapping[tuple[str, str], Slot], indent: str = "    ") -> None:
        self.lines: list[str] = []
        self._slots = slots
        self._indent = indent
        self._done: dict[Node, Value] = {}
        self._count = 0

    def value(self, node: Node) -> Value:
        """The node's value, emitting what computes it."""
        if node not in self._done:
            self._done[node] = self._emit(node)
        return self._done[node]

    def set(self, code: str) -> str:
        """A new variable holding the value of an expression."""
        self._count += 1
        name = f"v{self._count}"
        self.lines.append(f"{self._indent}{name} = {code}")
        return name

    def truth(self, node: Node) -> Value:
        """A condition that is never null: NULL counts as false."""
        value = self.value(node)
        if value.null is None:
            return value
        return replace(value, code=self.set(f"{value.code} & (not {value.null})"), null=None)

    def _emit(self, node: Node) -> Value:
        handler: Callable[[Node], Value] | None = getattr(self, f"_{node.op}", None)
        if handler is not None:
            return handler(node)
        if node.op in ("eq", "ne", "lt", "le", "gt", "ge"):
            return self._comparison(node)
        raise AssertionError(f"no code for {node.op}")

    # leaves

    def _column(self, node: Node) -> Value:
        slot, t = self._slots[node.value], _type(node)
        null = self.set(f"not {slot.valid}") if slot.valid else None
        if t.kind in ("string", "binary"):
            return Value(slot.code, null)
        low, high = _range(t)
        wide = {"float": f"np.float{t.bits}", "bool": "np.bool_"}.get(t.kind, "np.int64")
        return Value(self.set(f"{wide}({slot.code})"), null, None, low, high)

    def _literal(self, node: Node) -> Value:
        t, raw = _type(node), tree.physical(node)
        if raw is None:
            return Value(_zero(t), "True", constant=True)
        if t.kind == "float":
            text = f"np.float{t.bits}({float(raw)!r})" if math.isfinite(raw) else f"np.float{t.bits}({_odd(raw)})"
            return Value(text, constant=True)
        if t.kind == "bool":
            return Value(str(bool(raw)), constant=True)
        if t.kind in ("string", "binary"):
            return Value(repr(raw), constant=True)
        return Value(f"np.int64({int(raw)})", None, None, int(raw), int(raw), constant=True)

    # logic

    def _and(self, node: Node) -> Value:
        return self._junction([self.value(arg) for arg in node.args], decisive=False)

    def _or(self, node: Node) -> Value:
        return self._junction([self.value(arg) for arg in node.args], decisive=True)

    def _junction(self, values: list[Value], decisive: bool) -> Value:
        """AND (decided by a false) and OR (decided by a true), three-valued and with bad values."""
        code = self.set((" | " if decisive else " & ").join(value.code for value in values))
        null = _either(value.null for value in values)
        bad = _either(value.bad for value in values)
        if null is None and bad is None:
            return Value(code)
        sure = []
        for value in values:
            definite = [value.code if decisive else f"(not {value.code})"]
            definite += [f"(not {flag})" for flag in (value.null, value.bad) if flag is not None]
            sure.append("(" + " & ".join(definite) + ")")
        decided = self.set(" | ".join(sure))
        # An undecided junction's code may be anything; what is decided must be right.
        code = self.set(f"{decided} | {code}" if decisive else f"(not {decided}) & {code}")
        bad = self.set(f"({bad}) & (not {decided})") if bad else None
        null = self.set(f"({null}) & (not {decided})") if null else None
        return Value(code, null, bad)

    def _not(self, node: Node) -> Value:
        value = self.value(node.args[0])
        return replace(value, code=self.set(f"not {value.code}"))

    def _is_null(self, node: Node) -> Value:
        value = self.value(node.args[0])
        return Value(value.null or "False", None, value.bad)

    # comparisons

    def _comparison(self, node: Node) -> Value:
        left, right = node.args
        a, b = self.value(left), self.value(right)
        code = self.set(self._compare(node.op, left, a, right, b))
        null, bad = _flags(a, b)
        if bad and (a.up if a.bad else True) and (b.up if b.bad else True):
            return self._beyond(node.op, a, b, code, null)
        return Value(code, null, bad)

    def _beyond(self, op: str, a: Value, b: Value, code: str, null: str | None) -> Value:
        """A comparison in which a side may lie beyond 64 bits: it still lies above or below whatever fits in them."""
        above = _either((f"{a.bad} & {a.up}" if a.bad else None, f"{b.bad} & (not {b.up})" if b.bad else None))
        out, above = self.set(_either((a.bad, b.bad)) or ""), self.set(above or "")
        answer = {"eq": "False", "ne": "True", "lt": f"(not {above})", "le": f"(not {above})"}.get(op, above)
        code = self.set(f"{answer} if {out} else {code}")
        same = self.set(f"{a.bad} & {b.bad} & ({a.up} == {b.up})") if a.bad and b.bad else None
        return Value(code, null, same)

    def _eq_null_safe(self, node: Node) -> Value:
        left, right = node.args
        a, b = self.value(left), self.value(right)
        equal = self.set(self._compare("eq", left, a, right, b))
        bad = _either((a.bad, b.bad))
        if a.null is None and b.null is None:
            return Value(equal, None, bad)
        both, any_null = f"({a.null or 'False'}) & ({b.null or 'False'})", _either((a.null, b.null))
        return Value(self.set(f"({both}) | ((not ({any_null})) & {equal})"), None, bad)

    def _compare(self, op: str, left: Node, a: Value, right: Node, b: Value) -> str:
        kind = _type(left).kind
        if kind in ("string", "binary"):
            equal = self._same_text(left, right)
            return equal if op == "eq" else f"not ({equal})"
        if kind == "float":
            return _compare_floats(op, a, b)
        sign = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}[op]
        return f"{a.code} {sign} {b.code}"

    def _same_text(self, left: Node, right: Node) -> str:
        return " & ".join(f"({a} == {b})" for a, b in zip(self._halves(left), self._halves(right), strict=True))

    def _halves(self, node: Node) -> tuple[str, str]:
        if node.op == "literal":
            if node.value is None:
                return "np.int64(0)", "np.int64(0)"
            high, low = digest(node.value)
            return f"np.int64({high})", f"np.int64({low})"
        slot = self._slots[node.value]
        return slot.code, str(slot.second)

    # arithmetic

    def _add(self, node: Node) -> Value:
        return self._arithmetic(node, "+", "add_checked", lambda a, b: (a.low + b.low, a.high + b.high))

    def _sub(self, node: Node) -> Value:
        return self._arithmetic(node, "-", "sub_checked", lambda a, b: (a.low - b.high, a.high - b.low))

    def _mul(self, node: Node) -> Value:
        def corners(a: Value, b: Value) -> tuple[int, int]:
            products = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
            return min(products), max(products)

        return self._arithmetic(node, "*", "mul_checked", corners)

    def _arithmetic(
        self, node: Node, sign: str, checked: str, bounds: Callable[[Value, Value], tuple[int, int]]
    ) -> Value:
        a, b = (self.value(arg) for arg in node.args)
        null, bad = _flags(a, b)
        t = _type(node)
        if t.kind == "float":
            return Value(self.set(f"{a.code} {sign} {b.code}"), null, bad)
        if t.kind == "date":  # date +- days
            return self._integer(f"{a.code} {sign} {b.code}", a, b, bounds, node)
        low, high = bounds(a, b)
        if low >= INT64_MIN and high <= INT64_MAX:
            return Value(self.set(f"{a.code} {sign} {b.code}"), null, bad, low, high)
        pair = self.set(f"{checked}({a.code}, {b.code})")
        up = None
        if bad is None:
            up = self.set(f"({a.code} < 0) == ({b.code} < 0)" if sign == "*" else f"{a.code} >= 0")
        return Value(self.set(f"{pair}[0]"), null, self.set(_either((bad, f"{pair}[1]")) or "False"), up=up)

    def _integer(
        self, code: str, a: Value, b: Value, bounds: Callable[[Value, Value], tuple[int, int]], node: Node
    ) -> Value:
        low, high = bounds(a, b)
        null, bad = _flags(a, b)
        return self._narrow(Value(self.set(code), null, bad, low, high), *_range(_type(node)))

    def _narrow(self, value: Value, low: int, high: int) -> Value:
        """The value, bad if it lies outside of low..high."""
        if low <= value.low and value.high <= high:
            return value
        outside = f"({value.code} < np.int64({low})) | ({value.code} > np.int64({high}))"
        bad = self.set(_either((value.bad, outside)) or "False")
        return Value(value.code, value.null, bad, max(low, value.low), min(high, value.high))

    def _div(self, node: Node) -> Value:
        a, b = (self.value(arg) for arg in node.args)
        null, bad = _flags(a, b)
        zero = self.set(f"{b.code} == 0.0")
        return Value(self.set(f"{a.code} / {b.code}"), _either((null, zero)), bad)

    def _intdiv(self, node: Node) -> Value:
        a, b, special, null, bad = self._division(node)
        quotient = f"truncated_div({a.code}, np.int64(1) if {special} else {b.code})"
        code = self.set(f"-{a.code} if {b.code} == -1 else {quotient}")
        if a.low == INT64_MIN:
            overflow = f"({b.code} == -1) & ({a.code} == np.int64({INT64_MIN}))"
            bad = self.set(_either((bad, overflow)) or "False")
        return Value(code, null, bad)

    def _mod(self, node: Node) -> Value:
        if _type(node).kind == "float":
            a, b = (self.value(arg) for arg in node.args)
            null, bad = _flags(a, b)
            zero = self.set(f"{b.code} == 0.0")
            wide = f"np.fmod(np.float64({a.code}), np.float64({b.code}))"
            return Value(self.set(f"np.float{_type(node).bits}({wide})"), _either((null, zero)), bad)
        a, b, special, null, bad = self._division(node)
        safe = self.set(f"np.int64(1) if {special} else {b.code}")
        code = self.set(f"{a.code} - truncated_div({a.code}, {safe}) * {safe}")
        edge = max(abs(a.low), abs(a.high))
        return Value(code, null, bad, 0 if a.low >= 0 else -edge, min(edge, INT64_MAX))

    def _division(self, node: Node) -> tuple[Value, Value, str, str | None, str | None]:
        """Operands of an integer division, the divisors that the hardware must not see, and the flags."""
        a, b = (self.value(arg) for arg in node.args)
        null, bad = _flags(a, b)
        zero = self.set(f"{b.code} == 0")
        return a, b, self.set(f"{zero} | ({b.code} == -1)"), _either((null, zero)), bad

    def _neg(self, node: Node) -> Value:
        a = self.value(node.args[0])
        return self._folded(node, a, f"-{a.code}", -a.high, -a.low)

    def _abs(self, node: Node) -> Value:
        a = self.value(node.args[0])
        low = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
        return self._folded(node, a, f"abs({a.code})", low, max(abs(a.low), abs(a.high)))

    def _folded(self, node: Node, a: Value, code: str, low: int, high: int) -> Value:
        if _type(node).kind == "float":
            return _derived(a, code=self.set(code))
        bad, up = a.bad, a.up
        if node.op == "neg" and up:
            up = self.set(f"not {up}")
        if high > INT64_MAX:  # the smallest integer has no counterpart
            edge = self.set(f"{a.code} == np.int64({INT64_MIN})")
            if node.op == "abs" and (a.bad is None or up):
                up = "True"  # what was out of range has a magnitude out of range
            else:
                up = "True" if bad is None else None
            bad = self.set(_either((bad, edge)) or "False")
        elif node.op == "abs" and up:
            up = "True"
        return Value(self.set(code), a.null, bad, max(low, INT64_MIN), min(high, INT64_MAX), up=up)

    def _floor(self, node: Node) -> Value:
        return self._whole(node, "math.floor", "")

    def _ceil(self, node: Node) -> Value:
        return self._whole(node, "math.ceil", "-")

    def _whole(self, node: Node, function: str, sign: str) -> Value:
        """Floor or ceiling; of a scaled integer, floor division, from the other side for the ceiling."""
        a, source = self.value(node.args[0]), _type(node.args[0])
        if source.kind == "decimal":
            return _derived(a, code=self.set(f"{sign}(({sign}{a.code}) // np.int64({10**source.scale}))"))
        name = "np.floor" if function == "math.floor" else "np.ceil"
        return _derived(a, code=self.set(f"to_int64({name}({a.code}))"), low=INT64_MIN, high=INT64_MAX)

    def _sqrt(self, node: Node) -> Value:
        a = self.value(node.args[0])
        return _derived(a, code=self.set(f"np.sqrt({a.code})"))

    # choices

    def _case(self, node: Node) -> Value:
        result = self.value(node.args[-1])
        for k in range(len(node.args) - 3, -1, -2):
            taken, value = self.truth(node.args[k]), self.value(node.args[k + 1])
            result = self._choose(taken.code, value, result, _either((taken.bad,)))
        return result

    def _coalesce(self, node: Node) -> Value:
        result = self.value(node.args[-1])
        for arg in reversed(node.args[:-1]):
            value = self.value(arg)
            present = f"(not {value.null})" if value.null else "True"
            result = self._choose(present, replace(value, null=None), result, None)
        return result

    def _least(self, node: Node) -> Value:
        return self._extreme(node, "lt")

    def _greatest(self, node: Node) -> Value:
        return self._extreme(node, "gt")

    def _extreme(self, node: Node, op: str) -> Value:
        """The first of the smallest (largest) arguments; nulls are passed over."""
        best = self.value(node.args[0])
        for arg in node.args[1:]:
            value = self.value(arg)
            better = self.set(self._compare(op, arg, value, node.args[0], best))
            if best.null:
                better = self.set(f"{best.null} | {better}")
            if value.null:
                better = self.set(f"(not {value.null}) & {better}")
            null = f"({best.null}) & ({value.null})" if best.null and value.null else None
            bad = _either((best.bad, value.bad))
            chosen = self._choose(better, replace(value, null=None, bad=None), replace(best, null=None, bad=None), None)
            best = replace(chosen, null=self.set(null) if null else None, bad=bad)
        return best

    def _choose(self, condition: str, yes: Value, no: Value, bad: str | None) -> Value:
        """`yes if condition else no`, with the flags of the one that was taken."""

        def flag(a: str | None, b: str | None) -> str | None:
            if a is None and b is None:
                return None
            return self.set(f"({a or 'False'}) if {condition} else ({b or 'False'})")

        taken_bad = _either((bad, flag(yes.bad, no.bad)))
        code = self.set(f"{yes.code} if {condition} else {no.code}")
        return Value(code, flag(yes.null, no.null), taken_bad, min(yes.low, no.low), max(yes.high, no.high))

    # casts

    def _cast(self, node: Node) -> Value:
        a, source, target = self.value(node.args[0]), _type(node.args[0]), _type(node)
        if source == target or (source.kind == target.kind == "timestamp"):
            return self._rescale_time(a, source, target)
        if target.kind == "bool":
            return _derived(a, code=self.set(f"{a.code} != 0"))
        if target.kind == "float":
            return self._to_float(a, source, target)
        if target.kind == "decimal":
            return self._rescale(a, source.scale if source.kind == "decimal" else 0, target.scale)
        if target.kind == "int":
            return self._to_int(a, source, target)
        if target.kind == "timestamp":
            unit = SECONDS[target.unit]
            if source.kind == "float":
                return _derived(
                    a, code=self.set(f"to_int64({a.code} * {float(unit)!r})"), low=INT64_MIN, high=INT64_MAX
                )
            return self._scaled(a, unit * (DAY if source.kind == "date" else 1))
        if target.kind == "date":
            days = self.set(f"{a.code} // np.int64({SECONDS[source.unit] * DAY})")
            return _derived(a, code=days, low=a.low // DAY, high=a.high // DAY)
        raise AssertionError(f"no code for {to_sql(node)}")

    def _rescale_time(self, a: Value, source: Type, target: Type) -> Value:
        if source.unit == target.unit:
            return a
        if target.unit == "ns":
            return self._scaled(a, 1000)
        return _derived(a, code=self.set(f"{a.code} // np.int64(1000)"), low=a.low // 1000, high=a.high // 1000)

    def _to_float(self, a: Value, source: Type, target: Type) -> Value:
        if source.kind == "decimal":
            code = f"np.float64({a.code}) / np.float64({10.0**source.scale!r})"
        elif source.kind == "timestamp":
            code = f"np.float64({a.code}) / np.float64({float(SECONDS[source.unit])!r})"
        else:
            code = a.code
        return _derived(a, code=self.set(f"np.float{target.bits}({code})"), low=INT64_MIN, high=INT64_MAX)

    def _to_int(self, a: Value, source: Type, target: Type) -> Value:
        low, high = _range(target)
        if source.kind == "bool":
            return Value(self.set(f"np.int64({a.code})"), a.null, a.bad, 0, 1)
        if source.kind == "float":
            value = Value(self.set(f"to_int64({a.code})"), a.null, a.bad)
            if target.bits == 32:  # as Spark: to the nearest edge; narrower types would wrap there
                code = f"min(max({value.code}, np.int64({low})), np.int64({high}))"
                return Value(self.set(code), a.null, a.bad, low, high)
            return self._narrow(value, low, high)
        if source.kind == "decimal":
            whole = self.set(f"truncated_div({a.code}, np.int64({10**source.scale}))") if source.scale else a.code
            return self._narrow(Value(whole, a.null, a.bad), low, high)
        if source.kind == "timestamp":
            seconds = self.set(f"{a.code} // np.int64({SECONDS[source.unit]})")
            unit = SECONDS[source.unit]
            return self._narrow(Value(seconds, a.null, a.bad, a.low // unit, a.high // unit), low, high)
        return self._narrow(a, low, high)

    def _rescale(self, a: Value, before: int, after: int) -> Value:
        if after >= before:
            return self._scaled(a, 10 ** (after - before))
        raise AssertionError("a decimal never loses digits: resolve refuses it")

    def _scaled(self, a: Value, factor: int) -> Value:
        if factor == 1:
            return a
        low, high = a.low * factor, a.high * factor
        if low >= INT64_MIN and high <= INT64_MAX:
            return Value(self.set(f"{a.code} * np.int64({factor})"), a.null, a.bad, low, high)
        pair = self.set(f"mul_checked({a.code}, np.int64({factor}))")
        up = self.set(f"{a.code} >= 0") if a.bad is None else None
        return Value(self.set(f"{pair}[0]"), a.null, self.set(_either((a.bad, f"{pair}[1]")) or "False"), up=up)

    def _function(self, node: Node) -> Value:
        """A Python function sees both tuples as named tuples of plain numbers."""
        sides = []
        for side in "rs":
            parts = []
            for arg in node.args:
                if arg.value[0] == side:
                    value = self.value(arg)
                    wide = _type(arg).kind == "float"
                    parts.append(f"np.float64({value.code})" if wide else value.code)
            sides.append(f"{side.upper()}_TUPLE({', '.join(parts)})")
        return Value(self.set(f"True if FUNCTION({sides[0]}, {sides[1]}) else False"))


def _derived(a: Value, code: str, low: int = INT64_MIN, high: int = INT64_MAX) -> Value:
    """Another value with the same flags. Which way it was out of range does not carry over."""
    return Value(code, a.null, a.bad, low, high)


def _type(node: Node) -> Type:
    assert node.type is not None, f"unresolved: {to_sql(node)}"
    return node.type


def _range(t: Type) -> tuple[int, int]:
    if t.kind == "int":
        return -(2 ** (t.bits - 1)), 2 ** (t.bits - 1) - 1
    if t.kind == "date":
        return -(2**31), 2**31 - 1
    if t.kind == "decimal" and t.precision <= 18:
        return -(10**t.precision) + 1, 10**t.precision - 1
    if t.kind == "bool":
        return 0, 1
    return INT64_MIN, INT64_MAX


def _zero(t: Type) -> str:
    return {"float": f"np.float{t.bits}(0)", "bool": "False"}.get(t.kind, "np.int64(0)")


def _odd(value: float) -> str:
    return "np.nan" if math.isnan(value) else "np.inf" if value > 0 else "-np.inf"


def _either(flags: object) -> str | None:
    present = [flag for flag in flags if flag is not None]  # type: ignore[attr-defined]
    return " | ".join(f"({flag})" for flag in present) if present else None


def _flags(a: Value, b: Value) -> tuple[str | None, str | None]:
    return _either((a.null, b.null)), _either((a.bad, b.bad))


def _compare_floats(op: str, a: Value, b: Value) -> str:
    """NaN equals NaN and lies above every number."""
    if op in ("gt", "ge"):
        return _compare_floats({"gt": "lt", "ge": "le"}[op], b, a)
    x, y = a.code, b.code
    never_nan = (a.constant and "nan" not in x, b.constant and "nan" not in y)
    if op in ("eq", "ne"):
        equal = f"{x} == {y}" if any(never_nan) else f"({x} == {y}) | (({x} != {x}) & ({y} != {y}))"
        return equal if op == "eq" else f"not ({equal})"
    if never_nan[1]:
        return f"{x} < {y}" if op == "lt" else f"{x} <= {y}"
    return f"({x} < {y}) | (({y} != {y}) & ({x} == {x}))" if op == "lt" else f"({x} <= {y}) | ({y} != {y})"
