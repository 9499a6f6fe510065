"""The chain in lock step as an engine: the cycle-exact model behind `algorithm="lockstep"`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from streamjoin.access.tuples import Tuples
from streamjoin.algorithms import kang
from streamjoin.algorithms.lockstep import Chain, chain_of
from streamjoin.circuit.cycles import COUNTS, MOST_DELAY, NOTHING, STILL, Clock, Input, Out, Parts, run
from streamjoin.codegen.records import Array
from streamjoin.engine import Engine, PerSide, Setup, Sink
from streamjoin.intake.prepare import Intake
from streamjoin.plan.plan import Plan
from streamjoin.windows import FOREVER, SINCE_EVER

AT_ONCE = 256  # arrivals whose matches are noted together
ROOM = 1 << 14  # results between two polls
FOR_EVER = 1 << 62
NO_TRACE = np.zeros((0, COUNTS), np.int64)


class Model:
    """A chain, cycle by cycle.

    >>> model = Model(Chain(cores=2, rows=(2, 2)))
    >>> everything = np.ones((4, 4), np.bool_)
    >>> r, s, _ = model.feed(np.array([0, STILL]), np.array([STILL, 0]), everything)
    >>> list(zip(r, s)), int(model.clock.steps)  # they rest at the two ends, and have not met
    ([], 2)
    >>> r, s, _ = model.feed(*model.flush(), everything)
    >>> [(int(a), int(b)) for a, b in zip(r, s)]
    [(0, 0)]
    """

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        clock, n = Clock.new(), chain.cores
        clock.cores, clock.scanners, clock.down, clock.up = n, chain.scanners, chain.down, chain.up
        clock.delay, clock.depth, clock.merger = chain.found_after, chain.depth, chain.merger
        clock.mergers, clock.expedited = len(chain.mergers), chain.expedited
        clock.longest[:], clock.rows[:] = chain.longest, chain.rows
        clock.both, clock.only[:] = chain.step(True, True), (chain.step(True, False), chain.step(False, True))
        clock.margin[:] = chain.margin(0), chain.margin(chain.leaves - 1)
        clock.scan = -1
        clock.starts[:] = STILL
        fifos, entries = chain.leaves + len(chain.mergers), max(chain.depth, chain.merger)
        inputs = np.full((len(chain.mergers), chain.fan_in), NOTHING, np.int64)
        for merger, group in enumerate(chain.mergers):
            inputs[merger, : len(group)] = group

        def zeros(*shape: int) -> Array:
            return np.zeros(shape, np.int64)

        self.clock = clock
        self.parts = Parts(
            np.array([chain.segments(0), chain.segments(1)], np.int64),
            zeros(2, n),
            np.full((2, n, max(chain.longest)), NOTHING, np.int64),
            np.full((2, n), NOTHING, np.int64),
            zeros(n),
            zeros(n),
            np.full((MOST_DELAY, chain.leaves, 2), NOTHING, np.int64),
            zeros(fifos, entries, 2),
            zeros(fifos),
            zeros(fifos),
            zeros(fifos),
            inputs,
            zeros(len(chain.mergers)),
            zeros(len(chain.mergers)),
            zeros(n),
            zeros(n),
        )

    def feed(
        self, r: Array, s: Array, matches: Array, pause: Array | None = None, ready: Array | None = None
    ) -> tuple[Array, Array, Array]:
        """Takes steps, and runs the clock until all their results are out: places of r and s, and latencies.

        A latency is the number of cycles from the admission of the step in which the later of the two came in until the
        result was taken; -1 where that was before this call.
        """
        given = Input(
            np.asarray(r, np.int64),
            np.asarray(s, np.int64),
            np.zeros(len(r), np.int64) if pause is None else np.asarray(pause, np.int64),
            np.ones(1, np.bool_) if ready is None else np.asarray(ready, np.bool_),
            matches,
            FOR_EVER,
            True,
        )
        admitted = np.zeros(len(r), np.int64)
        self.clock.taken = self.clock.pausing = 0
        found = []
        while True:
            room: Array = np.empty((3, ROOM), np.int64)
            out = Out(room[0], room[1], room[2], admitted, NO_TRACE)
            count = self._run(given, out)
            found.append((out.r[:count], out.s[:count], out.cycle[:count]))
            if count < ROOM:
                break
        places_r, places_s, cycles = (np.concatenate(parts) for parts in zip(*found, strict=True))
        came = np.maximum(_cycle_of(given.r, admitted, places_r), _cycle_of(given.s, admitted, places_s))
        return places_r, places_s, np.where(came < 0, -1, cycles - came)

    def trace(self, r: Array, s: Array, matches: Array, pause: Array, ready: Array, cycles: int) -> Array:
        """What the circuit must show in each of this many cycles, by the columns of `cycles.py`."""
        fifos = self.chain.leaves + len(self.chain.mergers)
        given = Input(r, s, pause, ready, matches, cycles, False)
        room: Array = np.empty((3, cycles), np.int64)
        out = Out(room[0], room[1], room[2], np.zeros(len(r), np.int64), np.zeros((cycles, COUNTS + fifos), np.int64))
        self.clock.taken = self.clock.pausing = 0
        self._run(given, out)
        return out.trace

    def flush(self) -> tuple[Array, Array]:
        """Steps after which all that is in the chain has met: r moves on until it has passed every s."""
        count = 0 if self.chain.expedited else self.chain.rows[0]
        return np.full(count, NOTHING, np.int64), np.full(count, STILL, np.int64)

    def _run(self, given: Input, out: Out) -> int:
        count = int(run(self.clock, self.parts, given, out))
        if count < 0:
            raise AssertionError("a result was lost: the margin of the result FIFOs is too small")
        return count

    def figures(self) -> dict[str, Any]:
        """What was counted so far."""
        clock, chain = self.clock, self.chain
        cycles = max(int(clock.cycle), 1)
        highest = self.parts.highest[: chain.leaves].reshape(chain.cores, chain.scanners)
        return {
            "cores": chain.cores,
            "segment": max(chain.longest),
            "cycles": int(clock.cycle),
            "steps": int(clock.steps),
            "cycles_per_step": chain.step(True, True),
            "throttled_cycles": int(clock.throttled),
            "idle_cycles": int(clock.idle),
            "fifo_entries": chain.depth,
            "fifo_margin": max(chain.margin(0), chain.margin(chain.leaves - 1)),
            "fifo_high_water": highest.max(axis=1).tolist(),
            "network_high_water": self.parts.highest[chain.leaves :].tolist(),
            "utilisation": (self.parts.compared / (cycles * chain.scanners)).tolist(),
        }


def _cycle_of(steps: Array, admitted: Array, places: Array) -> Array:
    """By place: the cycle in which it was admitted; -1 if not by these steps."""
    real = steps >= 0
    known, cycles = steps[real], admitted[real]
    if not len(known) or not len(places):
        return np.full(len(places), -1, np.int64)
    at = np.searchsorted(known, places).clip(0, len(known) - 1)
    return np.where(known[at] == places, cycles[at], -1)


class LockStep(Engine):
    """Arrivals become steps of a chain: an r and the s that follows it move in the same one.

    Which pairs match is found by the exact test of all joins, when the later of the two arrives; when and in which core
    they meet, and when the result comes out, by the model.
    """

    def __init__(self, plan: Plan, intake: Intake, setup: Setup, sink: Sink) -> None:
        super().__init__(plan, intake, setup, sink)
        chain = chain_of(plan.window, setup.workers)
        self.model = Model(chain)
        self._segments = intake.segment(0), intake.segment(1)
        self._searches = intake.search(0), intake.search(1)
        self._slots = [1 << (rows + 2 * AT_ONCE).bit_length() for rows in chain.rows]
        self._matches: Array = np.zeros(self._slots, np.bool_)  # by tuple numbers, of which so many are told apart
        self._next = [0, 0]  # places that have entered, or wait to
        self._arrived = [0, 0]  # tuples, without those that were filtered out
        self._held = STILL  # an r that waits for the s that it may move with

    def start(self) -> None:
        """Nothing to start: the model runs in the pushing thread."""

    def arrive(self, side: int, batch: Tuples) -> None:
        for begin in range(0, len(batch), AT_ONCE):
            part = batch.part(begin, min(begin + AT_ONCE, len(batch)))
            numbers = np.arange(self._arrived[side], self._arrived[side] + len(part))
            self._note(side, replace(part, number=numbers))
            steps = list[int]()
            for number, place in zip(numbers.tolist(), part.at.tolist(), strict=True):
                steps += self._gap(side, place)
                steps.append(number)
                self._next[side] = place + 1
            self._feed(side, steps)

    def _gap(self, side: int, place: int) -> list[int]:
        """Steps for rows that were filtered out before a place: they count in a window of rows."""
        return [NOTHING] * min(place - self._next[side], self.model.chain.rows[side])

    def _note(self, side: int, batch: Tuples) -> None:
        """Notes which tuples in the chain the arrivals match."""
        new = batch.number & self._slots[side] - 1
        if side == 0:
            self._matches[new] = False
        else:
            self._matches[:, new] = False
        self._arrived[side] += len(batch)
        if self._prefill:
            self._segments[side].insert(batch)
            return
        for r, s in kang.arrive(side, batch, self._segments, self._searches):
            self._matches[r & self._slots[0] - 1, s & self._slots[1] - 1] = True

    def _feed(self, side: int, entering: list[int]) -> None:
        """Lets tuples enter. The last r is held back: if an s comes next, they move in one step."""
        if not entering:
            return
        still = [STILL] * len(entering)
        held = [self._held] if self._held != STILL else []
        if side == 0:
            steps, self._held = held + entering[:-1], entering[-1]
            self._step(steps, [STILL] * len(steps))
        else:
            self._held = STILL
            self._step(held + still[len(held) :], entering)

    def _step(self, of_r: list[int], of_s: list[int]) -> None:
        if not of_r:
            return
        r, s, _ = self.model.feed(np.array(of_r, np.int64), np.array(of_s, np.int64), self._matches)
        if len(r):
            self._sink.pairs(r, s)

    def expire(self, horizons: PerSide, arrived: PerSide) -> None:
        for side in (0, 1):
            self._feed(side, self._gap(side, arrived[side]))
            self._next[side] = max(self._next[side], arrived[side])
            if horizons[side] > SINCE_EVER:
                self._segments[side].expire(horizons[side])
        self._sink.complete(self._complete())

    def _complete(self) -> PerSide:
        """A tuple has met everything when it has left the chain: those below these numbers have."""
        if self.model.chain.expedited:
            return self._arrived[0] - (self._held >= 0), self._arrived[1]
        left = []
        for side in (0, 1):
            stays = self.model.parts.segments[side]
            oldest = stays[stays != NOTHING].min(initial=self._arrived[side])
            left.append(int(oldest) if side or self._held < 0 else min(int(oldest), self._held))
        return left[0], left[1]

    def _meet(self) -> None:
        """Finds the remaining pairs of the tuples in the chain."""
        if self._held != STILL:
            held, self._held = self._held, STILL
            self._step([held], [STILL])
        flush_r, flush_s = self.model.flush()
        self._step(flush_r.tolist(), flush_s.tolist())

    def finish(self) -> None:
        if self.failure is None:
            self._meet()
            self._sink.complete((self._arrived[0], self._arrived[1]))
            for side in (0, 1):
                self._segments[side].expire(FOREVER)

    @property
    def window(self) -> PerSide:
        return len(self._segments[0]), len(self._segments[1])

    def nbytes(self, side: int) -> int:
        return self._segments[side].nbytes + self._matches.nbytes // 2

    def comparisons(self) -> int:
        return int(self.model.parts.compared.sum())

    def workers(self) -> list[dict[str, Any]]:
        """The join cores."""
        parts, figures = self.model.parts, self.model.figures()
        held = (parts.segments != NOTHING).sum(axis=2)
        return [
            {
                "worker": k,
                "turn": k,
                "window_r": int(held[0, k]),
                "window_s": int(held[1, k]),
                "comparisons": int(parts.compared[k]),
                "results": int(parts.results[k]),
                "fifo_high_water": figures["fifo_high_water"][k],
                "utilisation": figures["utilisation"][k],
            }
            for k in range(self.model.chain.cores)
        ]

    def stats(self) -> dict[str, Any]:
        """Besides, the cycles of the chain and what it did in them."""
        return super().stats() | {"circuit": self.model.figures()}
