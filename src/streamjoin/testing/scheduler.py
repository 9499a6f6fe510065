"""A deterministic scheduler: runs a protocol's step functions without threads, in an order drawn from a seed.

    scenario(name, seed)        what arrives, in which windows, over which topology, with how much room in the queues
    Case.explore(seed, count)   many schedules of it: who moves when, and how old the news are that it acts upon
    Case.report(seed)           one of them again, move by move
    Bench(case)                 a schedule that a test directs itself

It does what a runtime does, and shares nothing with one. There is a queue per node and direction in front of the node,
first in, first out, bounded; the state of every node; a window per node and side, as a set of numbers. Every PROBE and
MEET is carried out on numbers, and every pair that meets is counted. A run ends when nothing can move. Then every pair
that lies in the window must have met once, no pair twice, and no message and no tuple may be left. On the way it is
checked that a protocol keeps what it promises to a runtime: see the failures below.

The loop is compiled, and calls the protocol by address. So a hundred thousand schedules take some fifteen seconds, and
a fault is a function that wraps another one. Nothing is cached on disk, loop or protocol: Numba looks at the age of one
file only, and would go on testing what a constant or a function of another file used to be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any, NamedTuple

import numpy as np
from numba import cfunc, int64
from numba.core.caching import NullCache

from streamjoin.algorithms import biclique, grid, handshake, low_latency, protocol
from streamjoin.algorithms import celljoin as cell
from streamjoin.algorithms.protocol import (
    ACKNOWLEDGEMENT,
    ACTION_WORDS,
    ARRIVAL,
    BODY,
    DIRECTION,
    DO,
    DROP,
    EXPEDITION_END,
    EXPIRED,
    EXPIRY,
    FIRST,
    HI,
    INSERT,
    KEEP,
    KIND,
    LO,
    MEET,
    NEIGHBOUR,
    NOWHERE,
    PLACE,
    PROBE,
    ROOM,
    SEEN,
    SEND,
    SHARE,
    SIDE,
    SIZE,
    STATE_WORDS,
    STOP,
    STRETCH,
    TURN,
    TURNS,
    WAIT,
    WORDS,
    R,
    S,
    Topology,
    Words,
    new_node,
)
from streamjoin.codegen.jit import njit

# What can be wrong with a run; several bits may be set.
MISSED = 1  # a pair in the window has not met
DOUBLED = 2  # a pair has met twice
STUCK = 4  # nothing moves, yet messages are left
LEFT = 8  # a window is not empty, or tuples are still said to be needed
NO_ROOM = 16  # a message was sent into a full queue, or to nobody
ASTRAY = 32  # a window is not all of the node's own tuples between the last drop and the last insert
FREED = 64  # a tuple was needed that the node had given up (KEEP): a runtime may have overwritten it
HALF = 128  # a step said WAIT and had changed something
HORIZON = 256  # a drop names another horizon than the driver did
ANY = 511
NAMES = ("missed", "doubled", "stuck", "left", "no room", "astray", "freed", "half", "horizon")

FAR = 1 << 40  # room where there is no next node
AGES = 4  # published sizes that are remembered: a neighbour may act upon any of them
MOST_ROUNDS = 100_000  # far beyond any run of this size
FEED, TAKE, REST, MOVES = 0, 2, 4, 5  # moves of a node's: the driver or the node itself, by direction; rest; how many
TO_NODE, TO_DIRECTION, MESSAGE = 0, 1, 2  # a line of the driver's script: which queue, then the message

NODES, TUPLES, LINES, CAPACITY, ACTIONS = 6, 20, 400, 8, 100  # of the largest case

# What all schedules of a case have in common. Records, since they are passed as one address: quick to compile.
PLAN = [
    ("nodes", np.int64),
    ("next", np.int64, (NODES, 2)),  # [node, direction]: the next node, or -1
    ("capacity", np.int64),  # places in a queue
    ("strict", np.int64),  # the driver waits until a message has room; else it looks after every queue by itself
    ("keeps", np.int64),  # nodes have windows of their own
    ("lines", np.int64),
    ("script", np.int64, (LINES, MESSAGE + WORDS)),  # [line, word]: what the driver sends
    ("follow", np.int64, LINES),  # [line]: the next line for the same queue, or -1
    ("tuples", np.int64, 2),  # [side]
    ("eligible", np.int64, (TUPLES, TUPLES)),  # [r, s]: does the pair lie in the window?
    ("horizons", np.int64, (2, TUPLES + 1)),  # [side, n]: places of the first n tuples lie below
]

# One schedule on its way.
STATE = [
    ("nodes", np.int64, (NODES, STATE_WORDS)),
    ("queue", np.int64, (NODES, 2, CAPACITY, WORDS)),  # [node, direction, place, word]
    ("head", np.int64, (NODES, 2)),
    ("length", np.int64, (NODES, 2)),
    ("cursor", np.int64, (NODES, 2)),  # [node, direction]: the driver's next line, or -1
    ("published", np.int64, (NODES, 2, AGES)),  # [node, side, age]: sizes, as neighbours may see them
    ("held", np.int64, (NODES, 2, TUPLES)),  # [node, side, number]: is it in the node's window?
    ("inserted", np.int64, (NODES, 2)),  # [node, side]: tuples below have been inserted
    ("dropped", np.int64, (NODES, 2)),  # [node, side]: tuples below have been dropped
    ("met", np.int64, (TUPLES, TUPLES)),  # [r, s]: how often
    ("met_at", np.int64, (TUPLES, TUPLES)),  # [r, s]: at which node, at last
    ("met_by", np.int64, (TUPLES, TUPLES)),  # [r, s]: PROBE or MEET, and the side that arrived: 2 * action + side
    ("before", np.int64, STATE_WORDS),  # the node's state before the present call
    ("message", np.int64, WORDS),
    ("out", np.int64, (ACTIONS, ACTION_WORDS)),
    ("actions", np.int64),  # how many the last call asked for
    ("sent", np.int64),  # lines of the script
    ("failures", np.int64),
    ("random", np.int64),
    ("careless", np.int64),  # nodes act upon old news
]

Record = Any  # a numpy record

MODULES: dict[str, Any] = {
    "low_latency": low_latency,
    "handshake": handshake,
    "grid": grid,
    "cell": cell,
    "biclique": biclique,
}

for _module in (protocol, *MODULES.values()):
    for _function in vars(_module).values():
        if hasattr(_function, "py_func"):
            _function._cache = NullCache()


class Protocol(NamedTuple):
    """Step and rest behind addresses: the loop is compiled once for all protocols and faults."""

    step: Any
    rest: Any


@cache
def by_address(function: Callable[..., Any], *arguments: Any) -> Any:
    return cfunc(int64(*arguments))(getattr(function, "py_func", function))


def compiled(step: Callable[..., Any], rest: Callable[..., Any]) -> Protocol:
    """A protocol, or a wrapper around one, as the scheduler calls it."""
    words, lines = int64[::1], int64[:, ::1]
    return Protocol(by_address(step, words, words, lines), by_address(rest, words, lines))


@njit
def draw(state, n):
    """A number below n: the upper bits of a linear congruential generator."""
    state.random = state.random * 6364136223846793005 + 1442695040888963407
    return ((state.random >> 33) & 0x3FFFFFFF) % n


@njit
def fail(state, what):
    state.failures |= what


@njit
def copy(source, target):
    for i in range(len(source)):
        target[i] = source[i]


@njit
def push(plan, state, node, direction, message):
    if node < 0 or state.length[node, direction] == plan.capacity:
        fail(state, NO_ROOM)
        return
    place = (state.head[node, direction] + state.length[node, direction]) % plan.capacity
    copy(message, state.queue[node, direction, place])
    state.length[node, direction] += 1


@njit
def feed(plan, state, k, direction):
    """The driver fills a queue. Returns whether it could."""
    line = state.cursor[k, direction]
    if line < 0 or (plan.strict and line != state.sent) or state.length[k, direction] == plan.capacity:
        return False
    copy(plan.script[line, MESSAGE:], state.message)
    push(plan, state, k, direction, state.message)
    state.cursor[k, direction] = plan.follow[line]
    state.sent += 1
    state.actions = 0
    return True


@njit
def look_round(plan, state, k):
    """Tells a node what it may know of its neighbours.

    There may be more room than it has noticed, never less: it alone fills the queue. Sizes may be old ones.
    """
    for d in range(2):
        to, room, size = plan.next[k, d], FAR, 0
        if to >= 0:
            room, size = plan.capacity - state.length[to, d], state.published[to, d, 0]
            if state.careless and draw(state, 8) == 0:
                room = draw(state, room + 1)
            if state.careless and draw(state, 4) == 0:
                size = state.published[to, d, draw(state, AGES)]
        state.nodes[k, ROOM + d], state.nodes[k, NEIGHBOUR + d] = room, size
    copy(state.nodes[k], state.before)


@njit
def look_back(state, k):
    """Publishes what neighbours may know of a node. Returns whether its state has changed."""
    node, changed = state.nodes[k], False
    for side in range(2):
        sizes = state.published[k, side]
        if node[SIZE + side] != sizes[0]:
            for age in range(AGES - 1, 0, -1):
                sizes[age] = sizes[age - 1]
            sizes[0] = node[SIZE + side]
        if node[KEEP + side] < state.before[KEEP + side]:
            fail(state, FREED)
    for word in range(SEEN, STATE_WORDS):
        changed |= node[word] != state.before[word]
    return changed


@njit
def rest(protocol, plan, state, k):
    """A node does what is due without a message. Returns whether anything was."""
    look_round(plan, state, k)
    state.actions = protocol.rest(state.nodes[k], state.out[:])
    perform(plan, state, k)
    return look_back(state, k) or state.actions > 0


@njit
def take(protocol, plan, state, k, direction):
    """A node takes the oldest message of a queue. Returns whether there was one, and it could."""
    if state.length[k, direction] == 0:
        return False
    look_round(plan, state, k)
    copy(state.queue[k, direction, state.head[k, direction]], state.message)
    state.actions = protocol.step(state.nodes[k], state.message[:], state.out[:])
    if state.actions == WAIT:
        if look_back(state, k):
            fail(state, HALF)
        return False
    state.head[k, direction] = (state.head[k, direction] + 1) % plan.capacity
    state.length[k, direction] -= 1
    perform(plan, state, k)
    look_back(state, k)
    return True


@njit
def perform(plan, state, k):
    for i in range(state.actions):
        do, direction, body = state.out[i, DO], state.out[i, DIRECTION], state.out[i, BODY:]
        side, first, stop = body[SIDE], body[FIRST], body[STOP]
        if do in (PROBE, MEET, INSERT) or (do == SEND and body[KIND] == ARRIVAL):
            if first < state.before[KEEP + side]:
                fail(state, FREED)
        if do == SEND:
            push(plan, state, plan.next[k, direction], direction, body)
        elif do in (PROBE, MEET):
            compare(plan, state, k, do, side, first, stop, body[LO], body[HI])
        elif do == INSERT:
            insert(state, k, side, first, stop)
        elif do == DROP:
            drop(plan, state, k, side, stop, body[PLACE])


@njit
def compare(plan, state, k, do, side, first, stop, lo, hi):
    """Arrivals meet tuples of the other side: those of the node's window (PROBE), or all of a range (MEET)."""
    other = 1 - side
    if do == MEET and lo < state.before[KEEP + other]:
        fail(state, FREED)
    for i in range(first, stop):
        for j in range(lo, min(hi, plan.tuples[other])):
            if do == MEET or state.held[k, other, j]:
                r, s = (i, j) if side == R else (j, i)
                state.met[r, s] += 1
                state.met_at[r, s], state.met_by[r, s] = k, 2 * do + side


