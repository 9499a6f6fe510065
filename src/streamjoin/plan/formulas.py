"""What a join needs, what workers offer, and how long a result takes: the expressions of the papers.

Buono, De Matteis, Mencagli: A high-throughput and low-latency parallelization of window-based stream joins on
multicores (DP-Join), sections 3.3.3 and 5; Roy, Teubner, Gemulla: Low-latency handshake join (LLHJ), section 3.1.
Numbers in parentheses are their expressions. Grids are m x n: r is dealt to m rows, s to n columns, so that a worker
holds W_r/m tuples of r and W_s/n of s. T_on is the time of one comparison.

Errata of DP-Join:

- (9) ends in a factor p, the hit rate. It cancels in (7); with it, the paper's own 3 x 3 workers at 2,500 tuples/s
  would answer in 1 ns, not in the measured 1 ms. It is left out.
- 5.3.2 calls the analysis invalid for streams of different rates. Only (9) is: (7) and (8) hold with the right p_x, the
  share of results whose later tuple is an x. That is lambda_x W_y / (lambda_x W_y + lambda_y W_x), which is one half
  for equal window lengths whatever the rates.
- 5.2.1 gives 8 and 9 as the optimal degrees of "the square and the rectangular" layout: it is 9 and 8.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from streamjoin.access.prices import Price
from streamjoin.algorithms import ALGORITHMS, Spread
from streamjoin.windows.window import Retention as Retention

Layout = tuple[int, int]


@dataclass(frozen=True)
class Load:
    """Two streams in their steady state: tuples per second, and tuples in the windows."""

    rate_r: float
    rate_s: float
    window_r: float
    window_s: float

    @property
    def comparisons(self) -> float:
        """Comparisons needed per second: (3), for one second and without p."""
        return self.rate_r * self.window_s + self.rate_s * self.window_r

    @property
    def later_r(self) -> float:
        """The share of results whose later tuple is an r: p_x of (8)."""
        return self.rate_r * self.window_s / self.comparisons if self.comparisons else 0.5


def load_of(rate_r: float, rate_s: float, retention: Retention) -> Load:
    """The steady state.

    >>> load_of(2100, 2100, Retention(300, 300))
    Load(rate_r=2100, rate_s=2100, window_r=630000, window_s=630000)
    """
    if retention.by_rows:
        return Load(rate_r, rate_s, retention.r, retention.s)
    return Load(rate_r, rate_s, rate_r * retention.r, rate_s * retention.s)


def max_bandwidth(load: Load, hit_rate: float) -> float:
    """Results per second without any limit of workers: (4), 2 lambda_x lambda_y T_w p for one window length T_w."""
    return load.comparisons * hit_rate


def offered_bandwidth(m: int, n: int, comparison: float, hit_rate: float) -> float:
    """Results per second that m x n workers can find: (6), m n p / T_on."""
    return m * n * hit_rate / comparison


def optimal_degree(load: Load, comparison: float) -> int:
    """N_opt of 3.3.3: the fewest workers whose offered bandwidth (6) reaches the maximum (4); p cancels.

    >>> optimal_degree(load_of(2100, 2100, Retention(300, 300)), 3.6e-6 / 1550)  # figure 6: 1,550 results/s per worker
    7
    """
    return max(1, math.ceil(load.comparisons * comparison * (1 - 1e-12)))


def sustainable_rate(workers: int, comparison: float, retention: Retention) -> float:
    """Tuples per second on each of two equally fast streams at which workers do exactly the comparisons needed.

    lambda^2 (T_r + T_s) = N / T_on for windows of time, lambda (W_r + W_s) = N / T_on for windows of rows.
    """
    per_tuple = workers / comparison / (retention.r + retention.s) if retention.r + retention.s else math.inf
    return per_tuple if retention.by_rows else math.sqrt(per_tuple)


def latency_r(load: Load, n: int, comparison: float) -> float:
    """From the arrival of an r to a result with it, on average: (7), W_s T_on / 2n."""
    return load.window_s * comparison / (2 * n)


def latency_s(load: Load, m: int, comparison: float) -> float:
    """From the arrival of an s to a result with it, on average: (7), W_r T_on / 2m."""
    return load.window_r * comparison / (2 * m)


def grid_latency(load: Load, m: int, n: int, comparison: float) -> float:
    """From the arrival of the later tuple to the result, on average: (8), p_r L_r + p_s L_s."""
    return load.later_r * latency_r(load, n, comparison) + (1 - load.later_r) * latency_s(load, m, comparison)


def layouts(workers: int) -> list[Layout]:
    """All m x n with a number of workers.

    >>> layouts(6)
    [(1, 6), (2, 3), (3, 2), (6, 1)]
    """
    return [(m, workers // m) for m in range(1, workers + 1) if workers % m == 0]


def best_layout(load: Load, workers: int) -> Layout:
    """The layout with the lowest latency (8): the squarest one for equal streams. T_on does not matter.

    >>> best_layout(load_of(1000, 3000, Retention(300, 300)), 15)  # figure 9
    (3, 5)
    """
    return min(layouts(workers), key=lambda layout: grid_latency(load, layout[0], layout[1], 1.0))


def handshake_latency_bound(retention: Retention) -> float:
    """The longest time in which handshake join finds a result: LLHJ (8), |W_R||W_S| / (|W_R| + |W_S|).

    >>> handshake_latency_bound(Retention(200, 200)), handshake_latency_bound(Retention(200, 100))  # LLHJ 3.2
    (100.0, 66.66666666666667)
    """
    return retention.r * retention.s / (retention.r + retention.s) if retention.r + retention.s else 0.0


def handshake_latency(retention: Retention) -> float:
    """Its average if pairs meet at all points of the chain alike (alpha uniform in LLHJ 3.1): half of the bound.

    The latency rises as alpha |W_R| up to the bound at alpha = |W_S| / (|W_R| + |W_S|) and falls as (1 - alpha) |W_S|.
    """
    return handshake_latency_bound(retention) / 2


@dataclass(frozen=True)
class Node:
    """The load of one of many equal workers: its algorithm's fractions of the whole."""

    load: Load
    spread: Spread

    @property
    def rates(self) -> tuple[float, float]:
        return self.load.rate_r * self.spread.rate[0], self.load.rate_s * self.spread.rate[1]

    @property
    def segments(self) -> tuple[float, float]:
        return self.load.window_r * self.spread.segment[0], self.load.window_s * self.spread.segment[1]


