"""What happens in every cycle of a chain in lock step. The circuit of `chain.py` does the same in the same cycles.

Tuples are known by their place in their stream; NOTHING stands for a tuple that is not there. Everything that the
circuit decides in a cycle it decides by registers, as they were when the cycle began. Here things happen one after the
other, in an order that comes to the same: who reads comes before who writes.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from streamjoin.codegen.jit import inner, njit
from streamjoin.codegen.records import Array, PerSide, Record, Word

NOTHING = -1  # a tuple that is not there: of a row that was filtered out, or before the first
STILL = -2  # a step in which this stream does not move
MOST_LEVELS = 16
MOST_DELAY = 64  # cycles from a comparison to its FIFO


class Clock(Record):
    """A chain's shape, and where it is."""

    cores: Word
    scanners: Word
    down: Word  # see `lockstep.Chain`
    up: Word
    delay: Word  # cycles from the address of a tuple to the write into the FIFO
    depth: Word
    merger: Word
    mergers: Word
    expedited: Word
    longest: PerSide  # segment
    both: Word  # cycles of a step of both streams,
    only: PerSide  # of one
    rows: PerSide
    margin: PerSide  # of even and odd FIFOs
    # where it is
    cycle: Word
    timer: Word  # cycles until a step may be admitted
    scan: Word  # of the step under way: address cycles so far; -1 if there is none
    moves: PerSide  # which streams move in it
    home: PerSide  # of the next tuple, if tuples have one
    turn: PerSide  # and its place in the window
    full: Word  # FIFOs that have less than their margin
    waiting: Word  # results on their way
    taken: Word  # steps of the present input that have been admitted
    pause: Word  # cycles until the next one is offered
    pausing: Word  # has its pause begun?
    # what was counted
    steps: Word
    last: Word  # cycle in which one was admitted
    throttled: Word  # cycles in which a step waited for the throttle signal alone
    idle: Word  # cycles in which nothing moved and no step waited
    starts: Annotated[Array, (np.int64, MOST_LEVELS, 2)]  # admitted steps on their way to the cores, by cycle
    throttles: Annotated[Array, (np.int64, MOST_LEVELS)]  # the throttle signal on its way, by cycle


class Parts(NamedTuple):
    """The arrays of a chain."""

    lengths: Array  # int64 (2, cores): of segments
    oldest: Array  # int64 (2, cores): where a segment's oldest tuple lies
    segments: Array  # int64 (2, cores, longest)
    probes: Array  # int64 (2, cores): what entered last
    first: Array  # int64 (cores): the oldest s before the step, and where it lay
    first_at: Array
    found: Array  # int64 (MOST_DELAY, leaves, 2): results on their way to the FIFOs, by cycle
    fifo: Array  # int64 (FIFOs, entries, 2): leaves, then mergers
    head: Array  # int64 (FIFOs)
    count: Array  # int64 (FIFOs)
    highest: Array  # int64 (FIFOs): most entries so far
    inputs: Array  # int64 (mergers, fan-in): FIFOs; NOTHING where there are fewer
    token: Array  # int64 (mergers): the input whose turn it is
    grant: Array  # int64 (mergers): the FIFO that a merger takes from in this cycle
    compared: Array  # int64 (cores): pairs
    results: Array  # int64 (cores)


class Input(NamedTuple):
    """Steps for the chain, in order."""

    r: Array  # int64: the place of the r that enters, NOTHING, or STILL
    s: Array
    pause: Array  # int64: cycles in which nothing is offered, before each
    ready: Array  # bool: by cycle, from the first on and again from the beginning: is a result taken?
    matches: Array  # bool (2^i, 2^j): by place of r and s, does the pair match?
    until: int  # cycles after which to return at the latest
    dry: bool  # return when all steps have been admitted and all results are out


class Out(NamedTuple):
    """What came out."""

    r: Array
    s: Array
    cycle: Array  # in which the result was taken
    admitted: Array  # int64: by step of the input, the cycle in which it was admitted
    trace: Array  # int64 (cycles, observed): what the circuit must show, by cycle; none if there is no row


# Columns of a trace; the count of each FIFO follows.
READY, THROTTLE, OUT_VALID, OUT_R, OUT_S, COUNTS = range(6)


@inner
def push(clock, parts, fifo, r, s):
    """Adds a result to a FIFO; False if it is lost."""
    room = clock.depth if fifo < clock.cores * clock.scanners else clock.merger
    if parts.count[fifo] == room:
        return False
    at = (parts.head[fifo] + parts.count[fifo]) % room
    parts.fifo[fifo, at, 0], parts.fifo[fifo, at, 1] = r, s
    parts.count[fifo] += 1
    parts.highest[fifo] = max(parts.highest[fifo], parts.count[fifo])
    if fifo < clock.cores * clock.scanners and parts.count[fifo] == room - clock.margin[fifo % 2] + 1:
        clock.full += 1
    return True


