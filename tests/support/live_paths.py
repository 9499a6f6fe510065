"""Algorithms with access paths for tests of live joins, and the whole check of one such join."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

import streamjoin as sj
from streamjoin.testing.conformance import StreamJoin

Path = tuple[str, str]  # algorithm and access
# Every algorithm once.
PATHS: tuple[Path, ...] = (
    ("kang", "scan"),
    ("cell", "scan"),
    ("biclique", "hash"),
    ("handshake", "scan"),
    ("low_latency", "band"),
    ("grid", "hash"),
    ("hells", "scan"),
)


def each_path(paths: Iterable[Path] = PATHS) -> pytest.MarkDecorator:
    """A test for each `algorithm` and `access`; those on a device run in a process of their own."""
    return pytest.mark.parametrize(
        ("algorithm", "access"),
        [pytest.param(a, b, id=f"{a}-{b}", marks=[pytest.mark.device] * (a == "hells")) for a, b in paths],
    )


def check(join: StreamJoin, **options: Any) -> None:
    """What comes out of a live join, in which order, and not before it is known."""
    watched = join.watch(sj.Join(**join.options, **options))
    join.verify([item for _, item in watched])
    join.verify_moments(watched)