def node_of(load: Load, algorithm: str, layout: Layout) -> Node:
    """A worker of an algorithm.

    >>> node_of(load_of(1000, 1000, Retention(100, 100)), "biclique", (1, 4)).segments
    (50000.0, 50000.0)
    """
    return Node(load, ALGORITHMS[algorithm].spread(*layout))


def _jobs(node: Node, price: Price, hit_rate: float = 0.0) -> tuple[float, float]:
    """Seconds of work with an r and with an s."""
    found, fixed = price.comparison + price.result * hit_rate, price.probe + price.insert * node.spread.stored
    of_r, of_s = node.segments
    return fixed + found * of_s, fixed + found * of_r


def busy(node: Node, price: Price, hit_rate: float = 0.0) -> float:
    """Seconds of work per second. Above one, the worker falls behind."""
    return sum(rate * job for rate, job in zip(node.rates, _jobs(node, price, hit_rate), strict=True))


def latency(node: Node, price: Price, hop: float = 0.0, stripe: int = 1) -> float:
    """(8), and the time until a tuple reaches a worker, which (8) leaves out. Holds if no worker falls behind.

    A worker forwards a tuple before it compares it, but first finishes its current job, which takes the mean residual
    time, (rate_r job_r^2 + rate_s job_s^2) / 2. On average a result is found half way along. With DP-Join's T_on this
    gives 0.85 ms for 3 x 3 and 1.89 ms for 1 x 9 workers at 2,500 tuples/s; 0.95 and 2.42 ms were measured (5.3.1),
    where (8) alone gives 0.29 and 0.48 ms.

    Tuples are dealt in stripes. During its stripe a row gets all of r. If that is more than its workers can process,
    the stripe queues up, on average by half of the excess.
    """
    jobs, rates, spread, load = _jobs(node, price), node.rates, node.spread, node.load
    work = [rate * job for rate, job in zip(rates, jobs, strict=True)]
    residual = sum(part * job for part, job in zip(work, jobs, strict=True)) / 2 / max(1.0, sum(work))
    found = []
    for side, (job, hops, ways) in enumerate(zip(jobs, spread.hops, spread.ways, strict=True)):
        excess = max(0.0, work[side] * ways + work[1 - side] - max(1.0, sum(work)))
        pile = (stripe - 1) / (rates[side] * ways) * excess / 2 if excess else 0.0
        found.append(job / 2 + (hops + 1) / 2 * residual + (hops - 1) / 2 * hop + pile)
    return load.later_r * found[0] + (1 - load.later_r) * found[1]
