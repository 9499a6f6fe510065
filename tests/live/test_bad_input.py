"""Bad input: every kind has its test, and each message says where, what and what to do instead."""

from __future__ import annotations

import datetime as dt
import math
import os
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamjoin as sj
from streamjoin.cli import main
from streamjoin.errors import (
    ClosedError,
    DataError,
    OptionError,
    PredicateError,
    SchemaError,
    StreamjoinError,
    WindowError,
)

R = pa.schema(
    [
        ("rid", pa.int64()),
        ("t", pa.int64()),
        ("price", pa.float64()),
        ("qty", pa.int64()),
        ("sym", pa.string()),
    ]
)
S = pa.schema(
    [
        ("sid", pa.int64()),
        ("t", pa.int64()),
        ("bid", pa.float64()),
        ("size", pa.int64()),
        ("sym", pa.string()),
    ]
)
BAND = "r.price BETWEEN s.bid - 1 AND s.bid + 1"


def left(**columns: Any) -> pa.Table:
    base = {"rid": [0, 1], "t": [1, 2], "price": [10.0, 20.0], "qty": [1, 2], "sym": ["a", "b"]}
    return pa.table(base | columns)


def right(**columns: Any) -> pa.Table:
    base = {"sid": [0, 1], "t": [1, 2], "bid": [10.5, 20.5], "size": [1, 2], "sym": ["a", "b"]}
    return pa.table(base | columns)


def join(on: Any = BAND, one: Any = None, two: Any = None, *, within: Any = 10, time: Any = "t", **options: Any) -> Any:
    return sj.join(
        left() if one is None else one,
        right() if two is None else two,
        on=on,
        within=within,
        time=time,
        **options,
    )


def message(kind: type[BaseException], *words: str, **call: Any) -> str:
    """Calls `join` and returns the message of the error, which has all these words."""
    with pytest.raises(kind) as caught:
        join(**call)
    text = str(caught.value)
    for word in words:
        assert word.lower() in text.lower(), f"{word!r} is missing in: {text}"
    assert "Traceback" not in text
    assert len(text) < 1_500
    return text


# Names.


def test_unknown_column_suggests_the_right_one() -> None:
    message(StreamjoinError, "prcie", "price", "r", on="r.prcie > s.bid")
    message(StreamjoinError, "bidd", '"bid"', on="r.price > s.bidd")
    message(StreamjoinError, "prcie", "price", on=sj.r.prcie > sj.s.bid)


def test_unknown_column_that_the_other_side_has() -> None:
    message(SchemaError, 'r has no column "bid"', "write s.bid", on="r.bid > s.bid")


def test_ambiguous_unqualified_column() -> None:
    message(StreamjoinError, "sym", "ambiguous", "side", on="sym = 'a'")


def test_unknown_side() -> None:
    message(StreamjoinError, "trades", "r", "s", on="trades.price > s.bid")


def test_duplicate_names_in_one_table() -> None:
    twice = pa.Table.from_arrays(
        [pa.array([1]), pa.array([1]), pa.array([2.0]), pa.array([3.0])], ["rid", "t", "price", "price"]
    )
    message(SchemaError, "price", one=twice)


def test_clashing_names_are_an_error_if_asked_for() -> None:
    message(SchemaError, "sym", "suffixes", suffixes=None)
    assert "sym_left" in join(suffixes=("_left", "_right")).schema.names


def test_suffixes_that_make_a_new_clash() -> None:
    message(SchemaError, "sym_r", one=left(sym_r=["x", "y"]))


def test_unknown_time_column() -> None:
    message(SchemaError, "tt", '"t"', time="tt")
    message(SchemaError, "when", "s", time=("t", "when"))


# Types.


def test_wrong_types_in_a_comparison() -> None:
    message(PredicateError, "sym", "string", "cast", on="r.sym = s.size")
    message(PredicateError, "string", on="r.sym < s.sym")
    message(PredicateError, "string", on="r.sym + 1 = s.size")


