"""The order of the runs of a tree segment: by one end of the boxes, or by two, interleaved."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from streamjoin.access.tree.records import FAN_OUT
from streamjoin.codegen.records import Array

BETTER = 0.5  # runs are ordered again if that leaves less than this part of the comparisons
Axes = tuple[int, int]


def choose_axes(values: Array, limits: Array, dims: list[int], before: Axes, size: int) -> Axes:
    """The axes by which a window of `size` tuples is searched with the fewest comparisons.

    `values` are those of some tuples, by end; `limits` those of some probes, by probe. In a run ordered by one end, a
    search visits the tuples within that end's limit and any other's. In a run ordered by two ends, of different
    dimensions, it visits the tuples within both dimensions and, along the edges of the probe's box, about the square
    root of all nodes.

    >>> import numpy as np
    >>> values, limits = np.random.default_rng(1).random((2, 500)), np.array([[0.9, 0.01], [0.8, 0.02]])
    >>> choose_axes(values, limits, [0, 1], (0, -1), 1000)  # two inequalities: either order leads to all of them
    (0, -1)
    """
    holds = values[:, None, :] <= limits.T[:, :, None]  # end, probe, tuple
    ends = range(len(values))
    seen: dict[Axes, float] = {}
    for e in ends:
        shares = [float((holds[e] & holds[other]).mean()) for other in ends if other != e]
        seen[e, -1] = size * min(shares, default=float(holds[e].mean()))
    edges = 4 * FAN_OUT * float(np.sqrt(size / FAN_OUT))
    first = {d: dims.index(d) for d in dims}
    for d, other in combinations(first, 2):
        inside = np.logical_and.reduce([holds[e] for e in ends if dims[e] in (d, other)])
        seen[first[d], first[other]] = size * float(inside.mean()) + edges
    best = min(seen, key=lambda axes: seen[axes])
    return best if seen[best] + FAN_OUT < BETTER * (seen.get(before, np.inf) + FAN_OUT) else before
