"""Where the page draws an algorithm's workers, and who sends to whom: from its topology, not from its name."""

from __future__ import annotations

import math
from itertools import pairwise, product
from typing import Any

from streamjoin.algorithms import ALGORITHMS, NOBODY, Topology

DRIVER = "driver"
SPACE = 0.3  # between groups of cells, in units of a cell


def drawn(algorithm: str, layout: tuple[int, int]) -> dict[str, Any]:
    """Nodes with places in units of a node's width, and arrows of r and s between them.

    >>> drawn("low_latency", (1, 3))["shape"], [arrow["from"] for arrow in drawn("low_latency", (1, 3))["arrows"]]
    ('chain', ['driver', 0, 1, 'driver', 2, 1])
    >>> drawn("kang", (1, 1))["shape"], *(drawn(name, (1, 4))["shape"] for name in ("cell", "biclique", "grid"))
    ('one', 'star', 'halves', 'grid')
    """
    row = ALGORITHMS[algorithm]
    topology = row.topology(*layout)
    driver = None  # its own place where it feeds every worker by itself
    if topology.nodes == 1:
        shape, places = "one", [(0.0, 0.0)]
    elif row.rectangular:
        shape, places = "grid", [(float(k % layout[1]), float(k // layout[1])) for k in range(topology.nodes)]
    elif any(following != (NOBODY, NOBODY) for following in topology.next):
        shape, places = "chain", [(float(k), 0.0) for k in range(topology.nodes)]
    elif any(NOBODY in way for way in topology.way):
        shape, places, driver = "halves", _halves(topology), {"y": 1.05}
    else:
        shape, places, driver = "star", [(float(k), 0.8) for k in range(topology.nodes)], {"y": 0.0}
    return {
        "shape": shape,
        "algorithm": algorithm,
        "paper": row.paper,
        "driver": driver,
        "nodes": [{"id": k, "x": x, "y": y} for k, (x, y) in enumerate(places)],
        "arrows": _arrows(topology),
    }


def _halves(topology: Topology) -> list[tuple[float, float]]:
    """Those that keep r in the first row, those that keep s in the second."""
    return [(float(of_r), 0.0) if of_s == NOBODY else (float(of_s), 1.6) for of_r, of_s in topology.way]


def _arrows(topology: Topology) -> list[dict[str, Any]]:
    found = []
    single = not topology.entries[1]  # the driver fills one queue of each worker, with both streams
    for direction, side in enumerate("rs"):
        found += [{"from": DRIVER, "to": k, "side": "rs" if single else side} for k in topology.entries[direction]]
        order = range(topology.nodes) if direction == 0 else reversed(range(topology.nodes))
        hops = [(k, topology.next[k][direction]) for k in order]
        found += [{"from": k, "to": to, "side": side} for k, to in hops if to != NOBODY]
    return found


def cells(routing: str, groups: int, grid: tuple[int, int], copies: tuple[float, float]) -> dict[str, Any]:
    """Spark's cells: groups of rows and columns. A tuple goes to one group or several; r to a row of it, s to a column.

    >>> picture = cells("range", 2, (2, 1), (1.0, 2.5))
    >>> [(node["x"], node["y"]) for node in picture["nodes"]]
    [(0.0, 0.0), (0.0, 1.0), (1.3, 0.0), (1.3, 1.0)]
    >>> [(arrow["from"], arrow["to"], arrow["side"]) for arrow in picture["arrows"][:3]]
    [('driver', 0, 'r'), ('driver', 1, 'r'), ('driver', 0, 's')]
    """
    rows, columns = grid
    abreast = max(1, round(math.sqrt(groups * rows / columns)))  # groups that stand side by side
    nodes: list[dict[str, Any]] = []
    arrows: list[dict[str, Any]] = []
    for group in range(groups):
        left, top = group % abreast * (columns + SPACE), group // abreast * (rows + SPACE)
        first = group * rows * columns
        for row, column in product(range(rows), range(columns)):
            nodes.append({"id": len(nodes), "x": round(left + column, 3), "y": round(top + row, 3)})
        for side, lines, width in (("r", range(rows), columns), ("s", range(columns), rows)):
            for line in lines:
                ids = [first + (line * columns + k if side == "r" else k * columns + line) for k in range(width)]
                arrows += [{"from": a, "to": b, "side": side} for a, b in pairwise([DRIVER, *ids])]
    return {
        "shape": "cells",
        "algorithm": f"{routing}: {groups} group{'s' * (groups > 1)} of {rows} x {columns} cells",
        "paper": "DP-Join's scheme: every pair meets in exactly one cell",
        "copies": copies,
        "nodes": nodes,
        "arrows": arrows,
    }
