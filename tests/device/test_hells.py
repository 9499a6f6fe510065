"""The comparison on an OpenCL device: generated OpenCL C against the nested loop; FIFO, choice and failure of devices.

Windows, ties, disorder and order are tested with the other parallel algorithms, in test_parallel.py.
"""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamjoin as sj
from fuzz import EDGE_CASES, check, fuzz_join, may_raise, sample, seeds
from streamjoin.algorithms.hells import WORD, Fifo, moves, tiles
from streamjoin.codegen.program import Program
from streamjoin.device import opencl_join as hells
from streamjoin.device.bitmaps import FOUND, NEXT, interpret
from streamjoin.device.buffers import stage
from streamjoin.device.devices import choose, devices, opencl
from streamjoin.device.opencl_text import HEAD, OPTIONS, Source, together
from streamjoin.errors import DataError, DeviceError, OptionError, PredicateError
from streamjoin.intake.columns import physical_columns
from streamjoin.predicate import as_tree
from streamjoin.predicate.analysis import analyse, conjuncts
from streamjoin.predicate.resolve import resolve
from streamjoin.testing.expressions import E, to_sql
from streamjoin.testing.generate import Predicates, rows, schema
from streamjoin.testing.meaning import matrix
from streamjoin.testing.rows import to_table

pytestmark = pytest.mark.device

R, S = schema("r"), schema("s")
RAMP = pa.schema({"t": pa.int64(), "x": pa.int64()})


Rows = list[dict[str, Any]]


def on_device(texts: list[str], rs: Rows, ss: Rows, probing: str) -> list[np.ndarray | None]:
    """The truth of predicates for all pairs, every conjunct on the device; None where it met an overflow."""
    sources = []
    for text in texts:
        tree = resolve(as_tree(text), R, S)
        whole: dict[str, Any] = {
            "filters": {"r": (), "s": ()},
            "exact": tuple(conjuncts(tree)),
            "equalities": (),
            "dimensions": (),
        }
        program = Program(replace(analyse(tree), **whole, strict=frozenset()))
        sources.append((program, Source(program)))
    cl, text = opencl(), together([source for _, source in sources])
    context = cl.Context([choose(None)])
    commands = cl.CommandQueue(context)
    built = cl.Program(context, text).build(list(OPTIONS))
    tables, found = {"r": to_table(rs, R), "s": to_table(ss, S)}, list[np.ndarray | None]()
    stored = "s" if probing == "r" else "r"
    words = -(-tables[stored].num_rows // WORD)
    for k, (program, source) in enumerate(sources):
        probes, kept = (physical_columns(tables[side], program.stored[side], side) for side in (probing, stored))
        n, m = tables[probing].num_rows, tables[stored].num_rows
        zero, ever = np.zeros(n, np.int64), np.full(n, np.iinfo(np.int64).max)
        batch = stage(context, source.staged(probing), [zero, *probes, -ever, ever])
        arrays = []
        for field, column in zip(source.stored(stored), [np.zeros(m, np.int64), *kept], strict=True):
            padded = np.zeros(words * WORD, field.dtype)
            padded[:m] = column
            arrays.append(cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=padded))
        bitmap = np.zeros(HEAD + words * n, np.uint32)
        results = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=bitmap)
        kernel = cl.Kernel(built, f"compare_{probing}_{k}")
        numbers = (np.int32(0), np.int32(n), np.uint32(0), np.uint32(words), np.int32(0), np.int32(m))
        kernel(commands, (words,), None, batch, *numbers, results, *arrays)
        cl.enqueue_copy(commands, bitmap, results)
        if bitmap[0]:
            found.append(None)
            continue
        bits = np.unpackbits(bitmap[HEAD:].reshape(words, n, 1).view(np.uint8), axis=2, bitorder="little")
        truth = bits.transpose(1, 0, 2).reshape(n, words * WORD)[:, :m].astype(np.bool_)
        found.append(truth if probing == "r" else truth.T)
    return found


