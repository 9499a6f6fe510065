"""What a live join says it has counted, against the oracle."""

from __future__ import annotations

from typing import Any

from streamjoin.testing.conformance import StreamJoin


def check_counts(join: StreamJoin, stats: dict[str, Any]) -> None:
    """Raises AssertionError unless results, tuples that came in time and late ones are counted rightly."""
    kept, late = join.split()
    assert stats["results"] == len(join.expected())
    for side in ("r", "s"):
        assert stats[side]["late"] == sum(at == side for at, _ in late)
        assert stats[side]["pushed"] == sum(at == side for at, _ in kept)
        assert stats[side]["shed"] == 0
