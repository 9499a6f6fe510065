"""Progress of a running join: lines where nobody watches, one block on a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import time

import pytest

from streamjoin.cli import progress
from streamjoin.cli.progress import LiveJoin

SIDE = {"pushed": 100, "window": 50, "late": 1, "watermark": 7_250_000, "store_bytes": 1024, "payload_bytes": 512}
STATS = {"r": SIDE, "s": SIDE, "seconds": 2.0, "comparisons": 4_000_000, "results": 12}


def test_what_takes_long_is_named_again(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "REMIND", 0.2)
    with LiveJoin("title") as live:
        live("compiling the join", 0.0)
        time.sleep(0.7)
        live("joining", 0.5, STATS)
    lines = capfd.readouterr().err.splitlines()
    [joining] = [line for line in lines if line.startswith("joining: done")]
    before, after = lines[: lines.index(joining)], lines[lines.index(joining) + 1 :]
    first, *again = before
    assert first == "compiling the join"
    assert again and all(re.fullmatch(r"compiling the join: \d+ s so far", line) for line in again)
    shown = (
        "done 50%",
        "tuples/s 50 per stream",
        "results 12, 6 per second",
        "windows 50 | 50",
        "state 3.0 KiB",
        "late 2",
    )
    for part in (*shown, "watermarks 00:00:07.250 | 00:00:07.250"):
        assert part in joining
    assert all(line.startswith("joining: ") for line in after)


def test_rates_are_recent_ones() -> None:
    with LiveJoin("title") as live:
        live("joining", 0.1, STATS)
        later = {side: SIDE | {"pushed": 1100} for side in "rs"}
        live("joining", 0.2, STATS | later | {"seconds": 2.01, "results": 100})  # too soon for another rate
        assert dict(live._rows)["tuples/s"] == "50 per stream"
        live("joining", 0.3, STATS | later | {"seconds": 4.0, "results": 32})
        assert dict(live._rows)["tuples/s"] == "500 per stream" and dict(live._rows)["results"] == "32, 10 per second"
        assert list(live._rates) == [50, 500]


def test_files_name_what_takes_long(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SOON", 0.3)
    monkeypatch.setattr(progress, "REMIND", 0.3)
    for quiet in (False, True):
        with progress.progress(quiet=quiet) as stage:
            stage("reading")
            stage("joining")
            time.sleep(1.5)
    first, *again = capfd.readouterr().err.splitlines()
    assert first == "joining" and again and all(re.fullmatch(r"joining: \d+ s so far", line) for line in again)


def test_a_reminder_never_follows_the_line_of_a_later_stage(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "REMIND", 0.0)
    monkeypatch.setattr(progress, "NAP", 0.0)
    with LiveJoin("title") as live:
        for stage in range(300):
            live(f"{stage}", 0.0)
    stages = [int(line.split(":")[0]) for line in capfd.readouterr().err.splitlines()]
    assert stages == sorted(stages) and set(stages) == set(range(300))


@pytest.mark.parametrize("colour", [True, False])
def test_a_terminal_has_a_block_that_goes(colour: bool) -> None:
    code = f"from streamjoin.cli.progress import *\nwith LiveJoin('title') as live:\n live('joining', 0.5, {STATS})\n"
    own, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"} | ({} if colour else {"NO_COLOR": "1"})
    subprocess.run([sys.executable, "-c", code], stderr=theirs, env=environment, check=True, timeout=60)
    os.close(theirs)
    shown = os.read(own, 1 << 16).decode()
    os.close(own)
    assert "title" in shown and "results        12" in shown
    assert max(len(line) for line in shown.splitlines()) < 200
    assert "\x1b[31m" not in shown and ("\x1b[32m" not in shown or colour)
