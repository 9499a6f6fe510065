"""The live page in a real browser."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import browser
import streamjoin as sj
from streamjoin.monitor.address import Address
from streamjoin.monitor.run import Run
from streamjoin.monitor.server import Server
from streamjoin.monitor.topology import cells, drawn
from streamjoin.papers import BAND, Source, schema

pytestmark = pytest.mark.skipif(browser.found() is None, reason="no Chromium on PATH")


@contextmanager
def running() -> Iterator[sj.Join]:
    """A join that is fed until the end."""
    join = sj.Join(r=schema("r"), s=schema("s"), on=BAND, within="15 seconds", time="ts")
    sources = Source("r", 1_000), Source("s", 1_000)
    over = threading.Event()

    def feed() -> None:
        with suppress(ValueError):  # a test stops the join by one
            while not over.is_set():
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


def test_one_page_shows_what_follows_one_another(tmp_path: Path) -> None:
    """Tables, then a star whose emitter keeps the windows, then a chain under one clock, as a benchmark has them."""
    run = Run("bench")
    server = Server(run, Address())
    side = {"tuples": 100, "window": 2000, "watermark": None, "late": 0, "shed": 0, "bytes": 1}
    worker = {"label": "0", "r": 0, "s": 0, "queue": 3, "comparisons": 0}

    def live(tuples: int, **figures: float) -> dict[str, object]:
        sides = {name: side | {"tuples": tuples} for name in "rs"}
        return {**sides, "results": 1, "comparisons": 0, "workers": [worker | figures, worker | figures]}

    run.note("reading")
    run.describe("tables", None)
    run.add({"rows_r": 7, "rows_s": 8, "results": 9, "comparisons": 12_345_678})
    try:
        with browser.browser(tmp_path) as tab:
            tab.open(server.url)
            tab.until(lambda: tab.text('[data-figure="comparisons"] b') == "12.3 M")
            assert tab.text("#note").startswith("reading, ")
            hidden = "[...document.querySelectorAll('section')].filter((x) => x.hidden).length"
            assert tab.evaluate(hidden) == 5  # four charts and the workers
            run.describe("a star", drawn("cell", (1, 2)))
            run.add(live(10**6))
            tab.until(lambda: "driver, with the windows: r 2,000, s 2,000" in tab.text("#topology"))
            assert tab.text('[data-figure="r tuples/s"] b') == "–"  # nothing to compare with
            assert tab.evaluate(hidden) == 0 and tab.text("#latency").endswith("no figures yet")
            run.note("the chain")
            run.describe("a chain", drawn("lockstep", (1, 2)))
            run.add(live(10))
            run.add(live(10, busy=0.25, comparisons=4 * 10**9) | {"at": 10_000.0})
            tab.until(lambda: "busy 25 %" in tab.text("#topology"))
            assert "r 0" in tab.text("#topology") and tab.text('[data-figure="r tuples/s"] b') == "0"
            run.end("it stops")
            tab.until(lambda: tab.text("#state") == "failed")
            assert tab.text("#note") == "the chain" and tab.text("#error") == "it stops"
            assert not tab.complaints
    finally:
        server.close()


def test_cells_and_workers_are_drawn_with_what_they_hold(tmp_path: Path) -> None:
    """A Spark pipeline, then a star; by keyboard, light and dark."""
    run = Run("pipeline")
    server = Server(run, Address())
    cell = {"label": "0", "r": 1200, "s": 30, "bytes": 2048, "arrived": 300, "comparisons": 10**6}
    run.describe("the plan", cells("hash", 2, (1, 2), (2.0, 1.0)))
    for k in (1, 2):
        figures = {"rows": 400 * k, "results": k, "window": 5, "late": 0, "comparisons": 0, "bytes": 1, "batch_ms": 900}
        run.add({**figures, "batches": k, "cells": 4, "watermark": "w", "workers": [cell] * 4})
    try:
        with browser.browser(tmp_path) as tab:
            tab.open(server.url)
            tab.until(lambda: tab.text("#topology").count("cell") >= 4)
            assert "r 1,200" in tab.text("#topology") and "2.0 KiB" in tab.text("#topology")
            assert "Copies as planned: 2.00 of an r, 1.00 of an s; so far 1.50 per row" in tab.text("#topology")
            assert tab.text("#h-latency") == "Duration of micro-batches (ms)"
            assert tab.text('[data-figure="rows/s"] b') == "444"  # 400 rows in 900 ms, however late it was told
            seen = []
            for _ in range(6):
                for kind in ("keyDown", "keyUp"):
                    tab.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
                seen.append(tab.evaluate("document.activeElement.id"))
            assert seen == ["rates", "results", "latency", "window", "topology", "plan"]
            paper = "getComputedStyle(document.body).backgroundColor"
            shades = []
            for scheme in ("light", "dark"):
                media = [{"name": "prefers-color-scheme", "value": scheme}]
                tab.call("Emulation.setEmulatedMedia", features=media)
                shades.append(tab.evaluate(paper))
            assert shades[0] != shades[1]
            run.describe("another plan", drawn("cell", (1, 3)))
            tab.until(lambda: "driver" in tab.text("#topology") and tab.text("#h-topology") == "Workers")
            assert not tab.complaints
    finally:
        server.close()
