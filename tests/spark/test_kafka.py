"""A pipeline between real Kafka topics, through Spark's own connector, with the broker restarted on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kafka
import streamjoin as sj

pytestmark = [pytest.mark.spark, pytest.mark.slow]

START = 1_767_225_600_000_000  # 2026-01-01, in microseconds
ON = "r.price BETWEEN s.bid - 0.5 AND s.bid + 0.5"
ROWS = 300


@pytest.fixture(scope="module")
def jars() -> tuple[list[Path], list[Path]]:
    try:
        return kafka.broker_jars(), kafka.connector_jars()
    except kafka.Unreachable as error:
        pytest.skip(f"Maven Central cannot be reached for Kafka's jars: {error}")


@pytest.fixture
def broker(jars: tuple[list[Path], list[Path]], tmp_path: Path) -> Iterator[kafka.Broker]:
    running = kafka.Broker(tmp_path / "broker", jars[0])
    running.start()
    yield running
    running.remove()


def rows(name: str, value: str, seed: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    return [{"ts": START + 100_000 * i, name: i, value: round(float(random.uniform(0, 100)), 3)} for i in range(ROWS)]


def as_json(row: dict[str, Any]) -> str:
    at = np.datetime64(row["ts"], "us").astype(str) + "Z"
    return json.dumps(row | {"ts": at})


def expected(trades: list[dict[str, Any]], quotes: list[dict[str, Any]]) -> set[tuple[int, int]]:
    sides = []
    for side in (trades, quotes):
        table = pa.Table.from_pylist(side)
        sides.append(table.set_column(0, "ts", table["ts"].cast(pa.timestamp("us", "UTC"))))
    found = sj.join(*sides, on=ON, within="5 seconds", time="ts")
    return set(zip(found["trade"].to_pylist(), found["quote"].to_pylist(), strict=True))


def consumed(checkpoint: Path) -> int:
    """How many records of both topics belong to committed batches."""
    commits = [int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")]
    if not commits:
        return 0
    lines = (checkpoint / "offsets" / str(max(commits))).read_text().splitlines()[2:]
    return sum(sum(partitions.values()) for line in lines for partitions in json.loads(line).values())


def wait_until(process: subprocess.Popen[bytes], checkpoint: Path, records: int) -> None:
    limit = time.monotonic() + kafka.PATIENCE
    while consumed(checkpoint) < records:
        assert process.poll() is None, process.communicate()[1].decode()
        assert time.monotonic() < limit, f"{consumed(checkpoint)} of {records} records were taken"
        time.sleep(0.2)


def test_two_topics_become_one_while_the_broker_restarts(
    broker: kafka.Broker, jars: tuple[list[Path], list[Path]], tmp_path: Path
) -> None:
    trades, quotes = rows("trade", "price", 1), rows("quote", "bid", 2)
    half = ROWS // 2

    def produce(part: slice) -> None:
        for topic, side in (("trades", trades), ("quotes", quotes)):
            broker.produce(topic, [as_json(row) for row in side[part]])

    produce(slice(0, half))
    (tmp_path / "quotes.ddl").write_text("ts TIMESTAMP, quote BIGINT, bid DOUBLE\n")
    checkpoint = tmp_path / "checkpoint"
    at = f"kafka://{broker.address}"
    command = [sys.executable, "-m", "streamjoin", "join", "--engine", "spark", "--master", "local[2]"]
    command += ["--left", f"{at}/trades", "--left-schema", "ts TIMESTAMP, trade BIGINT, price DOUBLE"]
    command += ["--right", f"{at}/quotes", "--right-schema", str(tmp_path / "quotes.ddl")]
    command += ["--on", ON, "--within", "5 seconds", "--time", "ts", "--watermark", "10 seconds"]
    command += ["-o", f"{at}/pairs", "--checkpoint", str(checkpoint), "--json", "--trigger", "500 ms"]
    command += ["--conf", f"spark.jars={','.join(map(str, jars[1]))}"]

    def take_signals() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    pipe = subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": str(Path(sj.__file__).parents[1])}
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, env=environment, preexec_fn=take_signals)
    try:
        wait_until(process, checkpoint, 2 * half)
        broker.stop()
        time.sleep(1)
        broker.start()
        produce(slice(half, ROWS))
        wait_until(process, checkpoint, 2 * ROWS)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=kafka.PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 130, errors.decode()
    said = json.loads(out)
    wanted = expected(trades, quotes)
    assert said["results"] == len(wanted) > 100
    assert said["late"] == 0
    records = [json.loads(line) for line in broker.consume("pairs")]
    found = {(record["trade"], record["quote"]) for record in records}
    assert found == wanted
    # Spark's Kafka sink promises at least once: a batch that failed half-way is written again.
    assert len(records) >= len(wanted)
    assert set(records[0]) == {"ts_r", "trade", "price", "ts_s", "quote", "bid"}