def test_a_column_that_no_predicate_can_use() -> None:
    lists = left(tags=[["a"], []])
    message(StreamjoinError, "tags", "list", one=lists, on="r.tags = s.sym")
    assert join(one=lists).num_rows == 2, "it is carried along untouched"


def test_a_time_column_that_is_no_time() -> None:
    message(SchemaError, "price", "double", time=("price", "t"))
    message(SchemaError, "sym", "string", time="sym")


def test_a_predicate_that_is_not_boolean() -> None:
    message(PredicateError, "predicate", on="r.price + s.bid")
    message(PredicateError, "predicate", on=sj.r.price + sj.s.bid)
    message(StreamjoinError, on=42)
    message(StreamjoinError, on="")


def test_not_a_table() -> None:
    with pytest.raises((TypeError, StreamjoinError)) as caught:
        sj.join([1, 2], right(), on=BAND, within=1, time="t")
    assert "list" in str(caught.value)


def test_uint64_beyond_the_edge() -> None:
    ok = left(qty=pa.array([1, 2**63 - 1], pa.uint64()))
    assert join("r.qty = s.size", ok).num_rows == 1
    message(DataError, "qty", str(2**63), one=left(qty=pa.array([1, 2**63], pa.uint64())), on="r.qty = s.size")


def test_pushed_batch_of_another_schema() -> None:
    j = sj.Join(r=R, s=S, on=BAND, within=5, time="t")
    with pytest.raises(SchemaError, match="price"):
        j.push_r(pa.RecordBatch.from_pydict({"rid": [1], "t": [1]}))
    with pytest.raises(StreamjoinError, match="bid"):
        j.push_s(right(bid=["x", "y"]))
    j.push_r(left())
    j.close()
    assert j.stats()["r"]["pushed"] == 2


# Values.


def test_null_time() -> None:
    message(DataError, "r.t", "null", "row 1", one=left(t=[1, None]))
    message(DataError, "s.t", "null", two=right(t=pa.array([None, 1], pa.int64())))
    j = sj.Join(r=R, s=S, on=BAND, within=5, time="t")
    with pytest.raises(DataError, match="null"):
        j.push_s(right(t=[None, 1]).to_batches()[0])
    j.close()


def test_nan_is_equal_to_nan_and_above_everything() -> None:
    one, two = left(price=[math.nan, 1.0]), right(bid=[math.nan, math.inf])
    pairs = {
        on: sorted(zip(*(join(on, one, two)[c].to_pylist() for c in ("rid", "sid")), strict=True))
        for on in ("r.price = s.bid", "r.price > s.bid", BAND)
    }
    assert pairs["r.price = s.bid"] == [(0, 0)]
    assert pairs["r.price > s.bid"] == [(0, 1)]
    assert pairs[BAND] == [(0, 0)], "with NaN on both sides of BETWEEN, SQL answers true"


def test_infinities() -> None:
    one, two = left(price=[math.inf, -math.inf]), right(bid=[math.inf, -math.inf])
    for access in ("auto", "scan"):
        out = join(BAND, one, two, access=access)
        assert sorted(zip(out["rid"].to_pylist(), out["sid"].to_pylist(), strict=True)) == [(0, 0), (1, 1)]
    # inf - inf is NaN, and NaN is not <= 1
    assert join("abs(r.price - s.bid) <= 1", one, two).num_rows == 0


def test_nulls_never_match() -> None:
    assert join(BAND, left(price=[None, 20.0]), right(bid=[None, 20.0])).num_rows == 1
    assert join("r.sym = s.sym", left(sym=[None, "b"]), right(sym=[None, "b"])).num_rows == 1
    assert join("r.sym <=> s.sym", left(sym=[None, "b"]), right(sym=[None, "b"])).num_rows == 2


