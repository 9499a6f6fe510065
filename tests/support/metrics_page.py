"""Writes the table of metrics in docs/watching.md anew: `python tests/support/metrics_page.py`."""

from __future__ import annotations

from pathlib import Path

from streamjoin.metrics import table

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "watching.md"

if __name__ == "__main__":
    before, _, _ = PAGE.read_text(encoding="utf-8").partition("| metric |")
    PAGE.write_text(f"{before}{table()}\n", encoding="utf-8")
