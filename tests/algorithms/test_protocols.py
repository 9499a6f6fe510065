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
from numba import njit

from streamjoin.algorithms import biclique, grid, handshake, low_latency
from streamjoin.algorithms import celljoin as cell
from streamjoin.algorithms.protocol import (
    ACKNOWLEDGEMENT,
    ARRIVAL,
    BODY,
    DO,
    DROP,
    EXPEDITION_END,
    EXPIRED,
    EXPIRED_PLACE,
    EXPIRY,
    FIRST,
    HI,
    INSERT,
    KEEP,
    KIND,
    LO,
    MEET,
    NEIGHBOUR,
    NODE,
    NODES,
    NOWHERE,
    PROBE,
    ROOM,
    SEEN,
    SEND,
    SIDE,
    STOP,
    STRETCH,
    TURN,
    TURNS,
    WAIT,
    R,
    S,
    next_own,
    put,
)
from streamjoin.testing.scheduler import (
    ASTRAY,
    DOUBLED,
    FREED,
    HALF,
    HORIZON,
    LEFT,
    MISSED,
    MODULES,
    NO_ROOM,
    STUCK,
    Batch,
    Bench,
    Case,
    Driver,
    compiled,
    names,
    new_case,
    scenario,
)

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
        stretch, (rows, columns) = case.begin.nodes[0, STRETCH], case.begin.nodes[0, TURNS : TURNS + 2]
        at = case.replay(seed).met_at
        for r, s in np.argwhere(case.plan.eligible):
            assert at[r, s] == r // stretch % rows * columns + s // stretch % columns


TRAVELLING, AT_HOME_OF_R, AT_HOME_OF_S = 2 * MEET + R, 2 * PROBE + S, 2 * PROBE + R


def test_low_latency_pairs_meet_at_a_home_or_before_one() -> None:
    """r meets copies of s at their home, and fresh s to the right of it; s meets copies of r at theirs."""
    for seed in range(40):
        case = scenario("low_latency", seed)
        stretch, nodes, end = case.begin.nodes[0, STRETCH], case.plan.nodes, case.replay(seed)
        for r, s in np.argwhere(case.plan.eligible):
            at, home_r, home_s = end.met_at[r, s], r // stretch % nodes, s // stretch % nodes
            allowed = {TRAVELLING: at > home_s, AT_HOME_OF_R: at == home_r, AT_HOME_OF_S: at == home_s}
            assert allowed[end.met_by[r, s]]


def of_chain(algorithm: Any, workers: int, n_r: int, n_s: int) -> Bench:
    """Tuples one by one through a chain with room enough; all pairs are to meet, then everything expires."""
    right = workers - 1
    script = [
        *[(0, R, ARRIVAL, R, r, r + 1) for r in range(n_r)],
        *[(right, S, ARRIVAL, S, s, s + 1) for s in range(n_s)],
        (0, R, EXPIRY, S, 0, n_s),
        (right, S, EXPIRY, R, 0, n_r),
    ]
    protocol = compiled(algorithm.step, algorithm.rest)
    return Bench(new_case(protocol, algorithm.topology(workers), script, np.ones((n_r, n_s)), capacity=8))


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
    bench = of_chain(low_latency, 5, r + 1, s + 1)
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
    bench = of_chain(low_latency, 3, r + 1, s + 1)
    travel(bench, S, s + 1, range(2, -1, -1))
    travel(bench, R, r + 1, range(3))
    assert (bench.state.met_by[r, s], bench.state.met_at[r, s]) == (AT_HOME_OF_S, s)
    assert bench.finish() == 0


@pytest.mark.parametrize("r", range(3))
@pytest.mark.parametrize("s", range(3))
def test_table_1_r_has_been_through_before_s_comes(r: int, s: int) -> None:
    """The expedition end goes through the chain before s does, and makes r visible at its home."""
    bench = of_chain(low_latency, 3, r + 1, s + 1)
    travel(bench, R, r + 1, range(3))
    travel(bench, S, s + 1, range(2, -1, -1))
    assert (bench.state.met_by[r, s], bench.state.met_at[r, s]) == (AT_HOME_OF_R, r)
    assert bench.finish() == 0