@njit
def insert(state, k, side, first, stop):
    """Into the window. Two numbers are to stand for it, so nothing of the node's own may be left out."""
    behind, node = max(state.inserted[k, side], state.dropped[k, side]), state.nodes[k]
    if first < behind:
        fail(state, ASTRAY)
    for number in range(behind, stop):
        own = number // node[STRETCH] % node[TURNS + side] == node[TURN + side]
        if own != (number >= first):
            fail(state, ASTRAY)
    for number in range(first, stop):
        state.held[k, side, number] = 1
    state.inserted[k, side] = stop


@njit
def drop(plan, state, k, side, stop, place):
    if place != NOWHERE and place != plan.horizons[side, state.nodes[k, EXPIRED + side]]:
        fail(state, HORIZON)
    for number in range(min(stop, plan.tuples[side])):
        state.held[k, side, number] = 0
    state.dropped[k, side] = max(stop, state.dropped[k, side])


@njit
def act(protocol, plan, state, actor):
    """The move with this number. Returns whether it moved anything."""
    k, what = actor // MOVES, actor % MOVES
    if what == REST:
        return rest(protocol, plan, state, k)
    if what >= TAKE:
        return take(protocol, plan, state, k, what - TAKE)
    return feed(plan, state, k, what - FEED)


@njit
def choose(plan, state, wheel):
    """Who moves often for a while, who seldom, who sleeps. Returns the number of places on the wheel."""
    size = 0
    while size == 0:
        for actor in range(plan.nodes * MOVES):
            lot = draw(state, 4) if state.careless else 1
            for _ in range(8 if lot == 3 else min(lot, 1)):
                wheel[size] = actor
                size += 1
    return size


