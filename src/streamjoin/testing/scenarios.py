"""Random cases for the scheduler: what arrives, in which windows, and the driver, who alone knows the windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

import numpy as np

from streamjoin.algorithms import ALGORITHMS, EVERYONE, SHARES, Topology
from streamjoin.algorithms.celljoin import shares
from streamjoin.algorithms.protocol import ARRIVAL, EXPIRY, NOWHERE, R, S
from streamjoin.codegen.records import Array
from streamjoin.testing.moves import CAPACITY, TUPLES
from streamjoin.testing.scheduler import MODULES, Case, Protocol, new_case

CHAINS = [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5)]
LAYOUTS = {
    "low_latency": CHAINS,
    "handshake": CHAINS,
    "grid": [(1, 1), (1, 2), (2, 1), (2, 2), (1, 3), (3, 1), (2, 3), (3, 2), (1, 5)],
    "cell": [(1, 1), (1, 2), (1, 3), (1, 5)],
    "biclique": CHAINS,
}


class Batch(NamedTuple):
    side: int
    first: int
    stop: int


class Window(NamedTuple):
    """Which pairs lie in it, and by side where its tuples lie: their times, or their numbers."""

    eligible: np.ndarray[Any, np.dtype[np.bool_]]
    at: list[list[int]]
    text: str


def sizes(rng: Random) -> tuple[int, int]:
    """How many tuples of r and s: about as many, one side much faster, one side empty."""
    few, some, many = rng.randint(1, 2), rng.randint(3, 14), rng.randint(12, TUPLES)
    return rng.choice([(few, many), (many, few), (0, some), (some, 0)] + 8 * [(some, rng.randint(3, 14))])


def arrivals(rng: Random, counts: tuple[int, int], stripe: int, batch: int) -> Iterator[Batch]:
    """Batches in the order of their arrival, in bursts of one side; none crosses a multiple of stripe or batch."""
    come, burst = [0, 0], rng.choice([1, 1, 3, 8])
    while come != list(counts):
        side = rng.choices((R, S), (counts[R] - come[R], counts[S] - come[S]))[0]
        for _ in range(rng.randint(1, burst)):
            first = come[side]
            room = min(stripe - first % stripe, batch - first % batch, counts[side] - first)
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
    """The earlier tuple is among the last n of its stream when the batch of the later one arrives."""
    last = (rng.choice([1, 2, 3, 5, 8]), rng.choice([1, 2, 3, 5, 8]))
    eligible, come = np.zeros(counts, bool), [0, 0]
    for side, first, stop in batches:
        other = 1 - side
        pairs = eligible if side == R else eligible.T
        pairs[first:stop, max(come[other] - last[other], 0) : come[other]] = True
        come[side] = stop
    return Window(eligible, [list(range(n)) for n in counts], f"last(r={last[R]}, s={last[S]})")


def horizons_of(at: Sequence[Sequence[int]]) -> Array:
    """By side and n: the first n tuples lie below."""
    horizons = np.full((2, TUPLES + 1), NOWHERE, np.int64)
    for side in (R, S):
        highest = np.maximum.accumulate(np.array(at[side], np.int64))
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
    stripe: int
    window: Window
    script: list[tuple[int, int, dict[str, int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.come, self.gone = [0, 0], [0, 0]
        self.horizons = horizons_of(self.window.at)
        pairs = self.window.eligible
        self.until = [[int(np.max(np.nonzero(p), initial=-1)) for p in side] for side in (pairs, pairs.T)]

    @property
    def feed(self) -> str:
        return ALGORITHMS[self.name].feed

    def send(self, node: int, direction: int, **message: int) -> None:
        self.script.append((node, direction, message))

    def expired(self, side: int) -> int:
        """Tuples below will be met by nothing that is yet to come."""
        come, next_other = self.come[side], self.come[1 - side]
        return next((i for i in range(come) if self.until[side][i] >= next_other), come)

    def expire(self, side: int, gone: int) -> None:
        if gone > self.gone[side] and self.feed != SHARES:
            direction = 0 if self.feed == EVERYONE else 1 - side
            for node in self.topology.entries[direction]:
                self.send(node, direction, kind=EXPIRY, side=side, stop=gone, horizon=int(self.horizons[side, gone]))
        self.gone[side] = max(gone, self.gone[side])

    def entries(self, batch: Batch) -> list[int]:
        """Where a batch enters: stripes are dealt in turns where there is more than one place."""
        entries = self.topology.entries[batch.side]
        return [entries[batch.first // self.stripe % len(entries)]]

    def arrive(self, batch: Batch) -> None:
        side, first, stop = batch
        arrival = {"kind": ARRIVAL, "side": side, "first": first, "stop": stop}
        if self.feed == SHARES:
            window = self.gone[1 - side], self.come[1 - side]
            for node, share in enumerate(shares(self.topology.nodes, side, first, stop, window)):
                self.send(node, 0, **share)
        elif self.feed == EVERYONE:
            for node in self.topology.entries[0]:
                self.send(node, 0, **arrival)
        else:
            for node in self.entries(batch):
                self.send(node, side, **arrival)
        self.come[side] = stop


def scenario(
    name: str, seed: int, protocol: Protocol | None = None, driver: type[Driver] = Driver, ends: bool = True
) -> Case:
    """A random case. In the end everything expires, unless the streams just fall silent.

    Another protocol or driver than the right one is a fault that is to be found.
    """
    rng = Random(f"{name} {seed}")
    layout, capacity = rng.choice(LAYOUTS[name]), rng.choice([1, 1, 2, 2, CAPACITY])
    stripe, batch, counts = rng.choice([1, 2, 3, 8]), rng.randint(1, 4), sizes(rng)
    batches = list(arrivals(rng, counts, stripe, batch))
    window = rng.choice([time_window, row_window])(rng, batches, counts)
    eager, strict = rng.choice([0.0, 0.2, 0.6, 1.0]), rng.random() < 0.5
    d = driver(name, ALGORITHMS[name].topology(*layout), stripe, window)
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
        f"{name} {layout}, scenario {seed}: stripe {stripe}, batch {batch}, queues of {capacity}, "
        f"{'strict' if strict else 'loose'} driver, {window.text}\n{order}"
    )
    return new_case(
        MODULES[name],
        d.topology,
        d.script,
        window.eligible,
        protocol=protocol,
        stripe=stripe,
        batch=batch,
        capacity=capacity,
        horizons=d.horizons,
        strict=strict,
        keeps=d.feed != SHARES,
        text=text,
    )
