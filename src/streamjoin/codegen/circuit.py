"""From a typed tree to a pipelined circuit: the predicate as Amaranth expressions.

Every addition, comparison, magnitude and change of scale takes one cycle; logic takes none. An operand that is ready
before the other one waits in registers. Numbers get as many bits as they need, so nothing overflows: the answer is that
of the Numba kernels wherever these have one. Columns hold no nulls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from streamjoin.errors import PredicateError
from streamjoin.predicate.tree import Node, bottom_up, brief, columns, literal, physical
from streamjoin.predicate.types import BOOL, Type

WHOLE = ("bool", "int", "decimal", "timestamp", "date", "interval")  # kinds that are stored as whole numbers
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq_null_safe": lambda a, b: a == b,
}
ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "neg": lambda a: -a,
    "abs": abs,
}
LOGIC = ("and", "or", "not")
DECIDED = {"and": False, "or": True}  # what one argument decides
BECOME = {"column", *COMPARISONS, *ARITHMETIC, *LOGIC}  # gates; besides literals and casts
NANOS = 1000  # in a microsecond
KNOWN = "comparisons, AND, OR, NOT, +, - and abs of whole and fixed-point numbers"


class Gates:
    """A resolved predicate as a circuit. A predicate that cannot become one raises a PredicateError with the reason.

    >>> import pyarrow as pa
    >>> from streamjoin.predicate import as_tree
    >>> from streamjoin.predicate.resolve import resolve
    >>> x = pa.schema({"x": pa.int32()})
    >>> Gates(resolve(as_tree("abs(r.x - s.x) <= 10"), x, x)).stages
    3
    """

    def __init__(self, tree: Node) -> None:
        self.tree = without_nulls(tree)
        self._order = bottom_up(self.tree)
        for node in self._order:
            _check(node)

    @cached_property
    def columns(self) -> list[tuple[str, str, Type]]:
        """What the predicate reads: side, name and type."""
        types = {node.column: node.typed for node in self._order if node.op == "column"}
        return [(side, name, types[side, name]) for side, name in sorted(columns(self.tree))]

    @cached_property
    def _stage(self) -> dict[Node, int]:
        """By node: the cycle in which its value is ready, counted from that of the columns."""
        found: dict[Node, int] = {}
        for node in self._order:
            latest = max((found[arg] for arg in node.args), default=0)
            constant = not node.reads
            found[node] = (
                0 if constant else latest + (node.op in ARITHMETIC or node.op in COMPARISONS or _scale(node) != 1)
            )
        return found

    @cached_property
    def stages(self) -> int:
        """Cycles from the columns to the answer, at least one."""
        return max(1, self._stage[self.tree])

    def emit(self, module: Any, slots: Mapping[tuple[str, str], Any]) -> Any:
        """Adds the predicate to an Amaranth module, in its domain `sync`. Returns the answer, `stages` cycles later."""
        from amaranth.hdl import Const, Mux, Signal, Value

        stage, wires = self._stage, dict[Node, Any]()
        delayed: dict[tuple[Node, int], Any] = {}

        def kept(value: Any) -> Any:
            value = Value.cast(value)
            register = Signal(value.shape(), reset_less=True)
            module.d.sync += register.eq(value)
            return register

        def at(node: Node, when: int) -> Any:
            """A node's value, delayed by registers until the cycle in which it is needed."""
            if not node.reads or when == stage[node]:
                return wires[node]
            if (node, when) not in delayed:
                delayed[node, when] = kept(at(node, when - 1))
            return delayed[node, when]

        for node in self._order:
            now = max((stage[arg] for arg in node.args), default=0)
            args = [at(arg, now) for arg in node.args]
            if node.op == "column":
                wires[node] = slots[node.column]
            elif node.op == "literal":
                wires[node] = Const(int(physical(node)))
            elif node.op == "not":
                wires[node] = ~args[0].as_unsigned()[0]
            elif node.op in LOGIC:
                bits = [Value.cast(arg).as_unsigned()[0] for arg in args]
                wires[node] = bits[0]
                for bit in bits[1:]:
                    wires[node] = wires[node] & bit if node.op == "and" else wires[node] | bit
            elif node.op == "cast":
                factor = _scale(node)
                wires[node] = args[0] if factor == 1 else kept(args[0] * factor) if node.reads else args[0] * factor
            elif node.op == "abs":
                a = Value.cast(args[0])
                value = Mux(a < 0, -a, a).as_signed() if a.shape().signed else a
                wires[node] = kept(value) if node.reads else value
            else:
                value = (COMPARISONS | ARITHMETIC)[node.op](*args)
                wires[node] = kept(value) if node.reads else value
        answer = Value.cast(at(self.tree, stage[self.tree])).as_unsigned()[0]
        return kept(answer) if stage[self.tree] < self.stages else answer


def without_nulls(tree: Node) -> Node:
    """The tree where no column has a null: what compares a column with a constant beyond its type is TRUE or FALSE."""
    found: dict[Node, Node] = {}
    for node in bottom_up(tree):
        args = tuple(found[arg] for arg in node.args)
        known = {bool(arg.constant) for arg in args if arg.op == "literal" and arg.constant is not None}
        if node.op == "is_null":
            found[node] = literal(False, BOOL)
        elif node.op == "not" and known:
            found[node] = literal(not known.pop(), BOOL)
        elif node.op in DECIDED and DECIDED[node.op] in known:
            found[node] = literal(DECIDED[node.op], BOOL)
        else:
            found[node] = node if args == node.args else replace(node, args=args)
    return found[tree]


def _check(node: Node) -> None:
    """Refuses what cannot become a circuit."""
    t = node.typed
    if t.kind not in WHOLE:
        what = f"{brief(node)} is {t}" if node.op == "column" else f"{brief(node)} has type {t}"
        raise PredicateError(
            f"{what}, which cannot become a circuit: store it as a whole number or a decimal with a fixed scale"
        )
    if node.op == "literal":
        if node.constant is None:
            raise PredicateError("NULL cannot become a circuit, whose columns hold no nulls")
        return
    if node.op == "cast":
        if _scale(node) == 0:
            raise PredicateError(
                f"{brief(node)} cannot become a circuit: a cast there may only widen; cast before the join"
            )
    elif node.op not in BECOME:
        raise PredicateError(
            f"{node.op} in {brief(node)} does not become a circuit, which has {KNOWN}; compute it as a column before"
        )


def _scale(node: Node) -> int:
    """The factor of a cast; 0 if the cast is no multiplication, 1 if the node is no cast."""
    if node.op != "cast":
        return 1
    source, target = node.args[0].typed, node.typed
    if source == target:
        return 1
    if source.kind == target.kind == "int":
        return int(source.bits <= target.bits)
    if source.kind == "bool" and target.kind == "int":
        return 1
    if target.kind == "decimal" and source.kind in ("int", "decimal"):
        digits = target.scale - (source.scale if source.kind == "decimal" else 0)
        return int(10**digits) if digits >= 0 else 0
    if source.kind == target.kind and source.kind in ("timestamp", "interval"):
        return 1 if source.unit == target.unit else NANOS if target.unit == "ns" else 0
    return 0