def compared(trees: list[E], rs: list[dict[str, Any]], ss: list[dict[str, Any]], probing: str) -> int:
    """Checks every tree. Returns how many met an overflow, which only those may that the oracle says so of."""
    met = 0
    wanted = [matrix(e, rs, ss) for e in trees]
    for e, want, got in zip(trees, wanted, on_device([to_sql(e) for e in trees], rs, ss, probing), strict=True):
        if got is None:
            assert may_raise(want), to_sql(e)
            met += 1
        else:
            check(e, rs, ss, want, got)
    return met


@pytest.mark.parametrize(("seed", "edges", "probing"), [(1000, False, "r"), (2000, True, "s"), (3000, True, "r")])
def test_generated_code(seed: int, edges: bool, probing: str, soak: bool) -> None:
    """The same trees as those of the Numba kernels, all operators and types among them."""
    trees, rs, ss = sample(seed, 400 if soak else 16, edges)
    met = compared(trees, rs, ss, probing)
    assert met or seed != 3000, "no tree overflows: the test is idle"


def test_the_edges_we_know_of() -> None:
    """Hand-picked texts: as the Numba kernels, which are checked against Spark."""
    from streamjoin.testing.truth import evaluate_all

    rng = Random(77)
    rs, ss = rows(rng, 60, "r", True), rows(rng, 60, "s", True)
    want = evaluate_all([as_tree(text) for text in EDGE_CASES], R, S, to_table(rs, R), to_table(ss, S))
    for text, a, b in zip(EDGE_CASES, want, on_device(EDGE_CASES, rs, ss, "r"), strict=True):
        assert b is not None
        assert np.array_equal(np.asarray(a), b), text


@pytest.mark.parametrize("seed", seeds(4, 100))
def test_whole_joins_of_equalities_and_bands(seed: int) -> None:
    """With filters, boxes and key hashes in front of the exact test."""
    e = Predicates(Random(4000 + seed)).shape()
    fuzz_join(e, seed, to_sql(e), algorithm="hells")


def test_an_overflow_ends_the_join_and_names_the_tuples() -> None:
    edge = 2**62
    join = joined("r.x * s.x % 7 = 3", 1000)
    join.push_r({"t": [1, 2], "x": [1, edge]})
    with pytest.raises(DataError, match=f"r.x = {edge}.*s.x = {edge}"):
        push_and_close(join, {"t": [1, 2], "x": [1, edge]})


def push_and_close(join: sj.Join, batch: dict[str, Any]) -> None:
    """What a device finds wrong shows in the push, or later."""
    join.push_s(batch)
    join.close()


def joined(on: Any, within: Any, **options: Any) -> sj.Join:
    return sj.Join(r=RAMP, s=RAMP, on=on, within=within, time="t", algorithm="hells", **options)


def ramp(start: int, n: int) -> dict[str, Any]:
    return {"t": np.arange(start, start + n), "x": np.arange(start, start + n) * 7919 % 1000}


