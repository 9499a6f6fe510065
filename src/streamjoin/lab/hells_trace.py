"""The execution patterns of the HELLS paper, figures 4 and 5, drawn from what a join did on a device.

python -m streamjoin.lab.hells_trace
"""

from __future__ import annotations

import time

from streamjoin.bench.harness import BareJoin, papers_plan
from streamjoin.engine import Setup
from streamjoin.papers import BAND, Source
from streamjoin.predicate.tree import SIDES

Steps = list[tuple[str, int, int]]

WIDTH = 96
LANES = {  # the queue of a window, or the CPU; what a step looks like
    "window r": {"add r": "a", "compare s": "S"},
    "window s": {"add s": "a", "compare r": "R"},
    "CPU": {"interpret r": "r", "interpret s": "s"},
}


def traced(synchronous: bool, window: int = 400_000, batch: int = 64, pushes: int = 3) -> Steps:
    """The steps of a few pushes of either stream against full windows, in nanoseconds from the first on."""
    plan = papers_plan(on=BAND, within="15 minutes", algorithm="hells")
    steps: Steps = []
    setup = Setup(plan.algorithm, plan.workers, plan.layout, synchronous=synchronous, trace=steps)
    join = BareJoin(plan, setup)
    sources = [Source(name, window / 900) for name in SIDES]
    join.fill(sources, window, most=window)

    def push() -> None:
        for side, source in enumerate(sources):
            join.engine.arrive(side, join.prepared(side, source.batch(batch)))

    push()
    join.engine.wait()
    start = time.perf_counter_ns()
    for _ in range(pushes):
        push()
    join.engine.wait()
    join.close()
    return [(name, begin - start, end - start) for name, begin, end in steps if begin >= start and name in _KNOWN]


_KNOWN = {name for lane in LANES.values() for name in lane}


def draw(steps: Steps) -> str:
    """A line of letters per lane, time from left to right.

    >>> steps = [("add r", 0, 10_000), ("compare r", 0, 500_000), ("interpret r", 500_000, 1_000_000)]
    >>> lines = draw(steps).splitlines()
    >>> [line[:12] for line in lines[:3]], lines[1].count("R"), lines[2].count("r")
    (['window r  a.', 'window s  RR', 'CPU       ..'], 48, 48)
    """
    end = max(stop for *_, stop in steps)
    lines = []
    for lane, letters in LANES.items():
        row = ["."] * WIDTH
        for name, begin, stop in steps:
            if name in letters:
                first = min(begin * WIDTH // end, WIDTH - 1)
                for k in range(first, max(first + 1, min(-(-stop * WIDTH // end), WIDTH))):
                    row[k] = letters[name] if row[k] == "." or letters[name] == "a" else row[k]
        lines.append(f"{lane:<9} {''.join(row)}")
    return "\n".join([*lines, f"{'':<9} 0{f'{end / 1e6:.1f} ms':>{WIDTH - 1}}"])


if __name__ == "__main__":
    for title, waits in (("figure 4: synchronous interpretation", True), ("figure 5: asynchronous", False)):
        print(f"{title}\n{draw(traced(waits))}\n")
