"""The protocols under thousands of interleavings: every pair meets once. And under seeded faults: they are found.

`make soak` looks at some hundred thousand schedules per algorithm, new ones each time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import SystemRandom
from typing import Any

import numpy as np
import pytest

from streamjoin.algorithms import ALGORITHMS, biclique, celljoin, grid, handshake, low_latency
from streamjoin.algorithms.protocol import (
    ACKNOWLEDGEMENT,
    ARRIVAL,
    EXPEDITION_END,
    EXPIRY,
    INSERT,
    MEET,
    NOWHERE,
    PROBE,
    SEND,
    TAKEN,
    WAIT,
    R,
    S,
    drop,
    next_own,
    put,
)
from streamjoin.codegen.jit import njit
from streamjoin.testing.moves import ASTRAY, DOUBLED, FREED, HALF, HORIZON, LEFT, MISSED, NO_ROOM, STUCK
from streamjoin.testing.scenarios import Batch, Driver, scenario
from streamjoin.testing.scheduler import MODULES, Bench, Case, compiled, names, new_case

each_algorithm = pytest.mark.parametrize("name", list(MODULES))
SCHEDULES = 20  # per scenario


@each_algorithm
def test_every_pair_meets_once(name: str, soak: bool) -> None:
    first, scenarios = (SystemRandom().randrange(1 << 32), 10_000) if soak else (0, 300)
    for seed in range(first, first + scenarios):
        case = scenario(name, seed)
        failed, _ = case.explore(0, SCHEDULES)
        assert failed < 0, case.report(failed)


@each_algorithm
def test_a_schedule_can_be_repeated(name: str) -> None:
    assert scenario(name, 3).report(5) == scenario(name, 3).report(5)
    assert scenario(name, 3).report(5) != scenario(name, 3).report(6)


def waits(name: str, seed: int) -> bool:
    """Is there a schedule that comes to rest before all pairs have met, when the streams fall silent?"""
    case = scenario(name, seed, ends=False)
    failed, failures = case.explore(0, SCHEDULES, MISSED | DOUBLED | STUCK)
    assert not failures & ~(MISSED | LEFT), case.report(failed)
    return failed >= 0


def test_results_wait_for_nothing() -> None:
    """No later arrival and no expiry is needed for a pair to meet, but for handshake join, whose tuples are pushed."""
    for seed in range(100):
        for name in ("low_latency", "grid", "cell", "biclique"):
            assert not waits(name, seed)
    assert any(waits("handshake", seed) for seed in range(10))


# Where pairs meet.


def test_grid_pairs_meet_where_row_and_column_cross() -> None:
    for seed in range(40):
        case = scenario("grid", seed)
        stripe, (rows, columns) = case.begin.nodes[0].stripe, case.begin.nodes[0].ways
        at = case.replay(seed).met_at
        for r, s in np.argwhere(case.plan.eligible):
            assert at[r, s] == r // stripe % rows * columns + s // stripe % columns


TRAVELLING, AT_HOME_OF_R, AT_HOME_OF_S = 2 * MEET + R, 2 * PROBE + S, 2 * PROBE + R


def test_low_latency_pairs_meet_at_a_home_or_before_one() -> None:
    """r meets copies of s at their home, and fresh s to the right of it; s meets copies of r at theirs."""
    for seed in range(40):
        case = scenario("low_latency", seed)
        stripe, nodes, end = case.begin.nodes[0].stripe, case.plan.nodes, case.replay(seed)
        for r, s in np.argwhere(case.plan.eligible):
            at, home_r, home_s = end.met_at[r, s], r // stripe % nodes, s // stripe % nodes
            allowed = {TRAVELLING: at > home_s, AT_HOME_OF_R: at == home_r, AT_HOME_OF_S: at == home_s}
            assert allowed[end.met_by[r, s]]


def of_chain(name: str, workers: int, n_r: int, n_s: int) -> Bench:
    """Tuples one by one through a chain with room enough; all pairs are to meet, then everything expires."""
    script = [
        (entry, side, {"kind": ARRIVAL, "side": side, "first": k, "stop": k + 1})
        for side, entry, count in ((R, 0, n_r), (S, workers - 1, n_s))
        for k in range(count)
    ]
    script += [
        (0, R, {"kind": EXPIRY, "side": S, "stop": n_s}),
        (workers - 1, S, {"kind": EXPIRY, "side": R, "stop": n_r}),
    ]
    topology = ALGORITHMS[name].topology(1, workers)
    return Bench(new_case(MODULES[name], topology, script, np.ones((n_r, n_s)), capacity=8))


def travel(bench: Bench, side: int, count: int, nodes: range) -> None:
    """The first `count` tuples of a side enter, and are taken by the given nodes."""
    for _ in range(count):
        assert bench.feed(nodes[0], side)
    for node in nodes:
        while bench.take(node, side) or bench.rest(node):
            pass


# Low-latency handshake join, table 1, for five nodes. The home of tuple k is node k. r has been taken by nodes 0 and 1,
# s by nodes 4, 3 and 2; now they cross in the queues between nodes 1 and 2. Fresh: the home is yet to come.
TABLE_1 = [
    pytest.param(4, 0, TRAVELLING, 2, id="fresh r, fresh s: when travelling"),
    pytest.param(4, 3, AT_HOME_OF_S, 3, id="fresh r, stored s: at the home of s"),
    pytest.param(1, 0, TRAVELLING, 2, id="stored r, fresh s: when travelling"),
    pytest.param(1, 3, AT_HOME_OF_S, 3, id="stored r, stored s: at the home of s"),
]


@pytest.mark.parametrize(("r", "s", "by", "at"), TABLE_1)
def test_table_1_met_when_travelling(r: int, s: int, by: int, at: int) -> None:
    bench = of_chain("low_latency", 5, r + 1, s + 1)
    travel(bench, R, r + 1, range(2))
    travel(bench, S, s + 1, range(4, 1, -1))
    met = bench.state.met
    assert not met[r, s]
    while bench.take(1, S):  # s goes on to the left, where a stored r must not see it
        bench.rest(1)
    while bench.take(0, S):
        bench.rest(0)
    assert not met[r, s]
    while bench.take(2, R):  # r goes on to the right
        bench.rest(2)
    assert met[r, s] == (by == TRAVELLING)
    assert bench.finish() == 0
    assert (bench.state.met_by[r, s], bench.state.met_at[r, s]) == (by, at)


@pytest.mark.parametrize("r", range(3))
@pytest.mark.parametrize("s", range(3))
def test_table_1_s_has_been_through_before_r_comes(r: int, s: int) -> None:
    bench = of_chain("low_latency", 3, r + 1, s + 1)
    travel(bench, S, s + 1, range(2, -1, -1))
    travel(bench, R, r + 1, range(3))
    assert (bench.state.met_by[r, s], bench.state.met_at[r, s]) == (AT_HOME_OF_S, s)
    assert bench.finish() == 0


@pytest.mark.parametrize("r", range(3))
@pytest.mark.parametrize("s", range(3))
def test_table_1_r_has_been_through_before_s_comes(r: int, s: int) -> None:
    """The expedition end goes through the chain before s does, and makes r visible at its home."""
    bench = of_chain("low_latency", 3, r + 1, s + 1)
    travel(bench, R, r + 1, range(3))
    travel(bench, S, s + 1, range(2, -1, -1))
    assert (bench.state.met_by[r, s], bench.state.met_at[r, s]) == (AT_HOME_OF_R, r)
    assert bench.finish() == 0


def test_table_1_expedition_flag() -> None:
    """A stored r is invisible until its end comes by, however long ago it was stored."""
    bench = of_chain("low_latency", 3, 1, 1)
    travel(bench, R, 1, range(2))
    assert not bench.state.held[0, R, 0]
    assert bench.take(2, R) and bench.rest(2) and bench.take(1, S) and bench.rest(1)
    assert not bench.state.held[0, R, 0]
    assert bench.take(0, S) and bench.state.held[0, R, 0]


def test_handshake_forwards_s_in_two_phases() -> None:
    """SIGMOD 2011, figure 8: a copy of s waits for the acknowledgement, and meets what crossed it in the queues."""
    bench = of_chain("handshake", 2, 2, 1)
    held, met = bench.state.held, bench.state.met
    travel(bench, S, 1, range(1, 0, -1))  # s is on its way to node 0
    travel(bench, R, 1, range(1))  # and r 0 on its way to node 1
    assert held[1, S, 0] and not held[0, R, 0] and not met.any()
    assert bench.take(1, R) and met[0, 0] == 1  # at the copy
    assert bench.take(0, S) and met[0, 0] == 1  # r 0 is not here any more
    travel(bench, R, 1, range(1))
    assert met[1, 0] == 1 and bench.state.met_at[1, 0] == 0
    assert bench.take(1, R) and not held[1, S, 0]  # the acknowledgement comes before r 1
    assert bench.take(1, R) and met[1, 0] == 1
    assert bench.finish() == 0


def test_handshake_spreads_windows_evenly() -> None:
    """Section 4.3: like water in a pipe, whichever side it is poured in from."""
    bench = of_chain("handshake", 4, 12, 8)
    for count, side, nodes in ((12, R, range(4)), (8, S, range(3, -1, -1))):
        for _ in range(count):
            travel(bench, side, 1, nodes)
            for node in (*nodes, *nodes, *nodes):
                bench.take(node, R)
                bench.take(node, S)
                bench.rest(node)
    loads = bench.state.nodes["load"][:4]
    assert loads[:, R].tolist() == [3, 3, 3, 3] and loads[:, S].tolist() == [2, 2, 2, 2]
    assert bench.finish() == 0


# Faults. Each is a wrapper around the right functions, and leaves the rest of the world as it is.


@njit
def without(out, kind, side):
    """Takes the messages of a kind away."""
    for i in range(out.count):
        action = out.each[i]
        if action.do == SEND and action.body.kind == kind and action.body.side == side:
            action.do = 0


def low_latency_forgets_what_is_in_flight(node, message, out):
    """s is taken as acknowledged as soon as it is sent: an r that crosses it in the queues finds nothing."""
    taken = low_latency.step(node, message, out)
    node.acked = node.seen[S]
    return taken


def low_latency_is_deaf(node, message, out):
    """Acknowledgements are ignored: r meets s at two nodes."""
    return TAKEN if message.kind == ACKNOWLEDGEMENT else low_latency.step(node, message, out)


def low_latency_has_no_flag(node, message, out):
    """r is visible at home as soon as it arrives there: it meets a passing s, and later the copy of it."""
    taken = low_latency.step(node, message, out)
    if message.kind == EXPEDITION_END:
        out.count = 0
    if message.kind == ARRIVAL and message.side == R and taken and node.index < node.nodes - 1:
        mine, past = next_own(node, R, max(message.first, node.expired[R]), message.stop)
        if mine < past:
            put(out, INSERT, R, mine, past)
    return taken


def low_latency_acknowledges_late(node, message, out):
    """r goes on although an acknowledgement is due, and overtakes it: it meets s on both sides of the queue."""
    sent = node.ack_sent
    node.ack_sent = node.seen[S]
    taken = low_latency.step(node, message, out)
    node.ack_sent = sent
    return taken


def low_latency_ends_late(node, message, out):
    """s goes on although an expedition end is due, and overtakes it: at r's home it looks for r in vain."""
    sent = node.end_sent
    node.end_sent = node.ended
    taken = low_latency.step(node, message, out)
    node.end_sent = sent
    return taken


