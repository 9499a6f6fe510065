"""Where the workers of an algorithm stand on the page, and who sends to whom: from its topology, not from its name."""

from __future__ import annotations

import math
from typing import Any

from streamjoin.algorithms import ALGORITHMS, NOBODY, Topology

DRIVER = "driver"


def drawn(algorithm: str, layout: tuple[int, int]) -> dict[str, Any]:
    """Nodes with places in units of a node's width, and arrows of r and s between them.

    >>> drawn("low_latency", (1, 3))["shape"], [arrow["from"] for arrow in drawn("low_latency", (1, 3))["arrows"]]
    ('chain', ['driver', 0, 1, 'driver', 2, 1])
    >>> drawn("kang", (1, 1))["shape"], *(drawn(name, (1, 4))["shape"] for name in ("cell", "biclique", "grid"))
    ('one', 'star', 'halves', 'grid')
    """
    row = ALGORITHMS[algorithm]
    topology = row.topology(*layout)
    if topology.nodes == 1:
        shape, places = "one", [(0.0, 0.0)]
    elif row.rectangular:
        shape, places = "grid", [(float(k % layout[1]), float(k // layout[1])) for k in range(topology.nodes)]
    elif any(following != (NOBODY, NOBODY) for following in topology.next):
        shape, places = "chain", [(float(k), 0.0) for k in range(topology.nodes)]
    elif any(NOBODY in way for way in topology.way):
        shape, places = "halves", _halves(topology)
    else:
        shape, places = "star", [(float(k), 1.0) for k in range(topology.nodes)]
    return {
        "shape": shape,
        "algorithm": algorithm,
        "paper": row.paper,
        "nodes": [{"id": k, "x": x, "y": y} for k, (x, y) in enumerate(places)],
        "arrows": _arrows(topology),
    }


def _halves(topology: Topology) -> list[tuple[float, float]]:
    """Those that keep r in the first row, those that keep s in the second."""
    return [(float(of_r), 0.0) if of_s == NOBODY else (float(of_s), 1.0) for of_r, of_s in topology.way]


def _arrows(topology: Topology) -> list[dict[str, Any]]:
    found = []
    single = not topology.entries[1]  # the driver fills one queue of each worker, with both streams
    for direction, side in enumerate("rs"):
        found += [{"from": DRIVER, "to": k, "side": "rs" if single else side} for k in topology.entries[direction]]
        order = range(topology.nodes) if direction == 0 else reversed(range(topology.nodes))
        hops = [(k, topology.next[k][direction]) for k in order]
        found += [{"from": k, "to": to, "side": side} for k, to in hops if to != NOBODY]
    return found


def cells(count: int, routing: str, copies: tuple[float, float] | None) -> dict[str, Any]:
    """Spark's cells as a field of equal nodes: each has its own windows, and none knows another."""
    columns = max(1, math.ceil(math.sqrt(count)))
    return {
        "shape": "cells",
        "algorithm": routing,
        "paper": "DP-Join's scheme: every pair meets in exactly one cell",
        "copies": copies,
        "nodes": [{"id": k, "x": float(k % columns), "y": float(k // columns)} for k in range(count)],
        "arrows": [],
    }
