"""Arithmetic and casts in emitted code.

Integers are computed in 64 bits whatever their type. If the possible range of the operands rules out an overflow, the
plain operation is emitted, otherwise a checked one.
"""

from __future__ import annotations

from collections.abc import Callable

from streamjoin.codegen.values import INT64_MAX, INT64_MIN, Value, Writer, derived, either
from streamjoin.predicate.operations import OPERATIONS, Operation
from streamjoin.predicate.tree import Node, brief
from streamjoin.predicate.types import Type, range_of

SECONDS = {"us": 10**6, "ns": 10**9}
DAY = 86400


class Numbers(Writer):
    """A method for each operation that a template cannot express, called with the node."""

    def filled(self, node: Node, row: Operation) -> Value:
        """An operation by its template."""
        values = [self.value(arg) for arg in node.args]
        null, bad = self.flags(*values)
        codes = [value.code for value in values]
        if row.undefined:
            null = self.any((null, self.set(row.undefined.format(*codes))))
        return Value(self.set(row.code.format(*codes)), null, bad)

    def _add(self, node: Node) -> Value:
        return self._arithmetic(node, lambda a, b: (a.low + b.low, a.high + b.high))

    def _sub(self, node: Node) -> Value:
        return self._arithmetic(node, lambda a, b: (a.low - b.high, a.high - b.low))

    def _mul(self, node: Node) -> Value:
        def corners(a: Value, b: Value) -> tuple[int, int]:
            products = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
            return min(products), max(products)

        return self._arithmetic(node, corners)

    def _arithmetic(self, node: Node, bounds: Callable[[Value, Value], tuple[int, int]]) -> Value:
        sign = OPERATIONS[node.op].code
        a, b = (self.value(arg) for arg in node.args)
        null, bad = self.flags(a, b)
        t = node.typed
        if t.kind == "float":
            return Value(self.set(f"{a.code} {sign} {b.code}"), null, bad)
        low, high = bounds(a, b)
        if t.kind == "date":  # date +- days
            return self._narrow(Value(self.set(f"{a.code} {sign} {b.code}"), null, bad, low, high), *range_of(t))
        if low >= INT64_MIN and high <= INT64_MAX:
            return Value(self.set(f"{a.code} {sign} {b.code}"), null, bad, low, high)
        pair = self.set(f"{node.op}_checked({a.code}, {b.code})")
        up = None
        if bad is None:
            up = self.set(f"({a.code} < 0) == ({b.code} < 0)" if sign == "*" else f"{a.code} >= 0")
        return Value(self.set(f"{pair}[0]"), null, self.set(either((bad, f"{pair}[1]")) or "False"), up=up)

    def _narrow(self, value: Value, low: int, high: int) -> Value:
        """The value, bad if it lies outside of low..high."""
        if low <= value.low and value.high <= high:
            return value
        outside = f"({value.code} < np.int64({low})) | ({value.code} > np.int64({high}))"
        bad = self.set(either((value.bad, outside)) or "False")
        return Value(value.code, value.null, bad, max(low, value.low), min(high, value.high))

    def _intdiv(self, node: Node) -> Value:
        a, b, special, null, bad = self._division(node)
        quotient = f"truncated_div({a.code}, np.int64(1) if {special} else {b.code})"
        code = self.set(f"-{a.code} if {b.code} == -1 else {quotient}")
        if a.low == INT64_MIN:
            overflow = f"({b.code} == -1) & ({a.code} == np.int64({INT64_MIN}))"
            bad = self.set(either((bad, overflow)) or "False")
        return Value(code, null, bad)

    def _mod(self, node: Node) -> Value:
        if node.typed.kind == "float":
            a, b = (self.value(arg) for arg in node.args)
            null, bad = self.flags(a, b)
            zero = self.set(f"{b.code} == 0.0")
            wide = f"np.fmod(np.float64({a.code}), np.float64({b.code}))"
            return Value(self.set(f"np.float{node.typed.bits}({wide})"), self.any((null, zero)), bad)
        a, b, special, null, bad = self._division(node)
        safe = self.set(f"np.int64(1) if {special} else {b.code}")
        code = self.set(f"{a.code} - truncated_div({a.code}, {safe}) * {safe}")
        edge = max(abs(a.low), abs(a.high))
        return Value(code, null, bad, 0 if a.low >= 0 else -edge, min(edge, INT64_MAX))

    def _division(self, node: Node) -> tuple[Value, Value, str, str | None, str | None]:
        """Operands of an integer division, the divisors that the hardware must not get, and the flags."""
        a, b = (self.value(arg) for arg in node.args)
        null, bad = self.flags(a, b)
        zero = self.set(f"{b.code} == 0")
        return a, b, self.set(f"{zero} | ({b.code} == -1)"), self.any((null, zero)), bad

    def _neg(self, node: Node) -> Value:
        a = self.value(node.args[0])
        return self._folded(node, a, f"-{a.code}", -a.high, -a.low)

    def _abs(self, node: Node) -> Value:
        a = self.value(node.args[0])
        low = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
        return self._folded(node, a, f"abs({a.code})", low, max(abs(a.low), abs(a.high)))

    def _folded(self, node: Node, a: Value, code: str, low: int, high: int) -> Value:
        if node.typed.kind == "float":
            return derived(a, code=self.set(code))
        bad, up = a.bad, a.up
        if node.op == "neg" and up:
            up = self.set(f"not {up}")
        if high > INT64_MAX:  # the smallest integer has no positive counterpart
            edge = self.set(f"{a.code} == np.int64({INT64_MIN})")
            if node.op == "abs" and (a.bad is None or up):
                up = "True"  # the magnitude of a value out of range is out of range, too
            else:
                up = "True" if bad is None else None
            bad = self.set(either((bad, edge)) or "False")
        elif node.op == "abs" and up:
            up = "True"
        return Value(self.set(code), a.null, bad, max(low, INT64_MIN), min(high, INT64_MAX), up=up)

    def _floor(self, node: Node) -> Value:
        return self._whole(node, "np.floor", "")

    def _ceil(self, node: Node) -> Value:
        return self._whole(node, "np.ceil", "-")

    def _whole(self, node: Node, function: str, sign: str) -> Value:
        """Floor or ceiling; of a scaled integer, floor division, with both signs changed for the ceiling."""
        a, source = self.value(node.args[0]), node.args[0].typed
        if source.kind == "decimal":
            return derived(a, code=self.set(f"{sign}(({sign}{a.code}) // np.int64({10**source.scale}))"))
        return derived(a, code=self.set(f"to_int64({function}({a.code}))"), low=INT64_MIN, high=INT64_MAX)

    def _round(self, node: Node) -> Value:
        source = node.args[0].typed
        if source.kind != "decimal":
            return self.filled(node, OPERATIONS[node.op])
        a, unit = self.value(node.args[0]), 10**source.scale
        half = self.set(f"np.int64({-unit // 2}) if {a.code} < 0 else np.int64({unit // 2})")
        return derived(a, code=self.set(f"truncated_div({a.code} + {half}, np.int64({unit}))"))

    def _cast(self, node: Node) -> Value:
        a, source, target = self.value(node.args[0]), node.args[0].typed, node.typed
        if source == target or (source.kind == target.kind == "timestamp"):
            return self._rescale_time(a, source, target)
        if target.kind == "bool":
            return derived(a, code=self.set(f"{a.code} != 0"))
        if target.kind == "float":
            return self._to_float(a, source, target)
        if target.kind == "decimal":
            return self._rescale(a, source.scale if source.kind == "decimal" else 0, target.scale)
        if target.kind == "int":
            return self._to_int(a, source, target)
        if target.kind == "timestamp":
            unit = SECONDS[target.unit]
            if source.kind == "float":
                return derived(a, code=self.set(f"to_int64({a.code} * {float(unit)!r})"), low=INT64_MIN, high=INT64_MAX)
            return self._scaled(a, unit * (DAY if source.kind == "date" else 1))
        if target.kind == "date":
            days = self.set(f"{a.code} // np.int64({SECONDS[source.unit] * DAY})")
            return derived(a, code=days, low=a.low // DAY, high=a.high // DAY)
        raise AssertionError(f"no code for {brief(node)}")

    def _rescale_time(self, a: Value, source: Type, target: Type) -> Value:
        if source.unit == target.unit:
            return a
        if target.unit == "ns":
            return self._scaled(a, 1000)
        return derived(a, code=self.set(f"{a.code} // np.int64(1000)"), low=a.low // 1000, high=a.high // 1000)

    def _to_float(self, a: Value, source: Type, target: Type) -> Value:
        if source.kind == "decimal":
            code = f"np.float64({a.code}) / np.float64({10.0**source.scale!r})"
        elif source.kind == "timestamp":
            code = f"np.float64({a.code}) / np.float64({float(SECONDS[source.unit])!r})"
        else:
            code = a.code
        return derived(a, code=self.set(f"np.float{target.bits}({code})"), low=INT64_MIN, high=INT64_MAX)

    def _to_int(self, a: Value, source: Type, target: Type) -> Value:
        low, high = range_of(target)
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
        return Value(self.set(f"{pair}[0]"), a.null, self.set(either((a.bad, f"{pair}[1]")) or "False"), up=up)