def low_latency_waits_for_both(node, message, out):
    """An arrival waits until there is room for what it causes in either direction: neighbours wait for each other."""
    if message.kind == ARRIVAL and (node.room[R] < 1 or node.room[S] < 1):
        return WAIT
    return low_latency.step(node, message, out)


def low_latency_gives_up_early(node, message, out):
    """r is said to be needed no more while it is still under way to its home's window."""
    taken = low_latency.step(node, message, out)
    node.needed_from[R] = node.seen[R]
    return taken


def low_latency_counts_before_it_waits(node, message, out):
    """A message that has to wait has been noted all the same."""
    if message.kind == ARRIVAL and message.side == R:
        node.seen[R] = message.stop
    return low_latency.step(node, message, out)


def low_latency_takes_room_for_granted(node, message, out):
    node.room[R] = node.room[S] = 1
    return low_latency.step(node, message, out)


def low_latency_keeps_everything(node, message, out):
    """Every node is a home to every s."""
    taken = low_latency.step(node, message, out)
    if message.kind == ARRIVAL and message.side == S and taken:
        if message.first >= node.expired[S] and out.each[out.count - 1].do != INSERT:
            put(out, INSERT, S, message.first, message.stop)
    return taken


def low_latency_begins_at_zero(node, message, out):
    """Horizons begin at 0 instead of nowhere, which is too high for times before 1970."""
    if message.kind == EXPIRY:
        node.horizon[message.side] = max(node.horizon[message.side], 0)
    return low_latency.step(node, message, out)


