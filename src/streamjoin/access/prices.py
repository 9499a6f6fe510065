"""Prices of access paths, from the few costs that are measured. Each path states its price in its row."""

from __future__ import annotations

from dataclasses import dataclass

BATCH = 64  # most tuples that travel together (LLHJ 7.3); no tuple waits until a batch is full
TREE = 3.0  # times what the grid of a band costs, where both serve. Not measured


@dataclass(frozen=True)
class Price:
    """Seconds that an access path takes: per comparison, per probe and insertion whatever they find, per result."""

    comparison: float = 0.0
    probe: float = 0.0
    insert: float = 0.0
    result: float = 0.0


@dataclass(frozen=True)
class Costs:
    """The costs of one core, in seconds."""

    scan: float  # a comparison
    exact: float  # a comparison by the predicate itself, where it has no boxes
    band: Price
    hash: Price
    merge: float = 8e-9  # of two sorted blocks, per tuple. Not measured: the kernel works on tapes
    hop: float = 1e-6  # a message to a worker that waits for one. Not measured either. LLHJ 7.3.1: < 1 us


def of_scan(costs: Costs, boxes: bool) -> Price:
    return Price(costs.scan if boxes else costs.exact)


def of_merge(costs: Costs, boxes: bool) -> Price:
    """One pass over a block and as many arrivals."""
    return Price(costs.merge * 2 / BATCH)


def of_band(costs: Costs, boxes: bool) -> Price:
    return costs.band


def of_tree(costs: Costs, boxes: bool) -> Price:
    band = costs.band
    return Price(0.0, TREE * band.probe, TREE * band.insert, TREE * band.result)


def of_hash(costs: Costs, boxes: bool) -> Price:
    return costs.hash