@pytest.mark.parametrize("memory", ["host", "device", "parts"])
def test_windows_grow_and_wrap(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Far more tuples than the FIFO was made for, then many rounds through it; parts of a window and of a batch."""
    monkeypatch.setattr(hells, "MOST_WORDS", 256)
    monkeypatch.setattr("streamjoin.device.buffers.PART", 3)
    n, size, reach = 12_000, 700, 1_500
    results = 0
    with joined("r.x BETWEEN s.x - 1 AND s.x + 1", reach, memory=memory) as join:
        sizes = []
        for start in range(0, n, size):
            join.push_r(ramp(start, size))
            join.push_s(ramp(start, size))
            sizes.append(join.stats()["r"]["store_bytes"])
        stats = join.stats()
    results = sum(batch.num_rows for batch in join.poll())
    x = np.arange(-(-n // size) * size) * 7919 % 1000
    want = sum(int((np.abs(x[max(i - reach, 0) : i + reach + 1] - value) <= 1).sum()) for i, value in enumerate(x))
    assert results == want
    assert sizes[-1] == sizes[len(sizes) // 2] > sizes[0], "the FIFO grows to what it needs, and no further"
    assert stats["device"]["memory"] == {"r": memory, "s": memory}
    assert stats["r"]["window"] < 2 * (reach + size + 4096)


def test_a_window_too_large_for_the_device_is_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lies on the device until it has grown too large."""
    monkeypatch.setattr("streamjoin.device.buffers.SHARE", 300_000 / choose(None).global_mem_size)
    seen = []
    with joined("r.x = s.x", 10**6) as join:
        for start in range(0, 16_000, 1_000):
            join.push_r(ramp(start, 1_000))
            join.push_s(ramp(start, 1_000))
            seen.append(join.stats()["device"]["memory"]["s"])
    assert (seen[0], seen[-1]) == ("host", "parts")
    assert sum(batch.num_rows for batch in join.poll()) == 16 * 16_000


def test_the_fifo_is_sized_by_rate_and_window() -> None:
    timed = pa.schema({"t": pa.timestamp("us"), "x": pa.int64()})
    options: dict[str, Any] = {"r": timed, "s": timed, "on": "r.x = s.x", "time": "t", "algorithm": "hells"}
    with sj.Join(**options, within="10 seconds", rate=(100, 2_000)) as join:
        r, s = (join.stats()[side]["store_bytes"] for side in "rs")
    assert s > 15 * r > 0
    with sj.Join(**options, within=sj.last(r=10_000, s=100)) as join:
        r, s = (join.stats()[side]["store_bytes"] for side in "rs")
    assert r > 15 * s > 0


@given(data=st.data())
def test_a_fifo_knows_its_live_tuples(data: st.DataObject) -> None:
    """Against a list: what lives, where it lies, and where it moves when the FIFO grows."""
    fifo, live = Fifo(data.draw(st.integers(0, 100))), list[int]()
    cells: dict[int, int | None] = {}
    for _ in range(data.draw(st.integers(1, 12))):
        count = data.draw(st.integers(0, 90))
        capacity = fifo.needed(count)
        if capacity != fifo.capacity:
            moved: dict[int, int | None] = {}
            for source, target, length in moves(fifo, capacity):
                for k in range(length * WORD):
                    moved[target * WORD + k] = cells.get(source * WORD + k)
            cells, fifo.capacity = moved, capacity
        at = np.arange(fifo.head, fifo.head + count)
        cells |= {int(p % fifo.capacity): int(p) for p in at}
        fifo.push(at)
        live += [int(p) for p in at]
        assert len(fifo) <= fifo.capacity
        if data.draw(st.booleans()) and live:
            horizon = data.draw(st.integers(live[0], live[-1] + 1))
            fifo.expire(horizon)
            assert fifo.first <= max(horizon, live[0])
            live = [p for p in live if p >= fifo.first]
        assert (fifo.first, fifo.head) == (live[0], live[-1] + 1) if live else len(fifo) == 0
        turn = fifo.capacity // WORD
        words = [w for first, stop in fifo.ranges() for w in range(first, stop)]
        assert len({w % turn for w in words}) == len(words)
        kept = [cells.get(w % turn * WORD + k) for w in words for k in range(WORD)]
        assert [p for p in kept if p is not None and fifo.first <= p < fifo.head] == live


@given(st.integers(1, 5_000), st.integers(1, 10**7), st.integers(1, 2_000), st.integers(64, 1 << 20))
def test_tiles_fit_their_bitmap(probes: int, words: int, most_probes: int, most_words: int) -> None:
    count, part = tiles(probes, words, most_probes, most_words)
    assert 1 <= count <= min(probes, most_probes)
    assert 1 <= part <= words
    assert count * part <= max(most_words, count)


@given(data=st.data())
def test_interpretation_finds_every_set_bit(data: st.DataObject) -> None:
    probes, count = data.draw(st.integers(1, 5)), data.draw(st.integers(0, 12))
    word = st.sampled_from([0, 0, 0, 1, 2**31, 2**32 - 1, 0xF0F0F0F0])
    words = np.array(data.draw(st.lists(word, min_size=probes * count, max_size=probes * count)), np.uint32)
    room = np.empty(data.draw(st.sampled_from([64, 100, 4096])), np.int64), np.empty(4096, np.int64)
    cursor, found, done = np.zeros(2, np.int64), [], False
    while not done:
        done = interpret(words, probes, 100, 1000, room[0], room[1][: len(room[0])], cursor)
        found += list(zip(*(numbers[: cursor[FOUND]].tolist() for numbers in room), strict=True))
    assert cursor[NEXT] == len(words)
    assert found == [
        (100 + k % probes, 1000 + k // probes * 32 + b)
        for k, found_word in enumerate(words.tolist())
        for b in range(32)
        if found_word >> b & 1
    ]


def test_devices_are_chosen_by_index_type_and_name() -> None:
    first = devices()[0]
    assert choose(0) == first
    assert choose(first.name[:6].upper()) == first
    for wanted, part in ((99, "device=99"), ("tpu", re.escape(first.name)), (-1, "0: "), ("", "0: ")):
        with pytest.raises(OptionError, match=part):
            choose(wanted)
    with pytest.raises(OptionError, match="index"):
        choose(1.5)  # type: ignore[arg-type]


def test_options_that_do_not_go_together() -> None:
    usual = {"r": RAMP, "s": RAMP, "on": "r.x = s.x", "within": 1, "time": "t", "algorithm": "hells"}

    def fails(kind: type[Exception], part: str, **options: Any) -> None:
        with pytest.raises(kind, match=part):
            sj.Join(**usual | options)

    fails(OptionError, "workers=2", workers=2)
    fails(OptionError, "memory='disk'", memory="disk")
    fails(OptionError, 'is for algorithm="hells"', algorithm="grid", device=0)
    fails(OptionError, 'is for algorithm="hells"', algorithm="auto", memory="host")
    fails(PredicateError, 'access="band"', access="band")
    fails(PredicateError, "Python function <lambda>.*SQL text", on=lambda r, s: r.x == s.x)


def test_without_pyopencl_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(DeviceError, match=r"pip install 'streamjoin\[opencl\]'"):
        joined("r.x = s.x", 1)


def test_a_kernel_that_does_not_build_is_told_with_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Source, "_exact", lambda self, side: ["m &= nonsense;"])
    with pytest.raises(DeviceError, match="nonsense"):
        joined("r.x = s.x", 1)


def test_a_device_that_fails_ends_the_join(monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure shows in the next push or in close; nothing after it is taken."""

    def broken(*_: Any) -> bool:
        raise opencl().RuntimeError("out of resources")

    join = joined("r.x = s.x", 10)
    monkeypatch.setattr("streamjoin.device.interpreter.interpret", broken)
    join.push_r({"t": [1], "x": [1]})
    with pytest.raises(DeviceError, match="out of resources"):
        push_and_close(join, {"t": [1], "x": [1]})
    with pytest.raises(sj.ClosedError):
        join.push_r({"t": [1], "x": [1]})


def test_stats_and_explain_tell_of_the_device() -> None:
    with joined("r.x BETWEEN s.x - 1 AND s.x + 1", 10**6) as join:
        join.push_r(ramp(0, 2_000))
        join.push_s(ramp(0, 2_000))
    stats = join.stats()
    assert stats["comparisons"] == 2_000 * 2_000
    for step in ("compare", "add", "transfer", "interpretation"):
        assert 0 < stats["device"][f"{step}_seconds"] < 60
    told = sj.explain(RAMP, RAMP, on="r.x = s.x", within=1, time="t", algorithm="hells", memory="device")
    assert told.to_dict()["device"]["name"] == stats["device"]["name"]
    assert "windows in device memory: asked for" in str(told)


def test_the_benchmark_prints_one_object(capfd: pytest.CaptureFixture[str]) -> None:
    import json

    from streamjoin.cli import main

    sizes = ["--windows", "3000", "--selective-window", "3000", "--selectivities", "0.00004", "--seconds", "0.1"]
    assert main(["bench", "hells", *sizes, "--json"]) == 0
    figures = json.loads(capfd.readouterr().out)
    (point,) = figures["by_window"]
    assert point["verified"] and point["window"] == 3000
    assert all(speed > 0 for speed in point["comparisons_per_s"].values())
    assert figures["device"]["name"]