@njit
def run(protocol, plan, state, seed, log):
    """One schedule, until nothing moves even if everybody looks. Returns its failures."""
    wheel = np.empty(8 * NODES * MOVES, np.int64)
    state.random, state.careless = seed, 1
    for _ in range(MOST_ROUNDS):
        size, moved = choose(plan, state, wheel), False
        for i in range((8 << draw(state, 5)) if state.careless else size):
            actor = wheel[draw(state, size) if state.careless else i]
            if act(protocol, plan, state, actor):
                moved = True
                note(state, actor, log)
        if not moved and not state.careless:
            break
        state.careless = np.int64(moved)
    return judge(plan, state)


@njit
def note(state, actor, log):
    """Adds a line for a move and one for every action. The first line says how many there are."""
    for i in range(-1, state.actions):
        line = log[0, 0] + 1
        if line < len(log):
            log[0, 0] = line
            if i < 0:
                log[line, 0] = actor
                copy(state.message, log[line, 1 + BODY :])
            else:
                log[line, 0] = -1
                copy(state.out[i], log[line, 1:])


@njit
def judge(plan, state):
    """What is wrong at the end of a run."""
    if state.sent < plan.lines:
        fail(state, STUCK)
    for k in range(plan.nodes):
        for x in range(2):
            if state.length[k, x] > 0:
                fail(state, STUCK)
            if plan.keeps and state.nodes[k, KEEP + x] != state.nodes[k, SEEN + x]:
                fail(state, LEFT)
            for number in range(plan.tuples[x]):
                if state.held[k, x, number]:
                    fail(state, LEFT)
    for r in range(plan.tuples[R]):
        for s in range(plan.tuples[S]):
            if state.met[r, s] > 1:
                fail(state, DOUBLED)
            if plan.eligible[r, s] and state.met[r, s] == 0:
                fail(state, MISSED)
    return state.failures


