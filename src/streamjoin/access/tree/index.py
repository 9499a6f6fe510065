"""Tree access: the arrays of a segment, and what its runs are ordered by. What happens to it is in `runs.py`."""

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
OFTEN = 2 * HEAD  # tuples between two looks at what runs are ordered by; in large windows, as many as there are


class TreeSegment(Movable):
    """Ordered runs with trees of minima. `forest` is all of it, for compiled code that takes over."""

    find = find
    enter = insert
    forget = expire
    take_in = insert

    def __init__(self, shape: Shape, tape: Tape | None = None, way: int = -1) -> None:
        super().__init__(shape)
        self.forest = Forest.new()
        ends = shape.ends or tuple((d, kind) for d in range(shape.dims) for kind in (LOW, HIGH))
        self.forest.ends, self.forest.keyed = len(ends), shape.keyed
        for e, (dim, kind) in enumerate(ends):
            self.forest.dim[e], self.forest.kind[e] = dim, kind
        self.forest.axes[1] = -1
        self._limits = np.zeros((ASIDE, MOST_ENDS), np.float32)
        self._runs = Run.array(RUNS)
        self.forest.limits = address(self._limits)
        self.forest.runs, self.forest.run_room = address(self._runs), RUNS
        self._use_index(self.forest)
        self._clear(FIRST_ROOM)
        if tape is not None:
            self.attach(tape)

    def attach(self, tape: Tape) -> None:
        record = self.record
        record.source, record.ways, record.stripe = tape.record.source, tape.ways, tape.stripe

    def __len__(self) -> int:
        oldest = int(self.forest.oldest)  # first: another thread may ask meanwhile
        return int(self.forest.stop) - oldest

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (*self.arrays, *self.places.values(), self.trees))

    @property
    def runs(self) -> Array:
        """The runs there are, oldest first."""
        return self._runs[: self.forest.run_count]

    def expire(self, horizon: int) -> None:
        super().expire(horizon)
        if not len(self) and self.record.room > FIRST_ROOM:
            self._clear(FIRST_ROOM)

    def build(self, window: Tuples, probe_width: Array) -> None:
        """Becomes one run over a window of at least one tuple, for probes that lie as its own tuples do."""
        n, forest, ends = len(window), self.forest, int(self.forest.ends)
        self._clear(max(HEAD, 1 << (n - 1).bit_length()))
        self.offer(window)
        enter_all(self.address)
        wide = np.nan_to_num(probe_width)[forest.dim[:ends]].astype(np.float32)
        some = self.trees[:, np.arange(0, n, max(1, n // ASIDE))[:ASIDE]].T + wide
        self._limits[: len(some), :ends], forest.asked = some, len(some)
        self.choose(always=True)

    def make_room(self, count: int) -> None:
        """More room where it is missing. Where none is, it is time to choose anew what runs are ordered by."""
        forest, record = self.forest, self.record
        room = int(record.room)
        if self.due:
            self.choose()
            self.look_again(max(len(self), OFTEN))
        elif len(self) == room:
            self._new_ring(2 * room)
        elif forest.run_count == forest.run_room:
            self._runs = np.concatenate([self._runs, np.zeros_like(self._runs)])
            forest.runs, forest.run_room = address(self._runs), len(self._runs)
        else:
            self._new_index(-(-3 * int(forest.capacity) // (2 * HEAD)) * HEAD)

    def choose(self, always: bool = False) -> None:
        """Orders the runs by what suits the tuples and the probes seen so far, if that is something else."""
        forest = self.forest
        if not len(self):
            return
        ends, values = int(forest.ends), self._sample()
        limits = self._limits[: min(int(forest.asked), ASIDE), :ends]
        if not len(limits):  # nobody has probed yet: as if tuples like these would
            limits = values[:, :ASIDE].T
        dims, axes = forest.dim[:ends].tolist(), tuple(forest.axes.tolist())
        chosen = choose_axes(values, limits, dims, axes, len(self))
        if chosen != axes:
            forest.axes[:] = chosen
            rank_again(self.address)
        if chosen != axes or always:
            self._order_again()

    @property
    def due(self) -> bool:
        """Is it time for a look at what runs are ordered by?"""
        return bool(self.forest.stop >= self.forest.look)

    def look_again(self, after: int) -> None:
        """Has `insert` stop once so many more tuples have come."""
        self.forest.look = self.forest.stop + after

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
        newest = int(self.record.stop) - 1
        number = newest - ((newest - low_number.astype(np.int64)) & 0xFFFFFFFF)
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
        """Sorts every run by ranks that are new."""
        ranks, order = self.places["rank"], self.places["order"]
        for run in self.runs[: self.forest.run_count - self.forest.growing]:
            begin, end = int(run.begin), int(run.begin + run.count)
            order[begin:end] = begin + np.argsort(ranks[begin:end], kind="stable")
        order_again(self.address)

    def _clear(self, room: int) -> None:
        """Starts with an empty window."""
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
        """Moves the runs to larger arrays; each keeps its places."""
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