def test_overflow_at_the_edge_is_right_or_an_error() -> None:
    top, bottom = 2**63 - 1, -(2**63)
    one, two = left(qty=[top, bottom]), right(size=[top - 1, bottom])
    # Both bands reach over the edge of int64: the mathematical answer, or an error, never a wrapped bound.
    for on, want in (
        ("r.qty BETWEEN s.size - 5 AND s.size + 5", [(0, 0), (1, 1)]),
        ("abs(r.qty - s.size) <= 5", [(0, 0), (1, 1)]),
        ("r.qty + 1 > s.size", [(0, 0), (0, 1), (1, 1)]),
    ):
        try:
            out = join(on, one, two)
        except DataError as e:
            assert "overflow" in str(e).lower() or "qty" in str(e)  # noqa: PT017
        else:
            assert sorted(zip(out["rid"].to_pylist(), out["sid"].to_pylist(), strict=True)) == want, on


def test_small_integers_do_not_wrap() -> None:
    one, two = left(qty=pa.array([127, 1], pa.int8())), right(size=pa.array([127, 1], pa.int8()))
    out = join("r.qty + s.size > 127", one, two)
    assert out.num_rows == 3


def test_an_integer_literal_beyond_64_bits() -> None:
    message(PredicateError, "9223372036854775808", on="r.qty < 9223372036854775808 AND s.size > 0")


def test_time_at_the_edge_of_its_type() -> None:
    """Bounds around an extreme time must not wrap around."""
    one, two = left(t=[2**63 - 1, -(2**63)]), right(t=[2**63 - 1, 0], bid=[10.0, 10.0])
    try:
        out = join("r.price > s.bid - 100", one, two)
    except DataError as e:
        assert "r.t" in str(e) or "time" in str(e)  # noqa: PT017
    else:
        assert list(zip(out["rid"].to_pylist(), out["sid"].to_pylist(), strict=True)) == [(0, 0)]


def test_decimals_are_exact() -> None:
    amounts = [Decimal("0.10"), Decimal("0.30")]
    one = left(price=pa.array(amounts, pa.decimal128(10, 2)))
    two = right(bid=pa.array([Decimal("0.20"), Decimal("0.20")], pa.decimal128(10, 2)))
    # With doubles 0.1 + 0.2 is above 0.3.
    assert join("r.price - 0.10 <= s.bid", one, two).num_rows == 4
    assert join("r.price + 0.20 = s.bid + 0.10", one, two).num_rows == 2


def test_decimals_too_wide_are_refused() -> None:
    wide = pa.array([Decimal(10) ** 20, Decimal(1)], pa.decimal128(38, 2))
    message(StreamjoinError, "price", "decimal", "38", "18", "cast", one=left(price=wide))
    message(
        StreamjoinError,
        "decimal",
        on="r.price / 2 > 1 AND s.size > 0",
        one=left(price=pa.array([Decimal(1)] * 2, pa.decimal128(10, 2))),
    )


# Time zones and units.

NOON = dt.datetime(2024, 1, 1, 12)


def test_naive_against_aware_time() -> None:
    naive = pa.array([NOON] * 2, pa.timestamp("us"))
    aware = pa.array([NOON] * 2, pa.timestamp("us", "UTC"))
    text = message(SchemaError, "r.t", "s.t", one=left(t=naive), two=right(t=aware), within="1 minute")
    assert "naive" in text or "zone" in text
    assert join(one=left(t=aware), two=right(t=aware), within="1 minute").num_rows == 2


def test_naive_against_aware_in_a_predicate() -> None:
    one = left(at=pa.array([NOON] * 2, pa.timestamp("us")))
    two = right(at=pa.array([NOON] * 2, pa.timestamp("us", "UTC")))
    message(StreamjoinError, "at", "zone", one=one, two=two, on="r.at = s.at")


def test_mixed_time_units_give_the_right_answer() -> None:
    one = left(t=pa.array([1_000, 2_000], pa.timestamp("ms")))
    two = right(t=pa.array([3_000_000_000, 3_000_000_001], pa.timestamp("ns")), bid=[10.0, 20.0])
    out = join("r.price >= s.bid - 100", one, two, within="1 second")
    assert list(zip(out["rid"].to_pylist(), out["sid"].to_pylist(), strict=True)) == [(1, 0)]


