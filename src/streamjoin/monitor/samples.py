"""One form of sample for every engine: the page draws it, a recording keeps it, and a terminal shows it.

at                  seconds since the start
part                of the run, where one join follows another: counters of different parts are not compared
r, s                of each side: tuples, window, watermark, late, shed, bytes
rows_r, rows_s      of a join of tables: rows read
results, comparisons
latency_ms          p50, p99 and others, where results have one
punctuation_lag     ticks by which the promise of order lies behind the input
unmatched           rows that came out without a partner, of joins that have such
held_back           tuples that wait until no later one can change their result
workers             by worker: label, r and s (tuples held), comparisons, queue, busy; by cell: bytes and arrived
memory_bytes        of the process
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamjoin.monitor.run import Sample

PAGE = 4096


def of_join(stats: dict[str, Any]) -> Sample:
    """A sample of an embedded join, from its `stats()`."""
    sides = {side: _side(stats[side]) for side in "rs"}
    names = ("results", "comparisons", "latency_ms", "punctuation_lag", "order_buffer", "unmatched", "held_back")
    return {
        **sides,
        **{name: stats[name] for name in names if stats.get(name) is not None},
        "workers": [_worker(worker) for worker in stats["workers"] or [_alone(stats)]],
        "memory_bytes": resident_bytes(),
    }


def of_tables(rows: tuple[int, int], results: int | None = None, comparisons: int | None = None) -> Sample:
    """A sample of a join of whole tables: rows read, and what was found once it is."""
    figures = {"rows_r": rows[0], "rows_s": rows[1], "results": results, "comparisons": comparisons}
    return {name: value for name, value in figures.items() if value is not None} | {"memory_bytes": resident_bytes()}


def _side(stats: dict[str, Any]) -> dict[str, Any]:
    return {
        "tuples": stats.get("pushed", 0),
        "window": stats["window"],
        "watermark": stats.get("watermark"),
        "late": stats.get("late", 0),
        "shed": stats.get("shed", 0),
        "bytes": stats["store_bytes"] + stats.get("payload_bytes", 0),
    }


def _alone(stats: dict[str, Any]) -> dict[str, Any]:
    """The pushing thread as the only worker, where there is no other."""
    windows = {f"window_{side}": stats[side]["window"] for side in "rs"}
    return {"worker": 0, "comparisons": stats.get("comparisons", 0), **windows}


def _worker(stats: dict[str, Any]) -> dict[str, Any]:
    return {
        "label": str(stats["worker"]),
        "r": stats.get("window_r", 0),
        "s": stats.get("window_s", 0),
        "comparisons": stats.get("comparisons", 0),
        **{name: stats[of] for name, of in (("queue", "queue_depth"), ("busy", "utilisation")) if of in stats},
    }


def of_pipeline(stats: dict[str, Any]) -> Sample:
    """A sample of a Spark pipeline, from the totals of its listener."""
    return {
        "rows": stats["rows_in"],
        "results": stats["results"],
        "comparisons": stats["comparisons"],
        "late": stats["late"],
        "watermark": stats.get("watermark"),
        "window": stats.get("state_rows") or 0,
        "bytes": stats.get("state_bytes") or 0,
        "batch_ms": stats.get("batch_ms"),
        "batches": stats["batches"],
        "cells": stats.get("cells") or 0,
        "workers": [_cell(cell) for cell in stats.get("by_cell") or ()],
        "memory_bytes": resident_bytes(),
    }


def _cell(stats: dict[str, Any]) -> dict[str, Any]:
    return {
        "label": str(stats["cell"]),
        "r": stats["window_r"],
        "s": stats["window_s"],
        "bytes": stats["state_bytes"],
        "arrived": stats["arrived"],
        "comparisons": stats["comparisons"],
    }


def resident_bytes() -> int | None:
    """Memory that this process has in use, where the system says so.

    >>> resident_bytes() is None or resident_bytes() > 1 << 20
    True
    """
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
    except (OSError, ValueError, IndexError):
        return None
