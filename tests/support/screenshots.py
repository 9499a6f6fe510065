"""Makes the pictures of the live page in docs/images, in a real browser: `python tests/support/screenshots.py`."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import browser
import streamjoin as sj
from streamjoin.papers import BAND, Source, schema

IMAGES = Path(__file__).resolve().parent.parent.parent / "docs" / "images"
SECONDS, RATE, PUSH = 20.0, 2_000, 100


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    spread: dict[str, Any] = {"algorithm": "low_latency", "workers": 3}
    sources = Source("r", RATE), Source("s", RATE)
    with (
        sj.Join(r=schema("r"), s=schema("s"), on=BAND, within="10 seconds", time="ts", **spread) as join,
        sj.watch(join) as page,
        tempfile.TemporaryDirectory() as folder,
        browser.browser(Path(folder)) as tab,
    ):
        join.push_r(sources[0].batch(PUSH))
        tab.open(page.url)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            join.push_r(sources[0].batch(PUSH))
            join.push_s(sources[1].batch(PUSH))
            list(join.poll())
            time.sleep(PUSH / RATE)
        tab.screenshot(IMAGES / "watch.png", height=1060)
        tab.screenshot(IMAGES / "watch-dark.png", height=1060, dark=True)


if __name__ == "__main__":
    main()