@njit
def run_many(protocol, plan, states, seed, count, wanted, log):
    """Schedules seed, seed + 1, ... until one fails as wanted. Returns its seed and failures; (-1, 0) if none does.

    states[1] is how each of them begins, states[0] the one that is under way.
    """
    for one in range(seed, seed + count):
        states[0] = states[1]
        failures = run(protocol, plan, states[0], one, log)
        if failures & wanted:
            return one, failures
    return -1, 0


def names(failures: int) -> str:
    return ", ".join(name for bit, name in enumerate(NAMES) if failures >> bit & 1) or "nothing"


@dataclass(frozen=True)
class Case:
    """A protocol, what it is given to do, and how that came about."""

    protocol: Protocol
    plan: Record
    begin: Record
    text: str = ""

    def explore(self, seed: int, count: int, wanted: int = ANY) -> tuple[int, int]:
        """The first schedule that fails as wanted, and how: (seed, failures); (-1, 0) if none does."""
        return self._run(seed, count, wanted, 0)[:2]

    def replay(self, seed: int) -> Record:
        """The state at the end of a schedule."""
        return self._run(seed, 1, ANY, 0)[2]

    def report(self, seed: int, lines: int = 5_000) -> str:
        """What is wrong with a schedule, and all that happens in it."""
        _, failures, state, log = self._run(seed, 1, ANY, lines)
        missed = np.argwhere((self.plan.eligible == 1) & (state.met == 0)).tolist()
        doubled = np.argwhere(state.met > 1).tolist()
        moves = "\n".join(describe(line) for line in log[1 : 1 + log[0, 0]].tolist())
        return f"{self.text}\nschedule {seed}: {names(failures)}; missed (r, s) {missed}, doubled {doubled}\n{moves}"

    def _run(self, seed: int, count: int, wanted: int, lines: int) -> tuple[int, int, Record, Words]:
        states, log = np.array([self.begin, self.begin]), np.zeros((1 + lines, 1 + ACTION_WORDS), np.int64)
        found, failures = run_many(self.protocol, self.plan, states, seed, count, wanted, log)
        return int(found), int(failures), states[0], log


