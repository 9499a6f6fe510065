"""A deterministic scheduler: runs a protocol's step functions without threads, in an order drawn from a seed.

    scenarios.scenario(name, seed)  what arrives, in which windows, over which topology, with how much room in queues
    Case.explore(seed, count)       many schedules of it: who moves when, and how old the news are that it acts upon
    Case.report(seed)               one of them again, move by move
    Bench(case)                     a schedule that a test directs itself

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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import cfunc, int64
from numba.core.caching import NullCache

from streamjoin.algorithms import Topology, biclique, celljoin, grid, handshake, low_latency, protocol
from streamjoin.algorithms.protocol import (
    ACKNOWLEDGEMENT,
    ARRIVAL,
    DROP,
    EXPEDITION_END,
    EXPIRY,
    INSERT,
    MEET,
    PROBE,
    SEND,
    SHARE,
    Actions,
    Message,
    Node,
    R,
    S,
    new_node,
)
from streamjoin.codegen.intrinsics import record_at
from streamjoin.codegen.jit import njit
from streamjoin.codegen.records import Array
from streamjoin.testing.moves import (
    ANY,
    FAR,
    FEED,
    MOVES,
    NAMES,
    REST,
    TAKE,
    Note,
    Plan,
    Schedule,
    act,
    feed,
    judge,
    rest,
    run_many,
    take,
)

MODULES: dict[str, Any] = {
    "low_latency": low_latency,
    "handshake": handshake,
    "grid": grid,
    "cell": celljoin,
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


def compiled(
    algorithm: Any, step: Callable[..., Any] | None = None, rest: Callable[..., Any] | None = None
) -> Protocol:
    """A protocol, or wrappers around its functions, as the scheduler calls it."""
    return Protocol(_step(step or algorithm.step, algorithm.State), _rest(rest or algorithm.rest, algorithm.State))


@cache
def _step(function: Callable[..., Any], state: type[Node]) -> Any:
    right = function if hasattr(function, "py_func") else njit(function)

    def step(node: int, message: int, out: int) -> Any:
        return right(record_at(node, state), record_at(message, Message), record_at(out, Actions))  # type: ignore[call-arg]

    return cfunc(int64(int64, int64, int64))(step)


@cache
def _rest(function: Callable[..., Any], state: type[Node]) -> Any:
    right = function if hasattr(function, "py_func") else njit(function)

    def rest(node: int, out: int) -> int:
        right(record_at(node, state), record_at(out, Actions))  # type: ignore[call-arg]
        return 0

    return cfunc(int64(int64, int64))(rest)


def names(failures: int) -> str:
    return ", ".join(name for bit, name in enumerate(NAMES) if failures >> bit & 1) or "nothing"


OUT: Any = Actions.new()  # what followed from the last call: nobody reads it later


@dataclass(frozen=True)
class Case:
    """A protocol, what it is given to do, and how that came about."""

    protocol: Protocol
    plan: Plan
    begin: Schedule
    text: str = ""

    def explore(self, seed: int, count: int, wanted: int = ANY) -> tuple[int, int]:
        """The first schedule that fails as wanted, and how: (seed, failures); (-1, 0) if none does."""
        return self._run(seed, count, wanted, 0)[:2]

    def replay(self, seed: int) -> Schedule:
        """The state at the end of a schedule."""
        return self._run(seed, 1, ANY, 0)[2]

    def report(self, seed: int, lines: int = 5_000) -> str:
        """What is wrong with a schedule, and all that happens in it."""
        _, failures, state, log = self._run(seed, 1, ANY, lines)
        missed = np.argwhere((self.plan.eligible == 1) & (state.met == 0)).tolist()
        doubled = np.argwhere(state.met > 1).tolist()
        moves = "\n".join(describe(line) for line in log[1 : 1 + log[0].actor])
        return f"{self.text}\nschedule {seed}: {names(failures)}; missed (r, s) {missed}, doubled {doubled}\n{moves}"

    def _run(self, seed: int, count: int, wanted: int, lines: int) -> tuple[int, int, Schedule, Array]:
        states, log = np.array([self.begin, self.begin]), Note.array(1 + lines)
        found, failures = run_many(self.protocol, self.plan, states, OUT, seed, count, wanted, log)
        return int(found), int(failures), states[0], log


class Bench:
    """A schedule that is directed by hand. All nodes have up-to-date information."""

    def __init__(self, case: Case) -> None:
        self.protocol, self.plan, self.state = case.protocol, case.plan, np.array([case.begin])[0]

    def feed(self, node: int, direction: int) -> bool:
        return bool(feed(self.plan, self.state, OUT, node, direction))

    def take(self, node: int, direction: int) -> bool:
        return bool(take(self.protocol, self.plan, self.state, OUT, node, direction))

    def rest(self, node: int) -> bool:
        return bool(rest(self.protocol, self.plan, self.state, OUT, node))

    def finish(self) -> int:
        """Lets all nodes move in turn until nothing moves. Returns the failures of the whole run."""
        moved = True
        while moved:
            moved = False
            for actor in range(self.plan.nodes * MOVES):
                moved |= act(self.protocol, self.plan, self.state, OUT, actor)
        return int(judge(self.plan, self.state))


KINDS = {ARRIVAL: "arrival", ACKNOWLEDGEMENT: "ack", EXPEDITION_END: "end", EXPIRY: "expiry", SHARE: "share"}
DOINGS = {SEND: "send", PROBE: "probe", MEET: "meet", INSERT: "insert", DROP: "drop"}


def describe(line: Any) -> str:
    """A line of a log, to be read."""
    do, body = int(line.action.do), line.action.body
    k, what = divmod(int(line.actor), MOVES)
    span = f"{'rs'[body.side]} {body.first}..{body.stop}"
    if line.actor < 0:
        sent = f" {'▶◀'[line.action.direction]} {KINDS[body.kind]}" if do == SEND else ""
        against = f" against {body.low}..{body.high if body.high < FAR else ''}" if do in (PROBE, MEET) else ""
        return f"    {DOINGS.get(do, do)}{sent} {span}{against}"
    if what == REST:
        return f"node {k} rests"
    who, direction = ("takes", what - TAKE) if what >= TAKE else ("is fed", what - FEED)
    return f"node {k} {who} {'▶◀'[direction]} {KINDS[body.kind]} {span}"


Script = Sequence[tuple[int, int, Mapping[str, int]]]  # node, direction, fields of a message


def new_case(
    algorithm: Any,
    topology: Topology,
    script: Script,
    eligible: Any,
    *,
    protocol: Protocol | None = None,
    stripe: int = 1,
    batch: int = 1,
    capacity: int = 1,
    horizons: Array | None = None,
    strict: bool = False,
    keeps: bool = True,
    text: str = "",
) -> Case:
    """A case: a script, and the pairs that are to meet. Another protocol than the algorithm's own is a fault."""
    plan, begin = Plan.new(), Schedule.new()
    plan.nodes, plan.capacity, plan.strict, plan.keeps = topology.nodes, capacity, strict, keeps
    plan.next[: topology.nodes] = topology.next
    plan.lines, plan.tuples[:] = len(script), np.shape(eligible)
    plan.eligible[: plan.tuples[R], : plan.tuples[S]] = eligible
    if horizons is not None:
        plan.horizons[:, : horizons.shape[1]] = horizons
    for k in range(topology.nodes):
        node = new_node(Node, topology, k, stripe, batch)
        for name in Node.dtype.names or ():
            begin.nodes[k][name] = getattr(node, name)
    begin.cursor[:] = -1
    latest: dict[tuple[int, int], Any] = {}
    for i, (to, direction, message) in enumerate(script):
        line, queue = plan.script[i], (to, direction)
        line.node, line.direction, line.follow = to, direction, -1
        for name, value in message.items():
            line.message[name] = value
        if queue in latest:
            latest[queue].follow = i
        else:
            begin.cursor[queue] = i
        latest[queue] = line
    return Case(protocol or compiled(algorithm), plan, begin, text)