def low_latency_keeps_expiries(node, out):
    """What has expired is not told to the next node."""
    low_latency.rest(node, out)
    without(out, EXPIRY, S)


def handshake_is_deaf(node, message, out):
    """Acknowledgements are ignored: copies of s stay where they have been, and are met again."""
    return TAKEN if message.kind == ACKNOWLEDGEMENT else handshake.step(node, message, out)


def handshake_keeps_no_copies(node, out):
    """s leaves as soon as it is sent, as r does: two in the queues cross unseen."""
    handshake.rest(node, out)
    sent = node.sent[S]
    if node.index > 0 and node.needed_from[S] < sent:
        node.needed_from[S] = node.finished[S] = sent
        drop(out, S, sent, NOWHERE)


def handshake_acknowledges_late(node, out):
    """r is sent on although an acknowledgement is due, and overtakes it."""
    sent = node.ack_sent
    if node.seen[R] - node.sent[R] > node.neighbour[R]:
        node.ack_sent = node.seen[S]
        handshake.rest(node, out)
        node.ack_sent = sent
    else:
        handshake.rest(node, out)


def handshake_does_not_wait_for_the_expired(node, message, out):
    """s that have expired before they come to the left end are thrown away there, and r there has not met them."""
    if message.kind == ARRIVAL and message.side == S and node.index == 0 and message.stop <= node.expired[S]:
        node.seen[S] = node.needed_from[S] = node.finished[S] = node.sent[S] = message.stop
        return TAKEN
    return handshake.step(node, message, out)