class Bench:
    """A schedule that is directed by hand. Everybody knows everything."""

    def __init__(self, case: Case) -> None:
        self.protocol, self.plan, self.state = case.protocol, case.plan, case.begin.copy()

    def feed(self, node: int, direction: int) -> bool:
        return bool(feed(self.plan, self.state, node, direction))

    def take(self, node: int, direction: int) -> bool:
        return bool(take(self.protocol, self.plan, self.state, node, direction))

    def rest(self, node: int) -> bool:
        return bool(rest(self.protocol, self.plan, self.state, node))

    def finish(self) -> int:
        """Everybody in turn, until nothing moves. Returns the failures of the whole run."""
        moved = True
        while moved:
            moved = False
            for actor in range(self.plan.nodes * MOVES):
                moved |= act(self.protocol, self.plan, self.state, actor)
        return int(judge(self.plan, self.state))


KINDS = {ARRIVAL: "arrival", ACKNOWLEDGEMENT: "ack", EXPEDITION_END: "end", EXPIRY: "expiry", SHARE: "share"}
DOINGS = {SEND: "send", PROBE: "probe", MEET: "meet", INSERT: "insert", DROP: "drop"}


def describe(line: list[int]) -> str:
    """A line of a log, to be read."""
    actor, do, direction, *body = line
    k, what = divmod(actor, MOVES)
    span = f"{'rs'[body[SIDE]]} {body[FIRST]}..{body[STOP]}"
    if actor < 0:
        sent = f" {'▶◀'[direction]} {KINDS[body[KIND]]}" if do == SEND else ""
        against = f" against {body[LO]}..{body[HI] if body[HI] < FAR else ''}" if do in (PROBE, MEET) else ""
        return f"    {DOINGS.get(do, do)}{sent} {span}{against}"
    if what == REST:
        return f"node {k} rests"
    who, direction = ("takes", what - TAKE) if what >= TAKE else ("is fed", what - FEED)
    return f"node {k} {who} {'▶◀'[direction]} {KINDS[body[KIND]]} {span}"


def new_case(
    protocol: Protocol,
    topology: Topology,
    script: Sequence[Sequence[int]],
    eligible: Any,
    *,
    stretch: int = 1,
    batch: int = 1,
    capacity: int = 1,
    horizons: Words | None = None,
    strict: bool = False,
    keeps: bool = True,
    text: str = "",
) -> Case:
    """A case: a script of (node, direction, message ...), and the pairs that are to meet."""
    plan, begin = np.zeros(1, np.dtype((np.record, PLAN)))[0], np.zeros(1, np.dtype((np.record, STATE)))[0]
    plan.nodes, plan.capacity, plan.strict, plan.keeps = topology.nodes, capacity, strict, keeps
    plan.next[: topology.nodes] = topology.next
    plan.lines, plan.tuples[:] = len(script), np.shape(eligible)
    plan.eligible[: plan.tuples[R], : plan.tuples[S]] = eligible
    if horizons is not None:
        plan.horizons[:, : horizons.shape[1]] = horizons
    begin.cursor[:], plan.follow[:] = -1, -1
    begin.nodes[: topology.nodes] = [new_node(topology, k, stretch, batch) for k in range(topology.nodes)]
    latest: dict[tuple[int, int], int] = {}
    for i, line in enumerate(script):
        queue = line[TO_NODE], line[TO_DIRECTION]
        plan.script[i, : len(line)] = line
        if queue in latest:
            plan.follow[latest[queue]] = i
        else:
            begin.cursor[queue] = i
        latest[queue] = i
    return Case(protocol, plan, begin, text)


