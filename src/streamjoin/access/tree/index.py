"""Tree access: the arrays of a segment, and the choice of its runs' order. `runs.py` has its operations."""

from __future__ import annotations

import numpy as np

from streamjoin.access.movable import Movable
from streamjoin.access.tape import Tape
from streamjoin.access.tree.axes import choose_axes
from streamjoin.access.tree.records import ASIDE, FAN_OUT, HEAD, MOST_ENDS, Forest, Run
from streamjoin.access.tree.runs import enter_all, expire, insert, order_again, rank_again
from streamjoin.access.tree.search import find
from streamjoin.access.tuples import HIGH, LOW, Shape, Tuples, addresses
from streamjoin.codegen.intrinsics import FARTHEST
from streamjoin.codegen.records import Array, address

FIRST_ROOM = 1 << 12  # tuples
RUNS = 64
OFTEN = 2 * HEAD  # tuples between two checks of the order of runs; in larger windows, the size of the window


class TreeSegment(Movable):
    """Ordered runs with trees of minima. `forest` is its whole state, for compiled code."""

    find = find
    enter = insert
    forget = expire
    take_in = insert
    first_room = FIRST_ROOM

    def __init__(self, shape: Shape, tape: Tape | None = None, way: int = -1) -> None:
        super().__init__(shape)
        self.forest = Forest.new()
        ends = shape.ends or tuple((d, kind) for d in range(shape.dims) for kind in (LOW, HIGH))
        self.forest.ends, self.forest.keyed = len(ends), shape.keyed
        for e, (dim, kind) in enumerate(ends):
            self.forest.dim[e], self.forest.kind[e] = dim, kind
        self.forest.axes[1] = -1
        self._limits = np.zeros((ASIDE, MOST_ENDS), np.float32)
        self.forest.limits = address(self._limits)
        self._use_index(self.forest, Run.array(RUNS))
        self._clear(FIRST_ROOM)
        if tape is not None:
            self.attach(tape)

    def __len__(self) -> int:
        oldest = int(self.forest.oldest)  # read first, so that another thread never gets a negative length
        return int(self.forest.stop) - oldest

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (*self.arrays, *self.places.values(), self.trees))

    def build(self, window: Tuples, probe_width: Array) -> None:
        """Becomes one run over a window of at least one tuple, for probes that are distributed as its own tuples."""
        n, forest, ends = len(window), self.forest, int(self.forest.ends)
        self._clear(max(HEAD, 1 << (n - 1).bit_length()))
        self.offer(window)
        enter_all(self.address)
        wide = np.nan_to_num(probe_width)[forest.dim[:ends]].astype(np.float32)
        some = self.trees[:, np.arange(0, n, max(1, n // ASIDE))[:ASIDE]].T + wide
        self._limits[: len(some), :ends], forest.asked = some, len(some)
        self.choose(always=True)

    def make_room(self, count: int) -> None:
        """Adds the room that is missing. If none is, it is time for a check of the order of runs."""
        forest, record = self.forest, self.record
        room = int(record.room)
        if self.due:
            self.choose()
            self.look_again(max(len(self), OFTEN))
        elif len(self) == room:
            self._new_ring(2 * room)
        elif forest.run_count == forest.run_room:
            self._more_runs()
        else:
            self._new_index(-(-3 * int(forest.capacity) // (2 * HEAD)) * HEAD)

    def choose(self, always: bool = False) -> None:
        """Orders the runs by the axes that suit the tuples and the probes so far, if these are others than now."""
        forest = self.forest
        if not len(self):
            return
        ends, values = int(forest.ends), self._sample()
        limits = self._limits[: min(int(forest.asked), ASIDE), :ends]
        if not len(limits):  # there were no probes yet: assumes probes like the tuples
            limits = values[:, :ASIDE].T
        dims, axes = forest.dim[:ends].tolist(), tuple(forest.axes.tolist())
        chosen = choose_axes(values, limits, dims, axes, len(self))
        if chosen != axes:
            forest.axes[:] = chosen
            rank_again(self.address)
        if chosen != axes or always:
            self._order_again()

    @property
    def entered(self) -> int:
        return int(self.forest.stop)

    def tuples(self) -> Tuples:
        """All tuples in order of arrival."""
        forest, dims, n = self.forest, self.shape.dims, len(self)
        lo, hi = np.full((dims, n), -FARTHEST, np.float32), np.full((dims, n), FARTHEST, np.float32)
        key, oldest = np.zeros(n, np.uint32), int(forest.oldest)
        for run in self.runs:
            begin, count = int(run.begin), int(run.count)
            low = self.places["ordinal"][begin : begin + count].astype(np.int64)
            which = ((low - oldest) & 0xFFFFFFFF).astype(np.int64)
            live = which < n
            key[which[live]] = ((self.places["rank"][begin : begin + count] >> 32) + (1 << 31))[live]
            for e in range(int(forest.ends)):
                values = self.trees[e, begin + begin // 8 :][:count][live]
                box, sign = (hi, -1) if forest.kind[e] & 1 else (lo, 1)
                box[forest.dim[e], which[live]] = sign * values
        there = np.arange(oldest, int(forest.stop)) & (int(self.record.room) - 1)
        *columns, at, low_number = (array[there] for array in self.arrays)
        number = self._numbers(low_number)
        coord = np.where(lo > -FARTHEST, lo, hi)
        wide = np.nextafter((hi.astype(np.float64) - lo).max(axis=1, initial=0).astype(np.float32), np.float32(np.inf))
        return Tuples(tuple(columns), lo, hi, coord, wide, key, at, at, at, number)

    def _sample(self, most: int = 512) -> Array:
        """The values of some tuples, by end."""
        parts = []
        for run in self.runs:
            base = int(run.begin) + int(run.begin) // 8
            parts.append(np.arange(base, base + int(run.count)))
        there = np.concatenate(parts)
        return self.trees[:, there[:: max(1, len(there) // most)]]

    def _order_again(self) -> None:
        """Sorts every run by its new ranks."""
        ranks, order = self.places["rank"], self.places["order"]
        for run in self.runs[: self.forest.run_count - self.forest.growing]:
            begin, end = int(run.begin), int(run.begin + run.count)
            order[begin:end] = begin + np.argsort(ranks[begin:end], kind="stable")
        order_again(self.address)

    def _clear(self, room: int) -> None:
        forest = self.forest
        forest.run_count = forest.closed = forest.growing = forest.taken = 0
        forest.oldest = forest.stop = 0
        forest.look = OFTEN
        self.arrays: tuple[Array, ...] = tuple(
            np.empty(0, dtype) for dtype in (*self.shape.columns, np.dtype(np.int64), np.dtype(np.uint32))
        )
        self.places: dict[str, Array] = {}
        self.trees: Array = np.empty((int(forest.ends), 0), np.float32)
        self._new_ring(room)
        self._new_index(2 * room)

    def _new_ring(self, room: int) -> None:
        """Moves the tuples to a ring of another size, a power of two."""
        record, forest = self.record, self.forest
        ordinals = np.arange(forest.oldest, forest.stop)
        before = self.arrays
        self.arrays = tuple(np.empty(room, array.dtype) for array in before)
        if len(ordinals):
            for old, new in zip(before, self.arrays, strict=True):
                new[ordinals & (room - 1)] = old[ordinals & (len(old) - 1)]
        self._columns = addresses(self.columns)
        record.room, record.columns = room, address(self._columns)
        record.at, record.number = (address(array) for array in self.arrays[-2:])

    def _new_index(self, capacity: int) -> None:
        """Moves the runs to larger arrays; tuples keep their places."""
        forest, before = self.forest, self.places
        kinds = {"rank": np.int64, "ordinal": np.uint32, "order": np.uint32, "spare": np.uint64}
        self.places = {name: np.empty(capacity, kind) for name, kind in kinds.items()}
        values = np.empty((int(forest.ends), capacity + capacity // 8 + FAN_OUT), np.float32)
        for name in ("rank", "ordinal") if before else ():
            self.places[name][: len(before[name])] = before[name]
        values[:, : self.trees.shape[1]] = self.trees
        self.trees = values
        forest.capacity, forest.values, forest.stride = capacity, address(values), values.shape[1]
        for name, array in self.places.items():
            setattr(forest, name, address(array))


SEGMENT = TreeSegment