def handshake_drops_on_the_way(node, message, out):
    """s that have expired are dropped wherever the news finds them, and r further left has not met them."""
    taken = handshake.step(node, message, out)
    gone = min(node.expired[S], node.seen[S])
    if node.index > 0 and gone > node.needed_from[S]:
        handshake.leave(node, S, gone, node.horizon[S], out)
    return taken


def grid_does_not_pass_on(node, message, out):
    """r stays with the first worker of its row."""
    taken = grid.step(node, message, out)
    without(out, ARRIVAL, R)
    return taken


def cell_begins_too_early(node, message, out):
    """Parts of the window overlap."""
    if message.low < message.high:
        message.low = max(message.low - 1, 0)
    return celljoin.step(node, message, out)


def biclique_keeps_everything(node, message, out):
    """Every worker keeps both sides."""
    for side in range(2):
        node.way[side], node.ways[side] = 0, 1
    return biclique.step(node, message, out)


def biclique_inserts_first(node, message, out):
    """Only own tuples are compared, with what a worker has not."""
    taken = biclique.step(node, message, out)
    if node.way[message.side] < 0:
        out.count = 0
    return taken


class TwoQueues(Driver):
    """The streams take different queues, so that workers may see them in different orders."""

    def arrive(self, batch: Batch) -> None:
        side, first, stop = batch
        for node in self.topology.entries[0]:
            self.send(node, side, kind=ARRIVAL, side=side, first=first, stop=stop)
        self.come[side] = stop


class Greedy(Driver):
    """Expires one tuple too many."""

    def expired(self, side: int) -> int:
        return min(super().expired(side) + 1, self.come[side])