def test_table_1_expedition_flag() -> None:
    """A stored r is invisible until its end comes by, however long ago it was stored."""
    bench = of_chain(low_latency, 3, 1, 1)
    travel(bench, R, 1, range(2))
    assert not bench.state.held[0, R, 0]
    assert bench.take(2, R) and bench.rest(2) and bench.take(1, S) and bench.rest(1)
    assert not bench.state.held[0, R, 0]
    assert bench.take(0, S) and bench.state.held[0, R, 0]


def test_handshake_forwards_s_in_two_phases() -> None:
    """SIGMOD 2011, figure 8: a copy of s waits for the acknowledgement, and meets what crossed it in the queues."""
    bench = of_chain(handshake, 2, 2, 1)
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
    bench = of_chain(handshake, 4, 12, 8)
    for count, side, nodes in ((12, R, range(4)), (8, S, range(3, -1, -1))):
        for _ in range(count):
            travel(bench, side, 1, nodes)
            for node in (*nodes, *nodes, *nodes):
                bench.take(node, R)
                bench.take(node, S)
                bench.rest(node)
    sizes = bench.state.nodes[:4, SEEN : SEEN + 2] - bench.state.nodes[:4, handshake.SENT : handshake.SENT + 2]
    assert sizes[:, R].tolist() == [3, 3, 3, 3] and sizes[:, S].tolist() == [2, 2, 2, 2]
    assert bench.finish() == 0


# Faults. Each is a wrapper around the right functions, and leaves the rest of the world as it is.


@njit
def without(out, count, kind, side):
    """Actions, but for the messages of a kind."""
    for i in range(count):
        if out[i, DO] == SEND and out[i, BODY + KIND] == kind and out[i, BODY + SIDE] == side:
            out[i, DO] = 0
    return count


def low_latency_forgets_what_is_in_flight(node, message, out):
    """s is taken as acknowledged as soon as it is sent: an r that crosses it in the queues finds nothing."""
    count = low_latency.step(node, message, out)
    node[low_latency.ACKED] = node[SEEN + S]
    return count


def low_latency_is_deaf(node, message, out):
    """Acknowledgements are ignored: r meets s at two nodes."""
    return 0 if message[KIND] == ACKNOWLEDGEMENT else low_latency.step(node, message, out)


def low_latency_has_no_flag(node, message, out):
    """r is visible at home as soon as it arrives there: it meets a passing s, and later the copy of it."""
    count = low_latency.step(node, message, out)
    if message[KIND] == EXPEDITION_END:
        return 0
    if message[KIND] == ARRIVAL and message[SIDE] == R and count != WAIT and node[NODE] < node[NODES] - 1:
        mine, past = next_own(node, R, max(message[FIRST], node[EXPIRED + R]), message[STOP])
        if mine < past:
            count = put(out, count, INSERT, 0, 0, R, mine, past, 0, 0, 0)
    return count


def low_latency_acknowledges_late(node, message, out):
    """r goes on although an acknowledgement is due, and overtakes it: it meets s on both sides of the queue."""
    sent = node[low_latency.ACK_SENT]
    node[low_latency.ACK_SENT] = node[SEEN + S]
    count = low_latency.step(node, message, out)
    node[low_latency.ACK_SENT] = sent
    return count


def low_latency_ends_late(node, message, out):
    """s goes on although an expedition end is due, and overtakes it: at r's home it looks for r in vain."""
    sent = node[low_latency.END_SENT]
    node[low_latency.END_SENT] = node[low_latency.ENDED]
    count = low_latency.step(node, message, out)
    node[low_latency.END_SENT] = sent
    return count


def low_latency_waits_for_both(node, message, out):
    """An arrival waits until there is room for what it causes in either direction: neighbours wait for each other."""
    if message[KIND] == ARRIVAL and (node[ROOM + R] < 1 or node[ROOM + S] < 1):
        return WAIT
    return low_latency.step(node, message, out)


def low_latency_gives_up_early(node, message, out):
    """r is said to be needed no more while it is still under way to its home's window."""
    count = low_latency.step(node, message, out)
    node[KEEP + R] = node[SEEN + R]
    return count


def low_latency_counts_before_it_waits(node, message, out):
    """A message that has to wait has been noted all the same."""
    if message[KIND] == ARRIVAL and message[SIDE] == R:
        node[SEEN + R] = message[STOP]
    return low_latency.step(node, message, out)


def low_latency_takes_room_for_granted(node, message, out):
    node[ROOM + R] = node[ROOM + S] = 1
    return low_latency.step(node, message, out)


