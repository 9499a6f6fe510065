"""A band window in compiled code: arrivals become runs ordered by cell, runs are merged in tiers, old ones dropped.

    oldest  [  closed  ][  closed  ][  closed  ][ run ][ run ][r][raw]  newest
             about 1/PARTS of the window each    each at least GROWTH times the next

A few arrivals are kept as they come, in a raw run that is scanned. A raw run that has become long enough is ordered,
together with smaller runs before it. While the newest run is more than 1/GROWTH of the one before, the two become one,
so that a probe meets few runs. Once the newest runs together make up a part of the window, they become one that is
closed: it is merged no more, and dropped when its last tuple has expired.

What is more than AT_ONCE tuples is merged by a **job**, in small steps: each inserted tuple pays for PACE tuples moved.
A job's result is made beside its sources, which stay and are probed until it is complete and takes their place. Jobs
form a stack. One that is due while another is under way concerns newer runs, is smaller by far, and goes first. Since a
tuple is moved once per tier, and there are fewer tiers than PACE, a job of n tuples is done after a small part of n
inserts, long before the next one of its size is due.

The promises: a tuple is in exactly one run. An insert of n tuples does about PACE * n + AT_ONCE tuples' worth of work.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from streamjoin.access.band.bins import choose_grid, extent, new_keys, number_cells, total_cells
from streamjoin.access.band.memory import (
    BLOCK,
    EVERYWHERE,
    GRANULE,
    address_of,
    give_back,
    hold,
    in_vain,
    place,
    scatter_column,
    touch,
)
from streamjoin.access.layout import (
    BEGIN,
    BOX_FIELDS,
    BUCKETS,
    CELLS,
    CLOSED,
    DIRECTORY,
    END,
    FINITE_HIGH,
    FINITE_LOW,
    FIRST_AT,
    HIGH,
    JOB_COUNT,
    KEYED,
    LAST_AT,
    LIVE,
    LOW,
    NEWEST,
    ORIGIN,
    PAGE,
    RAW,
    RUN_COUNT,
    RUN_FIELDS,
    SCALE,
    STARVED,
    TAKEN,
    WIDTH,
    WORK,
)
from streamjoin.codegen.intrinsics import copy_bytes, pointer
from streamjoin.codegen.jit import inner, njit

GROWTH = 2
PARTS = 4
MOST_CLOSED = 2 * PARTS
SMALLEST_PART = 4096
HEAD = GRANULE  # a raw run below this size may take more arrivals: it lies in one granule
AT_ONCE = 1 << 14
PACE = 32
LEAST_PACE = 256  # tuples of work per insert, however small
ENDLESS = 1 << 60
PIECE = 512  # tuples between two looks at the budget
MOST_JOBS = 8

# A job: its runs FIRST..LAST-1; is the result closed?; distinct keys; the phase, and how far it is: run, tuple.
FIRST, LAST, CLOSES, KEYS, PHASE, AT_RUN, AT = range(7)
JOB_FIELDS = 7
# Phases, in this order: counting sort, cut into steps.
SEE, TOUCH, CLEAR, COUNT, SUM, MOVE, DONE = range(7)
# What a unit of work, one tuple moved, buys of the other things.
SEEN, CLEARED, COUNTED, SUMMED = 8, 64, 4, 16
TOUCHED = 64  # units for one array of a block


@njit(nogil=True, error_model="numpy", cache=True)
def insert(band, source, first, stop):
    """Adds arrivals first..stop-1 of the source. False: there is no room; make some and call again with the same
    arguments. What has been taken by then is remembered."""
    state, runs = band.state, band.runs
    taken = first + state[TAKEN]
    while taken < stop:
        count = min(stop - taken, AT_ONCE)
        if state[STARVED] or not add(band, source, taken, count):
            state[TAKEN] = taken - first
            return False
        taken += count
        if state[JOB_COUNT] or state[RAW] > 1 or size(runs, state[RUN_COUNT] - 1) >= HEAD:
            work(band, ENDLESS if crowded(state, runs) else max(PACE * count, LEAST_PACE))
    state[TAKEN] = 0
    if in_vain(state) > 0:
        give_back(state, runs, band.held, band.columns)
    return True


@njit(nogil=True, error_model="numpy", cache=True)
def expire(band, horizon):
    """Drops the oldest runs whose tuples all lie below the horizon; a job's runs only all at once."""
    state, runs, jobs = band.state, band.runs, band.jobs
    gone, dropped = 0, 0
    while gone < state[RUN_COUNT] and runs[gone, LAST_AT] < horizon:
        gone += 1
    for job in range(state[JOB_COUNT]):
        if jobs[job, LAST] <= gone:
            dropped = job + 1
        else:
            gone = min(gone, jobs[job, FIRST])
    if gone == 0:
        return
    for job in range(dropped, state[JOB_COUNT]):
        copy_run(runs, band.boxes, len(runs) - 1 - job, len(runs) - 1 - (job - dropped))
        copy_job(jobs, band.seen, job, job - dropped)
        jobs[job - dropped, FIRST] -= gone
        jobs[job - dropped, LAST] -= gone
    state[JOB_COUNT] -= dropped
    for run in range(state[RUN_COUNT]):
        if run < gone:
            state[LIVE] -= size(runs, run)
        else:
            copy_run(runs, band.boxes, run, run - gone)
    state[RUN_COUNT] -= gone
    state[CLOSED] = max(0, state[CLOSED] - gone)
    state[RAW] = min(state[RAW], state[RUN_COUNT])
    if in_vain(state) > 0:
        give_back(state, runs, band.held, band.columns)