def test_integer_time_against_timestamps() -> None:
    message(SchemaError, "r.t", "s.t", "timestamp", two=right(t=pa.array([NOON] * 2, pa.timestamp("us"))))


def test_durations_fit_the_time_column() -> None:
    message(WindowError, "integer", within="5 seconds")
    times = pa.array([NOON] * 2, pa.timestamp("us"))
    message(WindowError, "5", one=left(t=times), two=right(t=times), within=5)


# Windows.


def test_reversed_and_negative_windows() -> None:
    for make in (lambda: sj.interval(5, -5), lambda: sj.interval("5 min", "-10 min")):
        with pytest.raises(WindowError, match="lower"):
            join(within=make())
    message(WindowError, "-5", within=-5)
    for bad in (
        lambda: sj.last(0),
        lambda: sj.last(-1),
        lambda: sj.tumbling(rows=0),
        lambda: sj.tumbling(0),
        lambda: sj.tumbling("-1 minute"),
    ):
        with pytest.raises(WindowError):
            join(within=bad())


def test_malformed_windows() -> None:
    for text in ("", "soon", "5 parsecs", "minutes"):
        message(WindowError, within=text)
    message(WindowError, "parsec", within="5 parsecs")
    message(WindowError, within=1.5)
    with pytest.raises(WindowError, match="streams need a window"):
        sj.Join(r=left().schema, s=right().schema, on=BAND, time="t")
    with pytest.raises(WindowError, match="both"):
        sj.interval(0, 1, closed="open")
    for make in (lambda: sj.last(r=5), lambda: sj.last(), lambda: sj.tumbling()):
        with pytest.raises((WindowError, TypeError)):
            join(within=make())


def test_zero_length_windows_join_equal_times() -> None:
    assert join("r.price > 0 AND s.bid > 0", within=0).num_rows == 2
    assert join("r.price > 0 AND s.bid > 0", within=sj.interval(0, 0)).num_rows == 2
    # Nothing lies strictly between zero and zero: no result, or an error that says so.
    try:
        assert join("r.price > 0 AND s.bid > 0", within=sj.interval(0, 0, closed="neither")).num_rows == 0
    except WindowError as e:
        assert "closed" in str(e) or "empty" in str(e)  # noqa: PT017


def test_months_have_no_length() -> None:
    times = pa.array([NOON] * 2, pa.timestamp("us"))
    message(WindowError, "month", one=left(t=times), two=right(t=times), within="1 month")


# SQL text.


def test_absurdly_nested_sql() -> None:
    for text in (
        "(" * 5_000 + "r.price > s.bid" + ")" * 5_000,
        "(" * 2_000 + "r.price > s.bid" + ")" * 2_000,
        "NOT " * 2_000 + "r.price > s.bid",
        "r.price > " + "- " * 3_000 + "s.bid",
        "abs(" * 1_500 + "r.price" + ")" * 1_500 + " > s.bid",
        "CASE WHEN " * 300 + "r.price > s.bid" + " THEN TRUE END" * 300,
    ):
        found = message(PredicateError, on=text)
        assert "nest" in found or "deep" in found or "long" in found


def test_overlong_sql() -> None:
    found = message(PredicateError, "10", on=" AND ".join(["r.price > s.bid"] * 2_000))
    assert "long" in found or "characters" in found


def test_deep_expression_objects() -> None:
    """The same guard for operators: an error of ours, not a RecursionError."""
    e: Any = sj.r.price
    for _ in range(20_000):
        e = e + 1
    with pytest.raises(PredicateError):
        join(on=e > sj.s.bid)


