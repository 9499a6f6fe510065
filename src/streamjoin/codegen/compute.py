"""Generated code of expressions over pairs: for select=, aggregate=, and take= by an expression.

`compute` takes the address of a frame of words. Pairs are positions in the columns of both sides, or rows that lie side
by side.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from streamjoin.codegen.cache import load_module
from streamjoin.codegen.emit import Emitter
from streamjoin.codegen.pairs import views
from streamjoin.codegen.program import INTRINSICS, Part, head, parts_of, slots_of, type_name
from streamjoin.predicate.tree import Node, columns, walk

# A frame of `compute`; the addresses of values, of validities and of both sides' columns follow.
ROWS, POSITIONS_R, POSITIONS_S, FAULT, OUT = range(5)
FAULT_WORDS = 2  # which expression, counted from 1, and where

_TEXT = """
from {intrinsics} import carray, pointer, words_at


@njit(nogil=True, error_model="numpy", cache=True)
def compute(address):
    frame = words_at(address, {words})
    n = frame[{ROWS}]
    fault = words_at(frame[{FAULT}], {FAULT_WORDS})
    {arrays}
    for i in range(n):
        {positions}
{lines}
    return n
"""


class Computation:
    """Typed expressions over pairs. `aligned`: rows of r and s lie side by side, otherwise pairs are positions."""

    def __init__(self, nodes: tuple[Node, ...], aligned: bool) -> None:
        self.nodes, self._aligned = nodes, aligned
        types = {node.column: node.typed for node in walk(*nodes) if node.op == "column"}
        self.parts = {side: parts_of(types, side, columns(*nodes)) for side in "rs"}

    @cached_property
    def dtypes(self) -> tuple[np.dtype[Any], ...]:
        """The types in which the values are stored. Of a text, only its validity is stored."""
        return tuple(_dtype(node) for node in self.nodes)

    @cached_property
    def compute(self) -> Any:
        r, s, count = self.parts["r"], self.parts["s"], len(self.nodes)
        slots = slots_of("r", r, "p", "a") | slots_of("s", s, "w", "b")
        emitter = Emitter(slots, indent=" " * 8)
        huge = "np.int64(0x7FFFFFFFFFFF)"
        first = OUT + 2 * count
        arrays = [f"p = {views('frame', first, huge, r)}", f"w = {views('frame', first + len(r), huge, s)}"]
        for k, (node, dtype) in enumerate(zip(self.nodes, self.dtypes, strict=True)):
            arrays.append(f"out{k} = carray(pointer(frame[{OUT + k}]), (n,), np.{type_name(dtype)})")
            arrays.append(f"valid{k} = carray(pointer(frame[{OUT + count + k}]), (n,), np.bool_)")
            value = emitter.value(node)
            if value.bad is not None:
                emitter.lines.append(f"        if {value.bad}:\n            if fault[0] == 0:")
                emitter.lines.append(f"                fault[0], fault[1] = {k + 1}, i\n            continue")
            if node.typed.kind not in ("string", "binary"):
                emitter.lines.append(f"        out{k}[i] = {value.code}")
            emitter.lines.append(f"        valid{k}[i] = not ({value.null or 'False'})")
        positions = "a = b = i"
        if not self._aligned:
            positions = "a, b = at_r[i], at_s[i]"
            arrays.append(f"at_r, at_s = words_at(frame[{POSITIONS_R}], n), words_at(frame[{POSITIONS_S}], n)")
        names = {name: value for name, value in globals().items() if name.isupper() and isinstance(value, int)}
        text = _TEXT.format(
            intrinsics=INTRINSICS,
            words=first + len(r) + len(s),
            arrays="\n    ".join(arrays),
            positions=positions,
            lines="\n".join(emitter.lines),
            **names,
        )
        return load_module(head() + text).compute

    def sides(self) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
        """The columns that it reads of r and of s."""
        return self.parts["r"], self.parts["s"]


def _dtype(node: Node) -> np.dtype[Any]:
    t = node.typed
    if t.kind == "float":
        return np.dtype(f"float{t.bits}")
    return np.dtype(np.bool_ if t.kind == "bool" else np.int64)