@inner(error_model="numpy", forceinline=True)
def size(runs, run):
    return runs[run, END] - runs[run, BEGIN]


@njit(nogil=True, error_model="numpy", cache=True)
def crowded(state, runs):
    """Is there no row left for another run?"""
    return state[RUN_COUNT] + MOST_JOBS + 1 >= len(runs)


@inner(error_model="numpy")
def add(band, source, first, count):
    """Copies arrivals to the newest run if that is raw and has room, or else to a new one."""
    state, runs = band.state, band.runs
    run = state[RUN_COUNT] - 1
    if state[RAW] == 0 or size(runs, run) + count > HEAD:
        begin = -1 if crowded(state, runs) else place(state, runs, count, True)
        if begin < 0:
            return False
        run += 1
        runs[run, BEGIN], runs[run, END] = begin, begin
        runs[run, FIRST_AT], runs[run, LAST_AT] = source.at[first], source.at[first]
        runs[run, BUCKETS], runs[run, DIRECTORY] = 1, begin // 2
        for d in range(band.boxes.shape[2]):
            band.boxes[run, WIDTH, d] = 0.0
            band.boxes[run, ORIGIN, d], band.boxes[run, SCALE, d], band.boxes[run, CELLS, d] = 0.0, 0.0, 1.0
        state[RUN_COUNT] += 1
        state[RAW] += 1
    begin, end = runs[run, BEGIN], runs[run, END]
    copy_in(band.columns, band.coord, state[KEYED], source, first, count, end)
    for k in range(first, first + count):
        runs[run, FIRST_AT] = min(runs[run, FIRST_AT], source.at[k])
        runs[run, LAST_AT] = max(runs[run, LAST_AT], source.at[k])
        state[NEWEST] = max(state[NEWEST], source.number[k])
    for d in range(band.boxes.shape[2]):
        band.boxes[run, WIDTH, d] = max(band.boxes[run, WIDTH, d], np.float64(source.width[d]))
    extent(band.coord, begin, end + count, band.boxes[run])
    band.directory[begin // 2], band.directory[begin // 2 + 1] = 0, end + count - begin
    hold(state, band.held, end, end + count)
    runs[run, END] += count
    state[LIVE] += count
    return True


@inner(error_model="numpy")
def copy_in(columns, coord, keyed, source, first, count, end):
    """Copies arrivals first.. of a source to positions end.. of the band's columns."""
    own, dims = source.columns.shape[1], coord.shape[0]
    for c in range(own + dims + 3):
        size = columns[1, c]
        if c < own:
            address = source.columns[0, c]
        elif c < own + dims:
            address = address_of(source.coord) + (c - own) * source.coord.shape[1] * size
        elif c == own + dims:
            address = address_of(source.at)
        elif c == own + dims + 1:
            number = carray(pointer(columns[0, c]), EVERYWHERE, np.uint32)
            for k in range(count):
                number[end + k] = np.uint32(source.number[first + k])
            continue
        elif keyed:
            address = address_of(source.key)
        else:
            break
        copy_bytes(columns[0, c] + end * size, address + first * size, count * size)


@inner(error_model="numpy")
def work(band, budget):
    """Starts what is due. Does what is small at once, and spends a budget on the rest, the smallest job first."""
    state, runs, look = band.state, band.runs, True
    while True:
        if look:
            first, last, closes = due(state, runs, band.jobs)
            look = first < last and start(band, first, last, closes)
        job = state[JOB_COUNT] - 1
        if job < 0:
            return
        row = len(runs) - 1 - job
        small = size(runs, row) <= AT_ONCE + HEAD
        if budget <= 0 and not small:
            return
        spent = step(band, job, row, ENDLESS if small else budget)
        state[WORK] += spent
        if not small:
            budget -= max(spent, 1)
        if band.jobs[job, PHASE] == DONE:
            swap(band, job, row)
            look = True


@inner(error_model="numpy")
def total_size(runs, first, last):
    total = 0
    for run in range(first, last):
        total += size(runs, run)
    return total


@inner(error_model="numpy")
def due(state, runs, jobs):
    """Which runs, from the first up to but without the last, are to become one, and is that one closed?"""
    closed, free, last = state[CLOSED], state[CLOSED], state[RUN_COUNT]
    if state[JOB_COUNT]:
        free = max(free, jobs[state[JOB_COUNT] - 1, LAST])

    # What is raw, but for a run that may take more arrivals, with smaller runs before it.
    first = max(free, last - state[RAW])
    if first < last and size(runs, last - 1) < HEAD:
        last -= 1
    if first < last:
        total = total_size(runs, first, last)
        while first > free and size(runs, first - 1) < GROWTH * total and total + size(runs, first - 1) <= AT_ONCE:
            first -= 1
            total += size(runs, first)
        return first, last, False

    # Closed runs from before the window grew to its present size, up to a part of it.
    part = max(state[LIVE] // PARTS, SMALLEST_PART)
    if closed > MOST_CLOSED and state[JOB_COUNT] == 0:
        for first in range(closed - 1):
            behind, total = first + 1, size(runs, first)
            while behind < closed and total + size(runs, behind) <= part:
                total += size(runs, behind)
                behind += 1
            if behind > first + 1:
                return first, behind, False

    # All runs that are open, once they make up a part.
    if free == closed and total_size(runs, closed, last) >= part:
        if last > closed + 1:
            return closed, last, True
        state[CLOSED] += 1
        return 0, 0, False

    # The newest runs, as far as each is not GROWTH times as large as all newer ones together.
    first = max(last - 1, free)
    total = total_size(runs, first, last)
    while first > free and size(runs, first - 1) < GROWTH * total:
        first -= 1
        total += size(runs, first)
    return (first, last, False) if first < last - 1 else (0, 0, False)


@inner(error_model="numpy")
def start(band, first, last, closes):
    """Puts a job on the stack that makes one run of runs first..last-1. False if there is no room."""
    state, runs, boxes, job = band.state, band.runs, band.boxes, band.state[JOB_COUNT]
    if job == MOST_JOBS:
        return False
    total = total_size(runs, first, last)
    begin = place(state, runs, total, total <= AT_ONCE + HEAD)
    if begin < 0:
        state[STARVED] = 1
        return False
    row = len(runs) - 1 - job
    copy_run(runs, boxes, first, row)
    for run in range(first + 1, last):
        runs[row, FIRST_AT] = min(runs[row, FIRST_AT], runs[run, FIRST_AT])
        runs[row, LAST_AT] = max(runs[row, LAST_AT], runs[run, LAST_AT])
        for d in range(boxes.shape[2]):
            for field in (LOW, FINITE_LOW):
                boxes[row, field, d] = min(boxes[row, field, d], boxes[run, field, d])
            for field in (HIGH, FINITE_HIGH, WIDTH):
                boxes[row, field, d] = max(boxes[row, field, d], boxes[run, field, d])
    runs[row, BEGIN], runs[row, END], runs[row, DIRECTORY] = begin, begin + total, begin // 2
    for field in range(JOB_FIELDS):
        band.jobs[job, field] = 0
    for word in range(band.seen.shape[1]):
        band.seen[job, word] = 0
    band.jobs[job, FIRST], band.jobs[job, LAST], band.jobs[job, CLOSES] = first, last, np.int64(closes)
    state[JOB_COUNT] += 1
    return True


@inner(error_model="numpy")
def swap(band, job, row):
    """Puts a job's result, complete, in the place of its runs."""
    state, runs, boxes = band.state, band.runs, band.boxes
    first, last = band.jobs[job, FIRST], band.jobs[job, LAST]
    fewer = last - first - 1
    copy_run(runs, boxes, row, first)
    for run in range(last, state[RUN_COUNT]):
        copy_run(runs, boxes, run, run - fewer)
    state[RAW] = min(state[RAW], state[RUN_COUNT] - last)
    if band.jobs[job, CLOSES]:
        state[CLOSED] += 1
    elif first < state[CLOSED]:
        state[CLOSED] -= fewer
    state[RUN_COUNT] -= fewer
    state[JOB_COUNT] -= 1


@inner(error_model="numpy")
def copy_run(runs, boxes, run, to):
    for field in range(RUN_FIELDS):
        runs[to, field] = runs[run, field]
    for field in range(BOX_FIELDS):
        for d in range(boxes.shape[2]):
            boxes[to, field, d] = boxes[run, field, d]


@inner(error_model="numpy")
def copy_job(jobs, seen, job, to):
    for field in range(JOB_FIELDS):
        jobs[to, field] = jobs[job, field]
    for word in range(seen.shape[1]):
        seen[to, word] = seen[job, word]


@inner(error_model="numpy")
def step(band, job, row, budget):
    """Goes on with a job, through as many phases as the budget is enough for. Returns the work done."""
    jobs, runs, box, done = band.jobs, band.runs, band.boxes[row], 0
    while done < budget and jobs[job, PHASE] != DONE:
        phase = jobs[job, PHASE]
        if phase == SEE:
            if band.state[KEYED]:
                done += pass_over(band, job, row, budget - done, SEEN)
            else:
                jobs[job, PHASE] += 1
            if jobs[job, PHASE] != SEE:
                runs[row, BUCKETS] = choose_grid(size(runs, row), max(1, jobs[job, KEYS]), box, band.reach)
        elif phase == TOUCH:
            done += make_ready(band, job, row, budget - done)
        elif phase in (CLEAR, SUM):
            done += pass_directory(band, job, row, budget - done, CLEARED if phase == CLEAR else SUMMED)
        else:
            done += pass_over(band, job, row, budget - done, COUNTED if phase == COUNT else 1)
    return done


@inner(error_model="numpy")
def next_phase(jobs, job):
    jobs[job, PHASE] += 1
    jobs[job, AT_RUN], jobs[job, AT] = 0, 0


@inner(error_model="numpy")
def make_ready(band, job, row, budget):
    """Has memory stand behind the place of the result, array by array: few inserts then meet the end of a page."""
    jobs, columns, begin, end = band.jobs, band.columns, band.runs[row, BEGIN], band.runs[row, END]
    entries = total_cells(band.boxes[row], band.runs[row, BUCKETS]) + 1
    spent, arrays = 0, columns.shape[1]
    while spent < budget:
        which, block = jobs[job, AT_RUN], begin // BLOCK + jobs[job, AT]
        if which == arrays:
            next_phase(jobs, job)
            break
        if block * BLOCK >= end:
            jobs[job, AT_RUN], jobs[job, AT] = which + 1, 0
            continue
        jobs[job, AT] += 1
        if band.held[block]:
            spent += 1
            continue
        first, last = max(begin, block * BLOCK), min(end, block * BLOCK + BLOCK)
        if which < arrays - 1:
            touch(columns, which, first, last, band.state[PAGE])
        else:  # of the directory, two positions to an entry, no more than there are cells
            touch(columns, which, first, min(last, begin + 2 * entries), band.state[PAGE])
            hold(band.state, band.held, first, last)
        spent += TOUCHED
    return spent


@inner(error_model="numpy")
def pass_directory(band, job, row, budget, per_unit):
    """Clears the counts of cells, or turns them into the cells' ends, which become their starts as tuples are moved."""
    jobs, directory, at = band.jobs, band.directory, band.runs[row, DIRECTORY]
    entries = total_cells(band.boxes[row], band.runs[row, BUCKETS]) + 1
    first = jobs[job, AT]
    last = min(entries, first + min(budget, entries) * per_unit)
    if jobs[job, PHASE] == CLEAR:
        for entry in range(at + first, at + last):
            directory[entry] = 0
    else:
        for entry in range(at + max(first, 1), at + last):
            directory[entry] += directory[entry - 1]
    jobs[job, AT] = last
    if last == entries:
        next_phase(jobs, job)
    return (last - first) // per_unit


@inner(error_model="numpy")
def pass_over(band, job, row, budget, per_unit):
    """Takes one of three looks at the tuples of a job's runs: tells keys apart, counts by cell, or moves them."""
    jobs, runs, box, cell = band.jobs, band.runs, band.boxes[row], band.target
    phase, at, seen = jobs[job, PHASE], runs[row, DIRECTORY], 0
    while seen // per_unit < budget:
        run = jobs[job, FIRST] + jobs[job, AT_RUN]
        if run == jobs[job, LAST]:
            next_phase(jobs, job)
            break
        start = runs[run, BEGIN] + jobs[job, AT]
        count = min(runs[run, END] - start, PIECE, min(budget, PIECE) * per_unit)
        if phase == SEE:
            jobs[job, KEYS] += new_keys(band.key, start, start + count, band.seen[job])
        else:
            number_cells(band.coord, band.key, start, count, box, runs[row, BUCKETS], cell)
        if phase == COUNT:
            for k in range(count):
                band.directory[at + cell[k]] += np.uint32(1)
        if phase == MOVE:  # from each cell's end downwards
            for k in range(count):
                band.directory[at + cell[k]] -= np.uint32(1)
                cell[k] = band.directory[at + cell[k]]
            for column in range(band.columns.shape[1] - 1):  # the last one is the directory
                scatter_column(band.columns[1, column], band.columns[0, column], start, count, runs[row, BEGIN], cell)
        seen += count
        jobs[job, AT] += count
        if start + count == runs[run, END]:
            jobs[job, AT_RUN], jobs[job, AT] = jobs[job, AT_RUN] + 1, 0
    return seen // per_unit