def test_a_long_but_flat_predicate_is_fine() -> None:
    on = " OR ".join(f"(r.qty = {i} AND s.size = {i})" for i in range(60))
    assert join(on).num_rows == 2


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("r.price IN (SELECT 1)", "subquer"),
        ("EXISTS (SELECT 1)", "subquer"),
        ("(SELECT max(bid) FROM s) > r.price", "subquer"),
        ("__import__('os').system('x')", "__import__"),
        ("sleep(10) = s.bid", "sleep"),
        ("r.price > rand() + s.bid", "rand"),
        ("sum(r.price) > s.bid", "sum"),
        ("row_number() OVER (ORDER BY r.price) = s.size", "row_number"),
        ("r.price > :limit AND s.bid > 0", "limit"),
        ("r.price > ? AND s.bid > 0", "?"),
        ("r.* = s.bid", "*"),
        ("r.price > s.bid; DROP TABLE r", ";"),
        ("SELECT * FROM r", "select"),
        ("r.sym LIKE s.sym", "like"),
        ("r.price >", ""),
        ("r.price > > s.bid", ""),
        ("r.price = s.bid AND", ""),
        ("count(*) > r.price", "count"),
        ("current_timestamp() > r.t", "current_timestamp"),
        ("r.price[0] > s.bid", ""),
        ("x -> x + 1", ""),
        ("{{r.price}} > s.bid", ""),
        ("r.price > s.bid -- AND r.qty > 3\n; SELECT 1", ""),
    ],
)
def test_sql_that_is_not_a_predicate(text: str, word: str) -> None:
    message(PredicateError, word, on=text)


def test_the_message_lists_the_functions_that_exist() -> None:
    found = message(PredicateError, "upper", on="upper(r.sym) = s.sym")
    assert "abs" in found
    assert "greatest" in found


# Python functions.


def test_python_function_that_does_not_compile() -> None:
    def opens_files(r: Any, s: Any) -> bool:
        with open("x") as f:
            return bool(f.read() == r.price + s.bid)

    text = message(PredicateError, on=opens_files)
    assert "opens_files" in text or "open" in text
    assert len(text.splitlines()) <= 6, "Numba's reason in a line, not its whole report"
    assert len(text) < 800


def test_python_function_of_the_wrong_shape() -> None:
    message(PredicateError, "two", on=lambda r: r.price > 0)
    message(PredicateError, "two", on=lambda r, s, t: True)
    message(PredicateError, "generator", on=_generator)


def _generator(r: Any, s: Any) -> Any:
    yield r.price > s.bid


def test_python_function_with_an_unknown_column() -> None:
    message(StreamjoinError, "prcie", "price", on=lambda r, s: r.prcie > s.bid)


def test_python_keywords_between_expressions() -> None:
    with pytest.raises(TypeError, match="&"):
        _ = (sj.r.price > 1) and (sj.s.bid > 1)
    with pytest.raises(TypeError, match=r"&|between"):
        _ = 1 < sj.r.price < 2
    with pytest.raises(TypeError, match=r"div|floor"):
        _ = sj.r.qty // 2


# Options.


def test_unknown_join_types() -> None:
    message(OptionError, "cross", "inner", "left", "anti", how="cross")


def test_unknown_algorithm_lists_the_known_ones() -> None:
    known = ("auto", "kang", "cell", "handshake", "low_latency", "grid", "hells")
    message(OptionError, "kung", *known, algorithm="kung")


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"algorithm": "kang", "workers": 2}, ("one worker", "low_latency")),
        ({"algorithm": "cell", "workers": 0}, ("workers=0", "at least 1")),
        ({"algorithm": "cell", "workers": "all"}, ("workers='all'", "at least 1")),
        ({"algorithm": "grid", "layout": (2, 0)}, ("layout=(2, 0)", "(2, 3)")),
        ({"algorithm": "grid", "layout": "2x3"}, ("layout='2x3'", "(2, 3)")),
        ({"algorithm": "grid", "layout": (2, 3), "workers": 4}, ("6 workers", "not 4")),
        ({"algorithm": "handshake", "layout": (2, 3)}, ("grid", "handshake")),
    ],
)
def test_workers_that_cannot_be(options: dict[str, object], parts: tuple[str, ...]) -> None:
    message(OptionError, *parts, **options)


