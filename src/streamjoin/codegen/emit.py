"""From a typed tree to straight-line Python that Numba compiles: what each operation means, once.

A node becomes a value and up to two flags beside it:
  null  the SQL NULL,
  bad   an integer result outside of 64 bits (or of the type that a cast names). It spreads like NULL, but is never
        silently dropped: a pair whose answer depends on a bad value ends the join with an error.
Logic, comparisons and choices are defined here, arithmetic and casts in `emit_numbers`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from streamjoin.codegen.emit_numbers import Numbers
from streamjoin.codegen.values import Slot, Value, digest, either
from streamjoin.predicate import tree
from streamjoin.predicate.operations import OPERATIONS
from streamjoin.predicate.tree import Node, too_large
from streamjoin.predicate.types import Type, range_of

MAX_CODE = 64_000
"""The most characters of code that a predicate may become. Compile time grows with their square: here about 20 s."""

CHOICE = 80  # characters that a choice counts besides its own, since it is a branch for the compiler

AT_ONCE = 50  # parts of an AND or OR in one expression: compilers process expressions recursively


def check_size(predicate: Node) -> None:
    """Refuses a resolved predicate that would take too long to compile."""
    emitter = Emitter({name: Slot("p[0][i]", "p[1][i]", "p[2][i]") for name in tree.columns(predicate)})
    emitter.truth(predicate)
    size = sum(len(line) + CHOICE * line.count(" if ") for line in emitter.lines)
    if size > MAX_CODE:
        raise too_large("takes", size, "characters of generated code", MAX_CODE)


class Emitter(Numbers):
    """Emits statements for nodes, each node once."""

    def __init__(self, slots: Mapping[tuple[str, str], Slot], indent: str = "    ") -> None:
        super().__init__(indent)
        self._slots = slots
        self._done: dict[Node, Value] = {}

    def value(self, node: Node) -> Value:
        """The node's value, emitting what computes it."""
        if node not in self._done:
            for part in tree.bottom_up(node, known=self._done, order=_order):
                self._done[part] = self._emit(part)
        return self._done[node]

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
        row = OPERATIONS[node.op]
        return self._comparison(node) if row.rule == "comparison" else self.filled(node, row)

    # leaves

    def _column(self, node: Node) -> Value:
        slot, t = self._slots[node.column], node.typed
        null = self.set(f"not {slot.valid}") if slot.valid else None
        if t.kind in ("string", "binary"):
            return Value(slot.code, null)
        low, high = range_of(t)
        wide = {"float": f"np.float{t.bits}", "bool": "np.bool_"}.get(t.kind, "np.int64")
        return Value(self.set(f"{wide}({slot.code})"), null, None, low, high)

    def _literal(self, node: Node) -> Value:
        t, raw = node.typed, tree.physical(node)
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
        while len(values) > AT_ONCE:
            groups = (values[k : k + AT_ONCE] for k in range(0, len(values), AT_ONCE))
            values = [self._junction(group, decisive) for group in groups]
        code = self.set((" | " if decisive else " & ").join(value.code for value in values))
        null = either(value.null for value in values)
        bad = either(value.bad for value in values)
        if null is None and bad is None:
            return Value(code)
        sure = []
        for value in values:
            definite = [value.code if decisive else f"(not {value.code})"]
            definite += [f"(not {flag})" for flag in (value.null, value.bad) if flag is not None]
            sure.append("(" + " & ".join(definite) + ")")
        decided = self.set(" | ".join(sure))
        # The code of an undecided junction may be anything; that of a decided one must be right.
        code = self.set(f"{decided} | {code}" if decisive else f"(not {decided}) & {code}")
        bad = self.set(f"({bad}) & (not {decided})") if bad else None
        null = self.set(f"({null}) & (not {decided})") if null else None
        return Value(code, null, bad)

    def _not(self, node: Node) -> Value:
        value = self.value(node.args[0])
        return replace(value, code=self.set(f"not {value.code}"))

    def _is_null(self, node: Node) -> Value:
        value = self.value(node.args[0])
        return Value(self.set(value.null) if value.null else "False", None, value.bad)

    # comparisons

    def _comparison(self, node: Node) -> Value:
        left, right = node.args
        a, b = self.value(left), self.value(right)
        code = self.set(self._compare(node.op, left, a, right, b))
        null, bad = self.flags(a, b)
        if bad and (a.up if a.bad else True) and (b.up if b.bad else True):
            return self._beyond(node.op, a, b, code, null)
        return Value(code, null, bad)

    def _beyond(self, op: str, a: Value, b: Value, code: str, null: str | None) -> Value:
        """A comparison in which an operand may exceed 64 bits: it still lies above or below every value that fits."""
        above = either((f"{a.bad} & {a.up}" if a.bad else None, f"{b.bad} & (not {b.up})" if b.bad else None))
        out, above = self.set(either((a.bad, b.bad)) or ""), self.set(above or "")
        answer = {"eq": "False", "ne": "True", "lt": f"(not {above})", "le": f"(not {above})"}.get(op, above)
        code = self.set(f"{answer} if {out} else {code}")
        same = self.set(f"{a.bad} & {b.bad} & ({a.up} == {b.up})") if a.bad and b.bad else None
        return Value(code, null, same)

    def _eq_null_safe(self, node: Node) -> Value:
        left, right = node.args
        a, b = self.value(left), self.value(right)
        equal = self.set(self._compare("eq", left, a, right, b))
        bad = self.any((a.bad, b.bad))
        if a.null is None and b.null is None:
            return Value(equal, None, bad)
        both, any_null = f"({a.null or 'False'}) & ({b.null or 'False'})", either((a.null, b.null))
        return Value(self.set(f"({both}) | ((not ({any_null})) & {equal})"), None, bad)

    def _compare(self, op: str, left: Node, a: Value, right: Node, b: Value) -> str:
        kind = left.typed.kind
        if kind in ("string", "binary"):
            equal = self._same_text(left, right)
            return equal if op == "eq" else f"not ({equal})"
        if kind == "float":
            return _compare_floats(op, a, b)
        return f"{a.code} {OPERATIONS[op].code} {b.code}"

    def _same_text(self, left: Node, right: Node) -> str:
        return " & ".join(f"({a} == {b})" for a, b in zip(self.halves(left), self.halves(right), strict=True))

    def halves(self, node: Node) -> tuple[str, str]:
        if node.op == "literal":
            if node.constant is None:
                return "np.int64(0)", "np.int64(0)"
            high, low = digest(node.constant)
            return f"np.int64({high})", f"np.int64({low})"
        slot = self._slots[node.column]
        return slot.code, str(slot.second)

    # choices

    def _case(self, node: Node) -> Value:
        result = self.value(node.args[-1])
        for k in range(len(node.args) - 3, -1, -2):
            taken, value = self.truth(node.args[k]), self.value(node.args[k + 1])
            result = self._choose(taken.code, value, result, self.any((taken.bad,)))
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
        """The first of the smallest (largest) arguments; nulls are skipped."""
        best = self.value(node.args[0])
        for arg in node.args[1:]:
            value = self.value(arg)
            better = self.set(self._compare(op, arg, value, node.args[0], best))
            if best.null:
                better = self.set(f"{best.null} | {better}")
            if value.null:
                better = self.set(f"(not {value.null}) & {better}")
            null = f"({best.null}) & ({value.null})" if best.null and value.null else None
            bad = self.any((best.bad, value.bad))
            chosen = self._choose(better, replace(value, null=None, bad=None), replace(best, null=None, bad=None), None)
            best = replace(chosen, null=self.set(null) if null else None, bad=bad)
        return best

    def _choose(self, condition: str, yes: Value, no: Value, bad: str | None) -> Value:
        """`yes if condition else no`, with the flags of the chosen value."""

        def flag(a: str | None, b: str | None) -> str | None:
            if a is None and b is None:
                return None
            return self.set(f"({a or 'False'}) if {condition} else ({b or 'False'})")

        taken_bad = self.any((bad, flag(yes.bad, no.bad)))
        code = self.set(f"{yes.code} if {condition} else {no.code}")
        return Value(code, flag(yes.null, no.null), taken_bad, min(yes.low, no.low), max(yes.high, no.high))

    def _function(self, node: Node) -> Value:
        """A Python function sees both tuples as named tuples of plain numbers."""
        sides = []
        for side in "rs":
            parts = []
            for arg in node.args:
                if arg.column[0] == side:
                    value = self.value(arg)
                    wide = arg.typed.kind == "float"
                    parts.append(f"np.float64({value.code})" if wide else value.code)
            sides.append(f"{side.upper()}_TUPLE({', '.join(parts)})")
        return Value(self.set(f"True if FUNCTION({sides[0]}, {sides[1]}) else False"))


def _order(node: Node) -> Sequence[Node]:
    """The order in which a node's arguments are emitted: a choice is built from its last argument."""
    if node.op == "coalesce":
        return node.args[::-1]
    if node.op == "case":
        branches = [node.args[k : k + 2] for k in range(len(node.args) - 3, -1, -2)]
        return [node.args[-1], *chain.from_iterable(branches)]
    return node.args


def _zero(t: Type) -> str:
    return {"float": f"np.float{t.bits}(0)", "bool": "False"}.get(t.kind, "np.int64(0)")


def _odd(value: float) -> str:
    return "np.nan" if math.isnan(value) else "np.inf" if value > 0 else "-np.inf"


def _compare_floats(op: str, a: Value, b: Value) -> str:
    """NaN equals NaN and is greater than every number."""
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