@inner
def pop(clock, parts, fifo):
    """Takes the oldest result of a FIFO."""
    room = clock.depth if fifo < clock.cores * clock.scanners else clock.merger
    at = parts.head[fifo]
    parts.head[fifo] = (at + 1) % room
    if fifo < clock.cores * clock.scanners and parts.count[fifo] == room - clock.margin[fifo % 2] + 1:
        clock.full -= 1
    parts.count[fifo] -= 1
    return parts.fifo[fifo, at, 0], parts.fifo[fifo, at, 1]


@inner
def merge(clock, parts, taken):
    """One cycle of the merging network: a merger takes one result, of the first input that has any, token first."""
    leaves = clock.cores * clock.scanners
    for m in range(clock.mergers):
        parts.grant[m] = NOTHING
        if parts.count[leaves + m] < clock.merger:
            fan = 0
            while fan < parts.inputs.shape[1] and parts.inputs[m, fan] != NOTHING:
                fan += 1
            chosen = 0
            for k in range(fan):
                at = (parts.token[m] + k) % fan
                if parts.grant[m] == NOTHING and parts.count[parts.inputs[m, at]]:
                    parts.grant[m] = parts.inputs[m, at]
                    chosen = at
            if parts.grant[m] != NOTHING:
                parts.token[m] = (chosen + 1) % fan
    out = NOTHING, NOTHING
    if taken:
        out = pop(clock, parts, leaves + clock.mergers - 1)
        clock.waiting -= 1
    for m in range(clock.mergers - 1, -1, -1):
        if parts.grant[m] != NOTHING:
            r, s = pop(clock, parts, parts.grant[m])
            push(clock, parts, leaves + m, r, s)
    return out


@inner
def compare(clock, parts, core, scanner, r, s, matches):
    """A scanner compares two tuples; a match reaches its FIFO some cycles later."""
    if r == NOTHING or s == NOTHING:
        return
    parts.compared[core] += 1
    if matches[r & (matches.shape[0] - 1), s & (matches.shape[1] - 1)]:
        at = (clock.cycle + clock.delay) % MOST_DELAY
        leaf = core * clock.scanners + scanner
        parts.found[at, leaf, 0], parts.found[at, leaf, 1] = r, s
        parts.results[core] += 1
        clock.waiting += 1


@inner
def scan(clock, parts, matches):
    """One address cycle of the step under way, in all cores.

    The r that entered meets s as it was before the step: its oldest, which may have left, then what follows it. The s
    that entered meets r as it is after the step.
    """
    c = clock.scan
    for side in range(2):
        c_side = c
        if clock.scanners == 1 and side == 1 and clock.moves[0]:
            c_side = c - clock.longest[1]
        if not clock.moves[side] or c_side < 0:
            continue
        for k in range(clock.cores):
            if c_side >= parts.lengths[1 - side, k] or parts.probes[side, k] == NOTHING:
                continue
            if side == 0:
                at = (parts.first_at[k] + c_side) % parts.lengths[1, k]
                s = parts.segments[1, k, at] if c_side else parts.first[k]
                compare(clock, parts, k, 0, parts.probes[0, k], s, matches)
            else:
                at = (parts.oldest[0, k] + c_side) % parts.lengths[0, k]
                compare(clock, parts, k, clock.scanners - 1, parts.segments[0, k, at], parts.probes[1, k], matches)
    clock.scan += 1
    last = 0
    if clock.scanners == 1:
        last = clock.moves[0] * clock.longest[1] + clock.moves[1] * clock.longest[0]
    else:
        last = max(clock.moves[0] * clock.longest[1], clock.moves[1] * clock.longest[0])
    if clock.scan >= last:
        clock.scan = -1


@inner
def shift(clock, parts, side, entering):
    """A stream moves by one tuple, in all cores at once: against the direction, so that who leaves is read before."""
    n = clock.cores
    if clock.expedited:
        home = clock.home[side]
        for k in range(n):
            parts.probes[side, k] = entering
        parts.segments[side, home, parts.oldest[side, home]] = entering
        parts.oldest[side, home] = (parts.oldest[side, home] + 1) % parts.lengths[side, home]
        clock.turn[side] = (clock.turn[side] + 1) % clock.rows[side]
        clock.home[side] = 0 if clock.turn[side] == 0 else (home + 1) % n
        return
    for j in range(n):
        k = n - 1 - j if side == 0 else j
        before = k - 1 if side == 0 else k + 1
        tuple_in = entering
        if 0 <= before < n:
            tuple_in = parts.segments[side, before, parts.oldest[side, before]]
        parts.probes[side, k] = tuple_in
        parts.segments[side, k, parts.oldest[side, k]] = tuple_in
        parts.oldest[side, k] = (parts.oldest[side, k] + 1) % parts.lengths[side, k]


