"""A segment that changes its access path when its tuples do not suit it.

It begins with the path that the predicate suggests. Whenever a quarter of its tuples are new, it checks them. If a grid
leaves many of them in the same bins (outliers, clusters, few values, one key with a large part of them), they move to
the path to which the first one gives way. After some more windows it tries the first one again, each time after twice
as long.
"""

from __future__ import annotations

from collections.abc import Iterable

from streamjoin.access import ACCESSES, Access
from streamjoin.access.by_record import take_in
from streamjoin.access.movable import Movable
from streamjoin.access.records import Stored
from streamjoin.access.segment import Search, Segment
from streamjoin.access.tape import Tape
from streamjoin.access.tuples import Shape, Tuples
from streamjoin.codegen.jit import OnDemand
from streamjoin.codegen.records import Array, address

FIRST_LOOK = 1 << 11  # tuples at the first check: with fewer, nothing is slow
PARTS = 4  # checks of a grid while the window is renewed; one is enough for a tree
PATIENCE = 8  # windows until the first path is tried again
# Fields of a record about arrivals and the stream, not about how its tuples are stored.
OF_THE_STREAM = {
    "source",
    "first",
    "begin",
    "end",
    "horizon",
    "oldest",
    "stop",
    "way",
    "ways",
    "stripe",
    "chunk",
    "chunks",
}


class Choosing(Segment):
    """One of two segments at a time. The record stays the same, so its users are not affected."""

    take_in = take_in

    def __init__(self, access: Access, shape: Shape, tape: Tape | None = None, way: int = -1) -> None:
        self._paths = access, ACCESSES[access.gives_way]
        self._now, self._looks, self._patience = 0, 0, PATIENCE
        self.shape = shape
        self.inner = _made(access, shape, tape, way)
        self.inner.look_again(FIRST_LOOK)
        self.record, self.address = self.inner.record, self.inner.address

    @property
    def find(self) -> OnDemand:  # type: ignore[override]
        """That of the path in use, as are the other functions."""
        return self.inner.find

    @property
    def access(self) -> str:
        """The name of the path in use."""
        return self._paths[self._now].name

    def attach(self, tape: Tape) -> None:
        self.inner.attach(tape)

    @property
    def columns(self) -> tuple[Array, ...]:
        return self.inner.columns

    def __len__(self) -> int:
        return len(self.inner)

    @property
    def nbytes(self) -> int:
        return self.inner.nbytes

    def insert(self, batch: Tuples) -> None:
        if not len(batch):
            return
        self.inner.offer(batch)
        while not self.inner.enter(self.address):
            self.make_room(len(batch))

    def expect(self, probes: Tuples) -> None:
        self.inner.expect(probes)

    def expire(self, horizon: int) -> None:
        self.inner.expire(horizon)

    def aim(self, batch: Tuples, search: Search) -> Tuples:
        return self.inner.aim(batch, search)

    def make_room(self, count: int) -> None:
        if not self.inner.due:
            self.inner.make_room(count)
            return
        self._looks += 1
        if self._now == 0 and self.inner.uneven:
            self._change(1)
        elif self._now == 1 and self._looks > self._patience:
            self._patience *= 2
            self._change(0)
        elif self._now == 1:
            self.inner.make_room(count)
        self.inner.look_again(max(len(self) if self._now else len(self) // PARTS, FIRST_LOOK))

    def _change(self, to: int) -> None:
        """Moves all tuples to the other path. The record keeps its address and the arrivals that are being inserted."""
        before, waiting = self.inner, {name: getattr(self.record, name) for name in OF_THE_STREAM}
        taken = int(before.taken)
        after = _made(self._paths[to], self.shape)
        if len(before):
            after.insert(before.tuples())
        for name in Stored.dtype.names or ():
            setattr(self.record, name, waiting[name] if name in OF_THE_STREAM else getattr(after.record, name))
        after.record, after.address, after.taken = self.record, address(self.record), taken
        self.inner, self._now, self._looks = after, to, 0


def in_use(planned: str, segments: Iterable[Segment]) -> str:
    """The access paths that segments use now: the planned one, unless some have changed it."""
    names = {segment.access if isinstance(segment, Choosing) else planned for segment in segments}
    return " and ".join(sorted(names))


def _made(access: Access, shape: Shape, tape: Tape | None = None, way: int = -1) -> Movable:
    made = access.segment(shape, tape, way)
    assert isinstance(made, Movable)
    return made
