"""Ctrl-C at any step of a live join: it all happened, nothing did, or the join says that it has failed. It never hangs.

Each test is a process of its own; see support/interruptions.py. HYPOTHESIS_PROFILE=soak looks at every step.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

import interruptions
from interruptions import ALGORITHMS
from profiles import SOAK, soak_only

PROGRAM = interruptions.__file__
PARALLEL = [algorithm for algorithm in ALGORITHMS if algorithm not in ("kang", "hells")]
HELLS = pytest.mark.device  # in a process that skips it where no device is right
EACH = [pytest.param(name, marks=HELLS) if name == "hells" else name for name in ALGORITHMS]


def run(*words: object, timeout: float = 600) -> dict[str, Any]:
    done = subprocess.run([sys.executable, PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr[-6000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("algorithms", "every"),
    [
        ("kang", 5),
        ("grid", 17),
        ("handshake", 29),
        ("cell,biclique,low_latency", 71),
        pytest.param("hells", 71, marks=HELLS),
    ],
)
def test_at_a_line(algorithms: str, every: int) -> None:
    for algorithm in algorithms.split(",") if SOAK else [algorithms]:
        found = run("lines", algorithm, "--every", 1 if SOAK else every, "--offset", every // 2, timeout=7200)
        for name in ("push", "long push", "advance", "close"):
            assert found[f"{name}: failed"] > 0, found


@pytest.mark.parametrize(("kind", "every"), [("left", 53), ("anti", 59), ("take", 61), ("count", 67)])
def test_of_every_kind(kind: str, every: int) -> None:
    """What was decided stays so: no row comes twice, none contradicts another, and what is missing is told."""
    for algorithm in ("kang", "grid") if SOAK or kind == "left" else ("kang",):
        found = run("lines", algorithm, "--kind", kind, "--every", 3 if SOAK else every, timeout=7200)
        for name in ("push", "advance", "close"):
            assert found[f"{name}: failed"] > 0, found


def test_at_a_line_of_tables_and_twice() -> None:
    assert run("tables", "grid", "--every", 5 if SOAK else 151)["tables: nothing"] > 0
    assert run("twice", "handshake", "--every", 11 if SOAK else 97)["twice"] > 0


def test_a_push_that_waits_for_its_workers() -> None:
    """It is interrupted within a second."""
    assert run("blocked", ",".join(PARALLEL) if SOAK else "grid")["blocked: failed"] > 0


@soak_only
@pytest.mark.parametrize("algorithm", EACH)
def test_at_an_instruction(algorithm: str) -> None:
    assert run("opcodes", algorithm, "--every", 11, "--offset", os.getpid(), timeout=7200)["push: failed"] > 0


@soak_only
@pytest.mark.parametrize("algorithm", EACH)
def test_signals_at_random_moments(algorithm: str) -> None:
    found = run("signals", algorithm, "--rounds", 3000, "--seed", os.getpid(), timeout=7200)
    assert found["failed"] > 0, found


@soak_only
@pytest.mark.parametrize("algorithm", ["kang", *PARALLEL])
def test_twice(algorithm: str) -> None:
    assert run("twice", algorithm, "--every", 17, timeout=7200)["twice"] > 0
