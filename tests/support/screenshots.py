"""Makes the pictures of the live page in docs/images, in a real browser: `python tests/support/screenshots.py`."""

from __future__ import annotations

import tempfile
import threading
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
        over = threading.Event()

        def feed() -> None:
            while not over.is_set():
                join.push_r(sources[0].batch(PUSH))
                join.push_s(sources[1].batch(PUSH))
                list(join.poll())
                time.sleep(PUSH / RATE)

        thread = threading.Thread(target=feed)
        thread.start()
        tab.open(page.url)
        time.sleep(SECONDS / 2)
        tab.screenshot(IMAGES / "watch.png", height=1060)  # the charts take the size of the picture
        time.sleep(SECONDS / 2)
        tab.screenshot(IMAGES / "watch.png", height=1060)
        tab.screenshot(IMAGES / "watch-dark.png", height=1060, dark=True)
        over.set()
        thread.join()


if __name__ == "__main__":
    main()
