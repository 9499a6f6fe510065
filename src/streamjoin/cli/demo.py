"""`streamjoin demo`: the papers' workload, live, verified at the end."""

from __future__ import annotations


def demo() -> None:
    """Joins the papers' two streams live, shows the rates, and checks the result against an oracle."""
    from streamjoin.lab.demo import run

    run()
