"""The generated code of a join of two whole tables: ends of intervals and key hashes of rows, and the exact test.

    bounds   for every row that may match at all: where its intervals begin and end, in float64, and its key hash
    test     of candidates, the pairs that match

Both are called with the address of a frame of words, so that each is compiled for one signature whatever it reads.
"""

from __future__ import annotations

from functools import cached_property
from types import ModuleType

from streamjoin.codegen.cache import load_module
from streamjoin.codegen.emit import Emitter
from streamjoin.codegen.program import INTRINSICS, Part, Program, head, slots_of, type_name
from streamjoin.predicate.analysis import Analysis, Dimension, Linear

LOW, HIGH = 0, 1
FAULT_WORDS = 3  # code of the failure, row or position on r, position on s

# A frame of `bounds`; the addresses of ends and columns follow.
ROWS, FIRST, FAULT, KEPT, KEY, ENDS = range(6)

# A frame of `test`; the addresses of both sides' columns follow.
(
    TEST_FAULT,
    FIRST_PAIR,  # candidates: pairs from here on in OUT_R and OUT_S; those that match move to the front
    PAIRS_END,
    OUT_R,
    OUT_S,
    FROM_R,  # of a tile: positions of both sides, and where to continue
    TO_R,
    FROM_S,
    TO_S,
    ROOM,
    SINCE,  # the window of an r: from SINCE to UNTIL; if all are equally wide, WIDTH ticks from SINCE + LOWER on
    LOWER,
    UNTIL,
    WIDTH,
    AT,
    COUNTS,  # of partners, by position of r
    TEST_COLUMNS,
) = range(17)

_BOUNDS = """

@on_demand(error_model="numpy")
def bounds(address):
    frame = words_at(address, {words})
    n, first = frame[{ROWS}], frame[{FIRST}]
    fault = words_at(frame[{FAULT}], {FAULT_WORDS})
    rows = carray(pointer(frame[{KEPT}]), (n,), np.uint32)
    key = carray(pointer(frame[{KEY}]), (n,), np.uint32)
    {arrays}
    k = 0
    for i in range(n):
{lines}
        rows[k] = np.uint32(first + i)
        k += 1
    return k
"""

_TEST = """

@on_demand(error_model="numpy")
def test(address):
    frame = words_at(address, {words})
    begin, end, room = frame[{FIRST_PAIR}], frame[{PAIRS_END}], frame[{ROOM}]
    out_r = carray(pointer(frame[{OUT_R}]), (room,), np.uint32)
    out_s = carray(pointer(frame[{OUT_S}]), (room,), np.uint32)
    fault = words_at(frame[{TEST_FAULT}], {FAULT_WORDS})
    {columns}
    found = begin
{loop}
    return found
"""
_PAIRS = """\
    for k in range(begin, end):
        a, b = np.int64(out_r[k]), np.int64(out_s[k])
{guard}        out_r[found], out_s[found] = a, b
        found += np.int64({near}matches(p, a, w, b, fault))
"""
_TILE = """\
    first, b = frame[{FROM_S}], np.int64(0)
    for a in range(frame[{FROM_R}], frame[{TO_R}]):
        if room - found < frame[{TO_S}] - first:
            frame[{FROM_R}] = a
            return found
        for b in range(first, frame[{TO_S}]):
{guard}            out_r[found], out_s[found] = a, b
            found += np.int64({near}matches(p, a, w, b, fault))
    frame[{FROM_R}] = frame[{TO_R}]
"""
_COUNTING = """\
    counts = carray(pointer(frame[{COUNTS}]), ({HUGE},), np.uint32)
    first = frame[{FROM_R}]
    for k in range(frame[{TO_R}] - first):
        {own} = first + k
        partners = np.uint32(0)
        for {other} in range(np.int64(out_r[k]), np.int64(out_s[k])):
{guard}            {counted} += np.uint32({near}matches(p, a, w, b, fault))
        {together}
"""
_IMPORTS = f"from {INTRINSICS} import axis, carray, pointer, words_at\n"
PAIRS, TILES, COUNTS_OF_R, COUNTS_OF_S = range(4)  # what candidates are: pairs, all of two ranges, ranges of the others
ANYWHERE, SAME_WIDTH, EACH = range(3)  # windows: all pairs lie in it; it is as wide for every r; it is not
_NEAR = {
    ANYWHERE: "",
    SAME_WIDTH: "(np.uint64(at[b] - since[a] - lower) <= width)",  # what comes before is very far behind
    EACH: "((since[a] <= at[b]) & (at[b] <= until[a]))",
}


_LOOPS = {
    PAIRS: (_PAIRS, {}),
    TILES: (_TILE, {}),
    # An r has its sum in a register, and its candidates lie side by side: they are compared as vectors.
    COUNTS_OF_R: (_COUNTING, {"own": "a", "other": "b", "counted": "partners", "together": "counts[a] += partners"}),
    COUNTS_OF_S: (_COUNTING, {"own": "b", "other": "a", "counted": "counts[a]", "together": ""}),
}
HUGE = 0x7FFFFFFFFFFF  # positions are checked nowhere; arrays of any length do