# What arrives, and the driver, who alone knows the windows.

LAYOUTS: dict[str, list[tuple[int, ...]]] = {
    "low_latency": [(1,), (2,), (3,), (4,), (5,)],
    "handshake": [(1,), (2,), (3,), (4,), (5,)],
    "grid": [(1, 1), (1, 2), (2, 1), (2, 2), (1, 3), (3, 1), (2, 3), (3, 2), (1, 5)],
    "cell": [(1,), (2,), (3,), (5,)],
    "biclique": [(1,), (2,), (3,), (4,), (5,)],
}


class Batch(NamedTuple):
    side: int
    first: int
    stop: int


class Window(NamedTuple):
    """Which pairs lie in it, and by side where its tuples lie: their times, or their numbers."""

    eligible: np.ndarray[Any, np.dtype[np.bool_]]
    places: list[list[int]]
    text: str


def sizes(rng: Random) -> tuple[int, int]:
    """How many tuples of r and s: about as many, one side much faster, one side empty."""
    few, some, many = rng.randint(1, 2), rng.randint(3, 14), rng.randint(12, TUPLES)
    return rng.choice([(few, many), (many, few), (0, some), (some, 0)] + 8 * [(some, rng.randint(3, 14))])


def arrivals(rng: Random, counts: tuple[int, int], stretch: int, batch: int) -> Iterator[Batch]:
    """Batches in the order of their arrival, in bursts of one side; none crosses a multiple of stretch or batch."""
    come, burst = [0, 0], rng.choice([1, 1, 3, 8])
    while come != list(counts):
        side = rng.choices((R, S), (counts[R] - come[R], counts[S] - come[S]))[0]
        for _ in range(rng.randint(1, burst)):
            first = come[side]
            room = min(stretch - first % stretch, batch - first % batch, counts[side] - first)
            if room > 0:
                come[side] = first + rng.randint(1, room)
                yield Batch(side, first, come[side])


def time_window(rng: Random, batches: Sequence[Batch], counts: tuple[int, int]) -> Window:
    """lower <= s.time - r.time <= upper, also without zero; times of any sign, in order or somewhat out of it."""
    lower = rng.randint(-6, 6)
    upper = rng.randint(lower, 8)
    now, delay, ahead = rng.randint(-30, 10), rng.choice([0, 0, 3]), (0, rng.choice([-4, 0, 0, 4]))
    times: list[list[int]] = [[], []]
    for side, first, stop in batches:
        for _ in range(first, stop):
            now += rng.choice([0, 0, 1, 2])
            times[side].append(now + ahead[side] - rng.randint(0, delay))
    apart = np.subtract.outer(np.array(times[S], np.int64), np.array(times[R], np.int64)).T
    return Window((lower <= apart) & (apart <= upper), times, f"{lower} <= s.time - r.time <= {upper}, times {times}")


def row_window(rng: Random, batches: Sequence[Batch], counts: tuple[int, int]) -> Window:
    """The earlier tuple is among the last so many of its stream when the batch of the later one arrives."""
    last = (rng.choice([1, 2, 3, 5, 8]), rng.choice([1, 2, 3, 5, 8]))
    eligible, come = np.zeros(counts, bool), [0, 0]
    for side, first, stop in batches:
        other = 1 - side
        pairs = eligible if side == R else eligible.T
        pairs[first:stop, max(come[other] - last[other], 0) : come[other]] = True
        come[side] = stop
    return Window(eligible, [list(range(n)) for n in counts], f"last(r={last[R]}, s={last[S]})")