class TellsBothEnds(Driver):
    """Sends the expiries of s also to where s enters."""

    def expire(self, side: int, gone: int) -> None:
        super().expire(side, gone)
        if side == S:
            self.send(self.topology.entries[S][0], S, kind=EXPIRY, side=S, stop=gone, horizon=self.horizons[S, gone])


class DealsTwice(Driver):
    """Every s goes to two columns."""

    def entries(self, batch: Batch) -> list[int]:
        right, entries = super().entries(batch), self.topology.entries[batch.side]
        return right if batch.side == R else sorted({*right, entries[(entries.index(right[0]) + 1) % len(entries)]})


class DealsWrongly(Driver):
    """Every s goes to the column next to its own."""

    def entries(self, batch: Batch) -> list[int]:
        (right,), entries = super().entries(batch), self.topology.entries[batch.side]
        return [right if batch.side == R else entries[(entries.index(right) + 1) % len(entries)]]


@dataclass(frozen=True)
class Fault:
    """What is wrong, and how it shows."""

    algorithm: str
    shows: int
    step: Callable[..., Any] | None = None
    rest: Callable[..., Any] | None = None
    driver: type[Driver] = Driver

    def __str__(self) -> str:
        wrong = [f.__name__ for f in (self.step, self.rest) if f] or [f"{self.algorithm}_{self.driver.__name__}"]
        return "_and_".join(wrong)

    def scenario(self, seed: int) -> Case:
        protocol = compiled(MODULES[self.algorithm], self.step, self.rest)
        return scenario(self.algorithm, seed, protocol, self.driver)


FAULTS = [
    Fault("low_latency", MISSED, low_latency_forgets_what_is_in_flight),
    Fault("low_latency", DOUBLED, low_latency_is_deaf),
    Fault("low_latency", DOUBLED, low_latency_has_no_flag),
    Fault("low_latency", DOUBLED, low_latency_acknowledges_late),
    Fault("low_latency", MISSED, low_latency_ends_late),
    Fault("low_latency", STUCK, low_latency_waits_for_both),
    Fault("low_latency", FREED, low_latency_gives_up_early),
    Fault("low_latency", HALF, low_latency_counts_before_it_waits),
    Fault("low_latency", NO_ROOM, low_latency_takes_room_for_granted),
    Fault("low_latency", ASTRAY | DOUBLED, low_latency_keeps_everything),
    Fault("low_latency", HORIZON, low_latency_begins_at_zero),
    Fault("low_latency", LEFT, rest=low_latency_keeps_expiries),
    Fault("low_latency", MISSED, driver=Greedy),
    Fault("handshake", MISSED, handshake_is_deaf, handshake_keeps_no_copies),
    Fault("handshake", DOUBLED, handshake_is_deaf),
    Fault("handshake", DOUBLED, rest=handshake_acknowledges_late),
    Fault("handshake", MISSED, handshake_does_not_wait_for_the_expired),
    Fault("handshake", MISSED, handshake_drops_on_the_way, driver=TellsBothEnds),
    Fault("handshake", MISSED, driver=Greedy),
    Fault("grid", MISSED, grid_does_not_pass_on),
    Fault("grid", DOUBLED, driver=DealsTwice),
    Fault("grid", ASTRAY, driver=DealsWrongly),
    Fault("grid", MISSED, driver=Greedy),
    Fault("biclique", DOUBLED, biclique_keeps_everything),
    Fault("biclique", MISSED, biclique_inserts_first),
    Fault("biclique", DOUBLED, driver=TwoQueues),
    Fault("biclique", MISSED, driver=TwoQueues),
    Fault("biclique", MISSED, driver=Greedy),
    Fault("cell", DOUBLED, cell_begins_too_early),
    Fault("cell", MISSED, driver=Greedy),
]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_faults_are_found(fault: Fault) -> None:
    for seed in range(20):
        _, failures = fault.scenario(seed).explore(0, SCHEDULES, fault.shows)
        if failures & fault.shows == fault.shows:
            return
    pytest.fail(f"{fault} does not show: {names(fault.shows)}")