class PairProgram(Program):
    """The compiled form of a predicate for whole tables. What it has generated it keeps."""

    def __init__(self, analysis: Analysis) -> None:
        super().__init__(analysis)
        self._bounds: dict[str, ModuleType] = {}
        self._tests: dict[tuple[int, int], ModuleType] = {}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What its dimensions are called."""
        return tuple(map(str, self.dimensions))

    @cached_property
    def ends(self) -> dict[str, tuple[tuple[int, int], ...]]:
        """By side: the ends of intervals that `bounds` computes, as (dimension, LOW or HIGH).

        A point has one end: its upper one is the lower one.
        """
        found: dict[str, tuple[tuple[int, int], ...]] = {}
        for side in "rs":
            own = []
            for d, dimension in enumerate(self.dimensions):
                low, high = dimension.low(side), dimension.high(side)
                own += [(d, LOW)] if low else []
                own += [(d, HIGH)] if high and not is_point(dimension, side) else []
            found[side] = tuple(own)
        return found

    def bounds(self, side: str) -> ModuleType:
        """The module whose `bounds` filters rows of a side and computes the ends of their intervals and key hashes."""
        if side not in self._bounds:
            self._bounds[side] = self._made_bounds(side)
        return self._bounds[side]

    def _made_bounds(self, side: str) -> ModuleType:
        parts, ends = self.entry[side], self.ends[side]
        emitter = Emitter(slots_of(side, parts, "columns", "i"), indent=" " * 8)
        self._filter(emitter, side)
        for k, (d, end) in enumerate(ends):
            dimension = self.dimensions[d]
            linear = dimension.low(side) if end == LOW else dimension.high(side)
            assert linear is not None
            emitter.lines.append(f"        end{k}[k] = axis({self._bound(emitter, linear, -1 if end == LOW else 1)})")
        if self.keyed:
            self._hash(emitter, side, "k")
        arrays = [f"end{k} = carray(pointer(frame[{ENDS + k}]), (n,), np.float64)" for k in range(len(ends))]
        arrays.append(f"columns = {views('frame', ENDS + len(ends), 'n', parts)}")
        text = _BOUNDS.format(
            words=ENDS + len(ends) + len(parts),
            arrays="\n    ".join(arrays),
            lines="\n".join(emitter.lines),
            **_names(),
        )
        return load_module(head() + _IMPORTS + text)

    def test(self, window: int, form: int) -> ModuleType:
        """The module whose `test` finds the pairs that match and lie in such a window, of candidates in such a form.

        It returns how many pairs there are then. Partners that are only counted are added to `COUNTS`.
        """
        if (window, form) not in self._tests:
            self._tests[window, form] = self._made_test(window, form)
        return self._tests[window, form]

    def _made_test(self, window: int, form: int) -> ModuleType:
        r, s = self.stored["r"], self.stored["s"]
        columns = [
            f"p = {views('frame', TEST_COLUMNS, HUGE, r)}",
            f"w = {views('frame', TEST_COLUMNS + len(r), HUGE, s)}",
        ]
        if window != ANYWHERE:
            columns += [f"since, at = words_at(frame[{SINCE}], {HUGE}), words_at(frame[{AT}], {HUGE})"]
        if window == SAME_WIDTH:
            columns.append(f"lower, width = frame[{LOWER}], np.uint64(frame[{WIDTH}])")
        elif window == EACH:
            columns.append(f"until = words_at(frame[{UNTIL}], {HUGE})")
        near, guarded, indent = _NEAR[window], bool(self._costly("r")), " " * (8 if form == PAIRS else 12)
        text, words = _LOOPS[form]
        loop = text.format(
            guard=f"{indent}if not {near}:\n{indent}    continue\n" if near and guarded else "",
            near=f"{near} & " if near and not guarded else "",
            **words,
            **_names(),
        )
        text = _TEST.format(words=TEST_COLUMNS + len(r) + len(s), columns="\n    ".join(columns), loop=loop, **_names())
        return load_module(head() + _IMPORTS + self._embedded.text + self.match_text("r") + text, self._embedded.inject)


def is_point(dimension: Dimension, side: str) -> bool:
    """Are both ends of a side's intervals the same value, without slack?"""
    low, high = dimension.low(side), dimension.high(side)
    return isinstance(low, Linear) and low == high and not low.slack


def _names() -> dict[str, int]:
    return {name: value for name, value in globals().items() if name.isupper() and isinstance(value, int)}


def views(frame: str, first: int, length: str | int, parts: tuple[Part, ...]) -> str:
    """The tuple of arrays whose addresses stand in a frame from a word on."""
    views = [
        f"carray(pointer({frame}[{first + k}]), ({length},), np.{type_name(part.dtype)})"
        for k, part in enumerate(parts)
    ]
    return f"({', '.join(views)}{',' * (len(views) == 1)})"