def test_access_that_an_algorithm_has_not() -> None:
    message(PredicateError, 'access="band"', 'algorithm="handshake"', "sorted", algorithm="handshake", access="band")
    message(PredicateError, 'access="hash"', 'algorithm="cell"', "scan", algorithm="cell", access="hash")


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"rate": 0}, ("rate=0", "above 0")),
        ({"rate": (1, 2, 3)}, ("rate=(1, 2, 3)", "one per side")),
        ({"batch": 0}, ("batch=0", "from 1")),
        ({"overload": "drop"}, ("overload", "block", "shed")),
    ],
)
def test_live_options(options: dict[str, Any], parts: tuple[str, ...]) -> None:
    with pytest.raises(OptionError) as caught:
        sj.Join(r=R, s=S, on=BAND, within=5, time="t", **options)
    assert all(part in str(caught.value) for part in parts)


def test_other_options() -> None:
    tried: list[dict[str, Any]] = [{"late": "maybe"}, {"max_delay": -1}]
    for options in tried:
        with pytest.raises((StreamjoinError, ValueError)) as caught:
            sj.Join(r=R, s=S, on=BAND, within=5, time="t", **options)
        assert next(iter(options)) in str(caught.value)
    with pytest.raises(StreamjoinError, match="time"):
        sj.Join(r=R, s=S, on=BAND, within=5)


def test_after_close() -> None:
    j = sj.Join(r=R, s=S, on=BAND, within=5, time="t")
    j.push_r(left())
    j.push_s(right())
    j.close()
    j.close()
    for push in (j.push_r, j.push_s):
        with pytest.raises(ClosedError, match="close"):
            push(left())
    with pytest.raises(ClosedError):
        j.advance(r=5)
    assert sum(b.num_rows for b in j.poll()) == 2, "results stay pollable"
    assert j.stats()["results"] == 2


def test_an_error_leaves_the_join_usable() -> None:
    """A refused batch is refused as a whole: nothing of it is in the window."""
    j = sj.Join(r=R, s=S, on=BAND, within=5, time="t")
    with pytest.raises(DataError):
        j.push_r(left(t=[1, None]))
    j.push_s(right())
    j.close()
    assert sum(b.num_rows for b in j.poll()) == 0


# The command line.


ENVIRONMENT = {
    **os.environ,
    "COLUMNS": "200",
    "NO_COLOR": "1",
    "PYTHONPATH": str(Path(sj.__file__).parent.parent),
}