def low_latency_keeps_everything(node, message, out):
    """Every node is a home to every s."""
    count = low_latency.step(node, message, out)
    if message[KIND] == ARRIVAL and message[SIDE] == S and count != WAIT:
        if message[FIRST] >= node[EXPIRED + S] and out[count - 1, DO] != INSERT:
            count = put(out, count, INSERT, 0, 0, S, message[FIRST], message[STOP], 0, 0, 0)
    return count


def low_latency_begins_at_zero(node, message, out):
    """Horizons begin at 0 instead of nowhere, which is too high for times before 1970."""
    if message[KIND] == EXPIRY:
        node[EXPIRED_PLACE + message[SIDE]] = max(node[EXPIRED_PLACE + message[SIDE]], 0)
    return low_latency.step(node, message, out)


def low_latency_keeps_expiries(node, out):
    """What has expired is not told to the next node."""
    return without(out, low_latency.rest(node, out), EXPIRY, S)


def handshake_is_deaf(node, message, out):
    """Acknowledgements are ignored: copies of s stay where they have been, and are met again."""
    return 0 if message[KIND] == ACKNOWLEDGEMENT else handshake.step(node, message, out)


def handshake_keeps_no_copies(node, out):
    """s leaves as soon as it is sent, as r does: two in the queues cross unseen."""
    count = handshake.rest(node, out)
    sent = node[handshake.SENT + S]
    if node[NODE] > 0 and node[KEEP + S] < sent:
        node[KEEP + S] = sent
        count = put(out, count, DROP, 0, 0, S, 0, sent, 0, 0, NOWHERE)
    return count


def handshake_acknowledges_late(node, out):
    """r is sent on although an acknowledgement is due, and overtakes it."""
    if node[SEEN + R] - node[handshake.SENT + R] <= node[NEIGHBOUR + R]:
        return handshake.rest(node, out)
    sent = node[handshake.ACK_SENT]
    node[handshake.ACK_SENT] = node[SEEN + S]
    count = handshake.rest(node, out)
    node[handshake.ACK_SENT] = sent
    return count


def handshake_does_not_wait_for_the_expired(node, message, out):
    """s that have expired before they come to the left end are thrown away there, and r there has not met them."""
    if message[KIND] == ARRIVAL and message[SIDE] == S and node[NODE] == 0 and message[STOP] <= node[EXPIRED + S]:
        node[SEEN + S] = node[KEEP + S] = node[handshake.SENT + S] = message[STOP]
        return 0
    return handshake.step(node, message, out)


def handshake_drops_on_the_way(node, message, out):
    """s that have expired are dropped wherever the news finds them, and r further left has not met them."""
    count = handshake.step(node, message, out)
    gone = min(node[EXPIRED + S], node[SEEN + S])
    if node[NODE] > 0 and gone > node[KEEP + S]:
        return handshake.leave(node, S, gone, node[EXPIRED_PLACE + S], out, count)
    return count


def grid_does_not_pass_on(node, message, out):
    """r stays with the first worker of its row."""
    return without(out, grid.step(node, message, out), ARRIVAL, R)


def cell_begins_too_early(node, message, out):
    """Parts of the window overlap."""
    message[LO] = max(message[LO] - 1, 0) if message[LO] < message[HI] else message[LO]
    return cell.step(node, message, out)


def biclique_keeps_everything(node, message, out):
    """Every worker keeps both sides."""
    node[TURN], node[TURN + 1], node[TURNS], node[TURNS + 1] = 0, 0, 1, 1
    return biclique.step(node, message, out)


def biclique_inserts_first(node, message, out):
    """Only own tuples are compared, with what a worker has not."""
    count, side = biclique.step(node, message, out), message[SIDE]
    return count if node[TURN + side] >= 0 else 0


class TwoQueues(Driver):
    """The streams take different queues, so that workers may see them in different orders."""

    def arrive(self, batch: Batch) -> None:
        side, first, stop = batch
        for node in self.topology.entries[0]:
            self.send(node, side, ARRIVAL, side, first, stop)
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
            self.send(self.topology.entries[S][0], S, EXPIRY, S, 0, gone, 0, 0, int(self.horizons[S, gone]))


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
        right = MODULES[self.algorithm]
        protocol = compiled(self.step or right.step, self.rest or right.rest)
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
