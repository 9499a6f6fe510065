"""The live page in a real browser."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import browser
import streamjoin as sj
from streamjoin.papers import BAND, Source, schema

pytestmark = pytest.mark.skipif(browser.found() is None, reason="no Chromium on PATH")


@contextmanager
def running() -> Iterator[sj.Join]:
    """A join that is fed until the end."""
    join = sj.Join(r=schema("r"), s=schema("s"), on=BAND, within="15 seconds", time="ts")
    sources = Source("r", 1_000), Source("s", 1_000)
    over = threading.Event()

    def feed() -> None:
        while not over.is_set() and join.failure is None:
            join.push_r(sources[0].batch(100))
            join.push_s(sources[1].batch(100))
            list(join.poll())
            time.sleep(0.02)

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield join
    finally:
        over.set()
        thread.join()


def test_the_page_follows_a_join(tmp_path: Path) -> None:
    with running() as join, sj.watch(join, every=0.1) as page, browser.browser(tmp_path) as tab:

        def window() -> int:
            return int(tab.text('[data-figure="window of r"] b').replace(",", "") or 0)

        tab.open(page.url)
        first = tab.until(window)
        tab.until(lambda: window() > first)
        assert tab.text("#state") == "running" and "band" in tab.text("#plan")
        tab.until(lambda: tab.evaluate("document.querySelectorAll('#rates .scatterlayer .trace').length") == 2)
        assert tab.evaluate("document.querySelectorAll('#topology svg g').length") == 1
        tab.call("Page.reload")
        tab.until(lambda: window() > first)  # a new page gets what was before, too
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        tab.call("Emulation.setDeviceMetricsOverride", width=360, height=700, deviceScaleFactor=2, mobile=True)
        tab.until(lambda: tab.evaluate("document.documentElement.scrollWidth <= 360"))
        assert not tab.complaints
        join._engine.fail(ValueError("the disk is on fire"))
        tab.until(lambda: tab.text("#state") == "failed")
        assert tab.text("#error") == "the disk is on fire" and not tab.evaluate(
            "document.getElementById('error').hidden"
        )


def test_the_page_ends_with_the_join(tmp_path: Path) -> None:
    with sj.Join(r=schema("r"), s=schema("s"), on=BAND, within="15 seconds", time="ts") as join:
        page = sj.watch(join, "0.0.0.0:0", every=0.1)
    with browser.browser(tmp_path) as tab:
        address = page.url.replace("0.0.0.0", "127.0.0.1")
        tab.open(address[:-2])
        tab.until(lambda: "whole address" in tab.text("body"))  # a wrong token
        tab.open(address)
        tab.until(lambda: tab.text("#plan"))
        page.close()
        tab.until(lambda: tab.text("#state") == "ended")