@inner
def start(clock, parts, r, s):
    """A step begins in all cores."""
    clock.moves[0], clock.moves[1] = r != STILL, s != STILL
    clock.scan = 0
    for k in range(clock.cores):
        parts.first_at[k] = parts.oldest[1, k]
        parts.first[k] = parts.segments[1, k, parts.oldest[1, k]]
    if r != STILL:
        shift(clock, parts, 0, r)
    if s != STILL:
        shift(clock, parts, 1, s)


@inner
def admit(clock, given, out, throttled):
    """The entrance: takes a step if one is offered, the last one is over and no core throttles."""
    at = clock.cycle % MOST_LEVELS
    clock.starts[at, 0], clock.starts[at, 1] = STILL, STILL
    offered = False
    if clock.taken < len(given.r):
        if not clock.pausing:
            clock.pause, clock.pausing = given.pause[clock.taken], 1
        offered = clock.pause == 0
        clock.pause = max(clock.pause - 1, 0)
    if clock.timer > 0:
        clock.timer -= 1
        return
    if not offered:
        clock.idle += 1
        return
    if throttled:
        clock.throttled += 1
        return
    r, s = given.r[clock.taken], given.s[clock.taken]
    clock.starts[at, 0], clock.starts[at, 1] = r, s
    clock.timer = (clock.both if s != STILL else clock.only[0]) - 1 if r != STILL else clock.only[1] - 1
    out.admitted[clock.taken] = clock.cycle
    clock.last = clock.cycle
    clock.taken += 1
    clock.pausing = 0
    clock.steps += 1


@inner
def observe(clock, parts, out, row, throttled):
    """Writes what the circuit's registers must show in this cycle."""
    root = clock.cores * clock.scanners + clock.mergers - 1
    out.trace[row, READY] = clock.timer == 0 and not throttled
    out.trace[row, THROTTLE] = throttled
    out.trace[row, OUT_VALID] = parts.count[root] > 0
    out.trace[row, OUT_R], out.trace[row, OUT_S] = NOTHING, NOTHING
    if parts.count[root]:
        out.trace[row, OUT_R] = parts.fifo[root, parts.head[root], 0]
        out.trace[row, OUT_S] = parts.fifo[root, parts.head[root], 1]
    for k in range(root + 1):
        out.trace[row, COUNTS + k] = parts.count[k]


@inner
def at_rest(clock):
    """Is no step under way, and no result?"""
    begun = clock.cycle > clock.last + clock.down or clock.steps == 0
    return begun and clock.waiting == 0 and clock.scan < 0 and clock.timer == 0


@njit(nogil=True, cache=True)
def run(clock, parts, given, out):
    """Simulates cycles. Returns the number of results; -1 if one was lost because a FIFO was full."""
    root = clock.cores * clock.scanners + clock.mergers - 1
    found = 0
    for row in range(given.until):
        if found == len(out.r):
            break
        if given.dry and clock.taken == len(given.r) and at_rest(clock):
            break
        cycle = clock.cycle
        clock.throttles[cycle % MOST_LEVELS] = clock.full > 0
        throttled = cycle > clock.up and clock.throttles[(cycle - 1 - clock.up) % MOST_LEVELS] > 0
        if row < len(out.trace):
            observe(clock, parts, out, row, throttled)
        if clock.waiting:
            taken = parts.count[root] > 0 and given.ready[row % len(given.ready)]
            r, s = merge(clock, parts, taken)
            if taken:
                out.r[found], out.s[found], out.cycle[found] = r, s, cycle
                found += 1
            at = cycle % MOST_DELAY
            for leaf in range(clock.cores * clock.scanners):
                if parts.found[at, leaf, 0] != NOTHING:
                    if not push(clock, parts, leaf, parts.found[at, leaf, 0], parts.found[at, leaf, 1]):
                        return -1
                    parts.found[at, leaf, 0] = NOTHING
        if clock.scan >= 0:
            scan(clock, parts, given.matches)
        admit(clock, given, out, throttled)
        if cycle >= clock.down:
            begin = (cycle - clock.down) % MOST_LEVELS
            if clock.starts[begin, 0] != STILL or clock.starts[begin, 1] != STILL:
                start(clock, parts, clock.starts[begin, 0], clock.starts[begin, 1])
        clock.cycle += 1
    return found
