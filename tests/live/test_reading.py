"""Reading results: loops, asynchronous loops, tables, and what notebooks show."""

from __future__ import annotations

import asyncio
import threading

import pyarrow as pa
import pytest

import streamjoin as sj

SCHEMA = pa.schema({"ts": pa.int64(), "x": pa.int32()})
PUSHES = 50


@pytest.fixture
def join() -> sj.Join:
    return sj.Join(r=SCHEMA, s=SCHEMA, on="abs(r.x - s.x) <= 10", within=60, time="ts")


def feed(join: sj.Join) -> threading.Thread:
    """One result for each push of s, from another thread, which closes the join."""

    def push() -> None:
        with join:
            join.push_r({"ts": [0], "x": [0]})
            for k in range(PUSHES):
                join.push_s({"ts": [k], "x": [k % 10]})

    thread = threading.Thread(target=push)
    thread.start()
    return thread


def test_a_loop_ends_with_the_join(join: sj.Join) -> None:
    thread = feed(join)
    assert sum(batch.num_rows for batch in join) == PUSHES
    thread.join()
    assert list(join) == []


def test_an_asynchronous_loop_lets_others_run(join: sj.Join) -> None:
    async def read() -> tuple[int, int]:
        ticks, over = 0, False

        async def tick() -> None:
            nonlocal ticks
            while not over:
                ticks += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(tick())
        await asyncio.sleep(0)
        thread = feed(join)
        found = sum([batch.num_rows async for batch in join.results()])
        thread.join()
        over = True
        await other
        return found, ticks

    found, ticks = asyncio.run(read())
    assert found == PUSHES and ticks > 1


def test_a_cancelled_loop_loses_nothing(join: sj.Join) -> None:
    async def read() -> int:
        found = 0
        async for batch in join.results():
            found += batch.num_rows
        return found

    async def cancel() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(read(), 0.05)

    asyncio.run(cancel())
    feed(join).join()
    assert asyncio.run(read()) == PUSHES


def test_results_as_tables(join: sj.Join) -> None:
    feed(join).join()
    assert join.to_pandas()["x_s"].tolist() == [k % 10 for k in range(PUSHES)]
    assert join.to_polars().shape == (0, 4)
    assert join.to_arrow().schema == join.schema


def test_notebooks_show_a_join_and_a_plan(join: sj.Join) -> None:
    feed(join).join()
    shown = join._repr_html_()
    assert "closed" in shown and f"{PUSHES} tuples pushed" in shown
    plan = sj.explain(SCHEMA, SCHEMA, on="r.x < s.x", within=60, time="ts")._repr_html_()
    assert "r.x &lt; s.x" in plan and "<table>" in plan