def streamjoin(*args: str, cwd: Path, limit: int | None = None) -> subprocess.CompletedProcess[str]:
    """Runs the command in a process of its own, which may write files of `limit` bytes at most."""
    code = "import runpy; runpy.run_module('streamjoin', run_name='__main__')"
    if limit is not None:
        code = (
            "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
            f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit})); " + code
        )
    return subprocess.run(
        [sys.executable, "-c", code, *args],
        cwd=cwd,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def files(tmp_path: Path) -> Path:
    pq.write_table(left(), tmp_path / "l.parquet")
    pq.write_table(right(), tmp_path / "r.parquet")
    return tmp_path


def words(one: str = "l.parquet", out: str = "out.parquet", on: str = BAND) -> list[str]:
    what = ["join", "--left", one, "--right", "r.parquet", "--on", on]
    return [*what, "--within", "10", "--time", "t", "-o", out]


def run_join(files: Path, limit: int | None = None, **changed: str) -> subprocess.CompletedProcess[str]:
    return streamjoin(*words(**changed), cwd=files, limit=limit)


def said(done: subprocess.CompletedProcess[str]) -> str:
    """What the command told the user: an error in words, never a traceback."""
    text = done.stdout + done.stderr
    assert done.returncode != 0, text
    assert "Traceback" not in text, text
    return text


@pytest.fixture
def refusal(files: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The same without a process of its own, of which each would take a second to start."""
    monkeypatch.chdir(files)

    def refused(**changed: str) -> str:
        code = main(words(**changed))
        return said(subprocess.CompletedProcess([], code, *capfd.readouterr()))

    return refused


def names(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()}


def test_command_line_works_at_all(files: Path) -> None:
    done = run_join(files)
    assert done.returncode == 0, done.stderr
    assert pq.read_table(files / "out.parquet").num_rows == 2
    assert names(files) == {"l.parquet", "r.parquet", "out.parquet"}


def test_missing_file(files: Path) -> None:
    assert "nowhere.parquet" in said(run_join(files, one="nowhere.parquet"))
    assert names(files) == {"l.parquet", "r.parquet"}


def test_truncated_file(files: Path, refusal: Callable[..., str]) -> None:
    whole = (files / "l.parquet").read_bytes()
    (files / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    assert "cut.parquet" in refusal(one="cut.parquet")
    (files / "empty.parquet").write_bytes(b"")
    assert "empty.parquet" in refusal(one="empty.parquet")
    with pa.OSFile(str(files / "whole.arrow"), "wb") as sink, pa.ipc.new_file(sink, R) as writer:
        writer.write_table(left().cast(R))
    ipc = (files / "whole.arrow").read_bytes()
    (files / "cut.arrow").write_bytes(ipc[: len(ipc) * 2 // 3])
    assert "cut.arrow" in refusal(one="cut.arrow")
    (files / "bad.csv").write_text('rid,t,price,qty,sym\n0,1,10.0,1,a\n1,2\n"')
    assert "bad.csv" in refusal(one="bad.csv")
    (files / "bad.ndjson").write_text('{"rid": 0, "t": 1, "price": 10.0, "qty": 1, "sym": "a"}\n{"rid": 1, "t"')
    assert "bad.ndjson" in refusal(one="bad.ndjson")
    assert "out.parquet" not in names(files)


def test_unreadable_file(files: Path, refusal: Callable[..., str]) -> None:
    (files / "folder.parquet").mkdir()
    assert "folder.parquet" in refusal(one="folder.parquet")
    if os.geteuid() != 0:  # root reads everything
        (files / "l.parquet").chmod(0)
        assert "l.parquet" in refusal()


def test_unknown_suffix(files: Path, refusal: Callable[..., str]) -> None:
    (files / "l.xyz").write_bytes(b"1")
    assert "parquet" in refusal(one="l.xyz")
    assert "xyz" in refusal(out="out.xyz")


def test_output_into_a_missing_folder(files: Path, refusal: Callable[..., str]) -> None:
    assert "nofolder" in refusal(out="nofolder/out.parquet")


def test_bad_predicate_on_the_command_line(files: Path, refusal: Callable[..., str]) -> None:
    text = refusal(on="r.prcie > s.bid")
    assert "price" in text
    assert "out.parquet" not in names(files)


def big_files(files: Path) -> None:
    """A join whose output is some megabytes."""
    n = 2_000
    words = ["".join(chr(97 + (i * j) % 26) for j in range(1, 400)) for i in range(n)]
    same = {"t": [1] * n, "sym": words}
    values = [float(i) for i in range(n)]
    pq.write_table(pa.table({"rid": range(n), **same, "price": values}), files / "l.parquet")
    pq.write_table(pa.table({"sid": range(n), **same, "bid": values}), files / "r.parquet")


@pytest.mark.parametrize("out", ["out.parquet", "out.arrow", "out.csv", "out.ndjson"])
def test_full_disk_leaves_nothing_under_the_final_name(files: Path, out: str) -> None:
    """A file-size limit makes the write fail half-way, as a full disk does; what was there before stays."""
    big_files(files)
    (files / out).write_bytes(b"the old result")
    done = run_join(files, out=out, limit=20_000)
    text = said(done)
    assert out in text
    assert (files / out).read_bytes() == b"the old result"
    assert names(files) == {"l.parquet", "r.parquet", out}, "no temporary file is left behind"


def test_full_disk_for_real(files: Path) -> None:
    """/dev/full refuses every write."""
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this machine")
    args = ["--on", BAND, "--within", "10", "--time", "t", "-o", "-"]
    command = [
        sys.executable,
        "-m",
        "streamjoin",
        "join",
        "--left",
        "l.parquet",
        "--right",
        "r.parquet",
        *args,
    ]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, cwd=files, env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120
        )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
