"""One push in one compiled call: late? - prepare - insert - find - refine - expire, each called by its address.

It serves every access path and predicate, so it is compiled once per machine. It takes a batch as a whole, or declines
it without a change.
"""

from __future__ import annotations

from streamjoin.access.records import FULL, Probing, Stored
from streamjoin.codegen.intrinsics import address_of, call, record_at
from streamjoin.codegen.jit import inner, on_demand
from streamjoin.codegen.records import Address, Record, Word
from streamjoin.intake.arrive import Plain, hand_on, take
from streamjoin.windows import FOREVER, SINCE_EVER
from streamjoin.windows.kernels import earliest
from streamjoin.windows.watermark import Mark

DECLINED, TAKEN, ROOM, MORE, FAULT = range(5)  # what `push` returns; ROOM, MORE: make it, take pairs, and call again


class Push(Record):
    """The state of pushes of one side."""

    plain: Address  # Plain: the batch
    own: Address  # Stored: the window of this side,
    opposite: Address  # and of the other side
    take_in: Address  # function: of `own`; 0 if its `insert` is enough
    search: Address  # Probing
    phase: Word  # where to go on after ROOM or MORE
    last: Word  # has `find` returned all candidates?
    horizon: Word  # tuples of the other side below this `at` are met no more


READY, INSERTING, REFINING = range(3)  # phases


@on_demand
def push(address):
    """Joins an exported batch. After FAULT the search knows the reason."""
    way = record_at(address, Push)
    plain, search = record_at(way.plain, Plain), record_at(way.search, Probing)
    own, opposite = record_at(way.own, Stored), record_at(way.opposite, Stored)
    if way.phase == READY:
        if not hand_on(plain, take(plain, way.plain) and write_down(way, plain, own)):
            return DECLINED
        way.phase = INSERTING
    if way.phase == INSERTING:
        if not way.take_in and not call(own.insert, way.own):
            return ROOM
        own.stop = max(own.stop, plain.first + plain.rows)
        mark = record_at(plain.mark, Mark)
        mark.newest = max(mark.newest, plain.newest)
        aim(search, plain, opposite, way.opposite)
        find(way, search, opposite)
    while True:
        outcome = call(search.refine, way.search)
        if search.fault[0]:
            return FAULT
        if outcome == FULL:
            return MORE
        if way.last:
            break
        find(way, search, opposite)
    way.phase = READY
    expire(way, plain, opposite)
    return TAKEN


@inner
def write_down(way, plain, own):
    """A window on a tape takes a batch as a whole or not at all; others may take it in parts."""
    own.source, own.begin, own.end = address_of(plain, "batch"), 0, plain.rows
    return way.take_in == 0 or call(way.take_in, way.own) != 0


@inner
def aim(search, plain, opposite, stored):
    """Starts the search of a batch in the whole window of the other side."""
    search.batch, search.first, search.end, search.stored = address_of(plain, "batch"), 0, plain.rows, stored
    search.low, search.high, search.newest = opposite.oldest, opposite.stop, opposite.stop - 1
    search.count = search.run = search.step = search.row = search.ordered = 0
    search.at_range = search.at_position = search.found = 0


@inner
def find(way, search, opposite):
    way.last = call(opposite.find, way.search)
    way.phase = REFINING


@inner
def expire(way, plain, opposite):
    """Drops the tuples that no further tuple of this side can meet."""
    mark = record_at(plain.mark, Mark)
    reached = earliest(mark.newest, mark.max_delay, mark.promised)
    if reached == SINCE_EVER:
        return
    lower = plain.lower
    if lower < 0:
        way.horizon = reached + lower if reached >= SINCE_EVER - lower else SINCE_EVER
    else:
        way.horizon = reached + lower if reached <= FOREVER - lower else FOREVER
    if way.horizon > SINCE_EVER:
        opposite.horizon = way.horizon
        call(opposite.expire, way.opposite)