def horizons_of(places: Sequence[Sequence[int]]) -> Words:
    """By side and n: the places of the first n tuples lie below."""
    horizons = np.full((2, TUPLES + 1), NOWHERE, np.int64)
    for side in (R, S):
        highest = np.maximum.accumulate(np.array(places[side], np.int64))
        horizons[side, 1 : len(highest) + 1] = highest + 1
    return horizons


@dataclass
class Driver:
    """Writes the script: batches to where they enter, and what has expired behind them.

    It expires as much as ever may be: all tuples up to the first one that a later tuple of the other stream meets. No
    real driver knows that well. What it tells late, or not before the end, is up to its caller.
    """

    name: str
    topology: Topology
    stretch: int
    window: Window
    script: list[tuple[int, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.come, self.gone = [0, 0], [0, 0]
        self.horizons = horizons_of(self.window.places)
        pairs = self.window.eligible
        self.until = [[int(np.max(np.nonzero(p), initial=-1)) for p in side] for side in (pairs, pairs.T)]

    def send(self, node: int, direction: int, *message: int) -> None:
        self.script.append((node, direction, *message))

    def expired(self, side: int) -> int:
        """Tuples below will be met by nothing that is yet to come."""
        come, next_other = self.come[side], self.come[1 - side]
        return next((i for i in range(come) if self.until[side][i] >= next_other), come)

    def expire(self, side: int, gone: int) -> None:
        if gone > self.gone[side] and self.name != "cell":
            direction = 0 if self.name == "biclique" else 1 - side
            for node in self.topology.entries[direction]:
                self.send(node, direction, EXPIRY, side, 0, gone, 0, 0, int(self.horizons[side, gone]))
        self.gone[side] = max(gone, self.gone[side])

    def entries(self, batch: Batch) -> list[int]:
        """Where a batch enters: stretches are dealt in turns where there is more than one place."""
        entries = self.topology.entries[batch.side]
        return [entries[batch.first // self.stretch % len(entries)]]

    def arrive(self, batch: Batch) -> None:
        side, first, stop = batch
        if self.name == "cell":
            window = self.gone[1 - side], self.come[1 - side]
            for node, share in enumerate(cell.shares(self.topology.nodes, side, first, stop, window)):
                self.send(node, 0, *share)
        elif self.name == "biclique":
            for node in self.topology.entries[0]:
                self.send(node, 0, ARRIVAL, side, first, stop)
        else:
            for node in self.entries(batch):
                self.send(node, side, ARRIVAL, side, first, stop)
        self.come[side] = stop


def scenario(
    name: str, seed: int, protocol: Protocol | None = None, driver: type[Driver] = Driver, ends: bool = True
) -> Case:
    """A random case. In the end everything expires, unless the streams just fall silent.

    Another protocol or driver than the right one is a fault that is to be found.
    """
    rng = Random(f"{name} {seed}")
    layout, capacity = rng.choice(LAYOUTS[name]), rng.choice([1, 1, 2, 2, CAPACITY])
    stretch, batch, counts = rng.choice([1, 2, 3, 8]), rng.randint(1, 4), sizes(rng)
    batches = list(arrivals(rng, counts, stretch, batch))
    window = rng.choice([time_window, row_window])(rng, batches, counts)
    eager, strict = rng.choice([0.0, 0.2, 0.6, 1.0]), rng.random() < 0.5
    d = driver(name, MODULES[name].topology(*layout), stretch, window)
    for one in batches:
        for side in rng.sample((R, S), 2):
            if rng.random() < eager:
                d.expire(side, d.expired(side))
        d.arrive(one)
    if ends:
        for side in (R, S):
            d.expire(side, counts[side])
    order = " ".join(f"{'rs'[side]}{first}..{stop}" for side, first, stop in batches)
    text = (
        f"{name} {layout}, scenario {seed}: stretch {stretch}, batch {batch}, queues of {capacity}, "
        f"{'strict' if strict else 'loose'} driver, {window.text}\n{order}"
    )
    return new_case(
        protocol or compiled(MODULES[name].step, MODULES[name].rest),
        d.topology,
        d.script,
        window.eligible,
        stretch=stretch,
        batch=batch,
        capacity=capacity,
        horizons=d.horizons,
        strict=strict,
        keeps=name != "cell",
        text=text,
    )
