"""The kernels of undecided tuples: add them, hasten some of them, and find those that are due.

Most tuples are due in the order in which they came: for each block of them the earliest end is known. Those that are
hastened are due in any order, and lie in a heap besides.
"""

from __future__ import annotations

from streamjoin.codegen.intrinsics import bytes_at, record_at, records_at, words_at
from streamjoin.codegen.jit import inner, on_demand
from streamjoin.codegen.records import Address, Record, Word
from streamjoin.windows import FOREVER


class Entry(Record):
    """A tuple that is due earlier than its block says."""

    due: Word
    number: Word


class Waitlist(Record):
    """Tuples by position: number `first` is at position 0. Open is one that is not decided."""

    first: Word
    next: Word
    due: Address  # int64, by position: what the input must have passed
    time: Address  # int64, by position: of its result
    open: Address  # bool, by position
    block: Word  # tuples of a block
    low: Address  # int64, by block: no open tuple is due below this
    early: Address  # int64, by block: no open tuple has a time below this
    left: Address  # int64, by block: how many are open
    soonest: Word  # nothing is due below this
    heap: Address  # Entry: the one that is due first at the top
    hastened: Word  # entries of the heap
    count: Word  # of what is added
    ends: Address  # int64: when they are due
    times: Address  # int64: of their results
    passed: Word  # how far the input has come,
    below: Word  # of tuples below this number
    ended: Word  # has it ended?
    found: Address  # int64: positions of tuples that are decided
    room: Word  # for so many of them


@inner
def block_of(waiting, at):
    return at // waiting.block


@on_demand
def append(address):
    """Adds the next tuples. There is room."""
    waiting = record_at(address, Waitlist)
    begin, count = waiting.next - waiting.first, waiting.count
    end = begin + count
    due, time, is_open = words_at(waiting.due, end), words_at(waiting.time, end), bytes_at(waiting.open, end)
    ends, times = words_at(waiting.ends, count), words_at(waiting.times, count)
    blocks = block_of(waiting, end - 1) + 1
    low, early, left = words_at(waiting.low, blocks), words_at(waiting.early, blocks), words_at(waiting.left, blocks)
    done = 0
    while done < count:
        block = block_of(waiting, begin + done)
        stop = min(count, (block + 1) * waiting.block - begin)
        lowest, earliest = low[block], early[block]
        for k in range(done, stop):
            due[begin + k], time[begin + k], is_open[begin + k] = ends[k], times[k], 1
            lowest, earliest = min(lowest, ends[k]), min(earliest, times[k])
        low[block], early[block] = lowest, earliest
        left[block] += stop - done
        waiting.soonest = min(waiting.soonest, lowest)
        done = stop
    waiting.next += count
    return count


@inner
def rise(heap, at, due, number):
    """Puts an entry into a heap that ends at a place."""
    while at > 0:
        above = (at - 1) >> 1
        if heap[above].due <= due:
            break
        heap[at].due, heap[at].number = heap[above].due, heap[above].number
        at = above
    heap[at].due, heap[at].number = due, number


@inner
def remove_top(heap, count):
    """Removes the first entry of a heap of `count`."""
    last = count - 1
    due, number, at = heap[last].due, heap[last].number, 0
    while True:
        below = 2 * at + 1
        if below >= last:
            break
        if below + 1 < last and heap[below + 1].due < heap[below].due:
            below += 1
        if due <= heap[below].due:
            break
        heap[at].due, heap[at].number = heap[below].due, heap[below].number
        at = below
    heap[at].due, heap[at].number = due, number


@inner
def put_earlier(waiting, at, due):
    """A tuple is due earlier than was known. There is room in the heap."""
    words_at(waiting.due, at + 1)[at] = due
    rise(records_at(waiting.heap, waiting.hastened + 1, Entry), waiting.hastened, due, at + waiting.first)
    waiting.hastened += 1
    waiting.soonest = min(waiting.soonest, due)


@inner
def decide_hastened(waiting):
    """Decides about tuples from the heap; how many."""
    heap, entries = records_at(waiting.heap, waiting.hastened, Entry), waiting.hastened
    end, found = waiting.next - waiting.first, words_at(waiting.found, waiting.room)
    is_open, left = bytes_at(waiting.open, end), words_at(waiting.left, block_of(waiting, end) + 1)
    count = kept = 0
    while waiting.hastened and heap[0].due < waiting.passed and count < waiting.room:
        due, number = heap[0].due, heap[0].number
        remove_top(heap, waiting.hastened)
        waiting.hastened -= 1
        at = number - waiting.first
        if number >= waiting.below:  # later: it goes behind the heap until then
            kept += 1
            heap[entries - kept].due, heap[entries - kept].number = due, number
        elif at >= 0 and is_open[at]:
            is_open[at] = 0
            left[block_of(waiting, at)] -= 1
            found[count] = at
            count += 1
    for k in range(entries - kept, entries):
        rise(heap, waiting.hastened, heap[k].due, heap[k].number)
        waiting.hastened += 1
    return count


@on_demand
def decide(address):
    """Decides about tuples below a number that are due, or about all of them in the end; how many.

    If it finds as many as there is room for, there may be more.
    """
    waiting = record_at(address, Waitlist)
    if waiting.ended:
        waiting.hastened = 0
    count, end, room = decide_hastened(waiting), waiting.next - waiting.first, waiting.room
    due, is_open, found = words_at(waiting.due, end), bytes_at(waiting.open, end), words_at(waiting.found, room)
    blocks = block_of(waiting, end - 1) + 1 if end else 0
    low, left = words_at(waiting.low, blocks), words_at(waiting.left, blocks)
    soonest = FOREVER
    for block in range(blocks):
        if left[block] and (low[block] < waiting.passed or waiting.ended) and count < room:
            lowest = FOREVER
            for at in range(block * waiting.block, min((block + 1) * waiting.block, end)):
                if not is_open[at]:
                    continue
                wanted = (due[at] < waiting.passed or waiting.ended) and waiting.first + at < waiting.below
                if wanted and count < room:
                    is_open[at] = 0
                    left[block] -= 1
                    found[count] = at
                    count += 1
                else:
                    lowest = min(lowest, due[at])
            low[block] = lowest
        elif not left[block]:
            low[block] = FOREVER
        soonest = min(soonest, low[block])
    if waiting.hastened:
        soonest = min(soonest, records_at(waiting.heap, 1, Entry)[0].due)
    waiting.soonest = soonest
    return count
