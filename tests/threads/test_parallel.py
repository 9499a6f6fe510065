"""Parallel algorithms against the nested loop: workers, layouts, batches and threads must not change one pair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.access import tape
from streamjoin.testing import oracle
from streamjoin.testing.expressions import E, lit, op, to_sql
from streamjoin.testing.oracle import Interval, Last, TumblingRows, TumblingTime, Window
from streamjoin.threads import driver
from streams import (
    Case,
    R,
    S,
    band,
    batch,
    count_windows,
    long_stream,
    near,
    pairs_of,
    r,
    s,
    stream,
    table,
    time_windows,
    within,
)

TIME = ("t", "t")
SCHEMA = {"r": R, "s": S}
NEVER = 10**6  # beyond all times drawn here


def _case(name: str, *terms: E, access: tuple[str, ...]) -> Case:
    tree = terms[0] if len(terms) == 1 else op("and", *terms)
    return Case(name, to_sql(tree), oracle.predicate(tree), access, tree)


# Few predicates, because each is compiled once per side; Hypothesis varies everything else.
CASES = [
    _case("band_2d", near(r("k"), s("k"), lit(1)), band(r("z"), s("c"), 0.5, 0.5), access=("scan", "sorted", "band")),
    _case(
        "equality",
        op("eq", r("nm"), s("nm")),
        op("ne", op("mod", op("mul", r("x"), s("a")), lit(3)), lit(1)),
        access=("scan", "hash"),
    ),
    _case("residual", op("gt", op("mul", r("x"), s("a")), lit(8)), access=("scan",)),
    _case(
        "equality_band",
        op("eq", r("k"), s("k")),
        near(r("y"), s("b"), lit(0.5)),
        op("ge", r("w"), lit(0)),  # drops rows of r before they are joined
        op("lt", s("tol"), lit(3)),
        access=("scan", "sorted", "band", "hash"),
    ),
]
PATHS = [
    ("cell", "scan"),
    ("biclique", "scan"),
    ("biclique", "hash"),
    ("biclique", "band"),
    ("handshake", "scan"),
    ("handshake", "sorted"),
    ("handshake", "hash"),
    ("low_latency", "scan"),
    ("low_latency", "hash"),
    ("low_latency", "band"),
    ("grid", "scan"),
    ("grid", "hash"),
    ("grid", "band"),
    ("hells", "scan"),
]
LAYOUTS = [(1, 2), (2, 1), (2, 2), (1, 3), (3, 2), (7, 1)]
each_path = pytest.mark.parametrize(
    ("algorithm", "access"),
    [pytest.param(a, b, id=f"{a}-{b}", marks=[pytest.mark.device] * (a == "hells")) for a, b in PATHS],
)


@st.composite
def spread(draw: Any, algorithm: str, access: str) -> tuple[Case, dict[str, Any]]:
    """A predicate that the access path serves, and so many workers, or where a device's windows lie."""
    case = draw(st.sampled_from([case for case in CASES if access in case.access]))
    options: dict[str, Any] = {"algorithm": algorithm, "access": access}
    ways: list[dict[str, Any]] = [{"workers": n} for n in (2, 3, 7, 1)]
    if algorithm == "hells":
        ways = [{"memory": where} for where in ("host", "device", "parts")]
    if algorithm == "grid":
        ways += [{"layout": layout} for layout in LAYOUTS]
    return case, options | draw(st.sampled_from(ways))


@pytest.fixture(autouse=True)
def short_tapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tapes so short that a few tuples fill them: they are written over, and grow."""
    monkeypatch.setattr(tape, "CHUNK", 32)
    monkeypatch.setattr(driver, "FIRST_ROOM", 32)
    monkeypatch.setattr(driver, "UNDER_WAY", 32)


def times_of(out: pa.Table | pa.RecordBatch) -> np.ndarray:
    return np.maximum(out["t_r"].to_numpy(), out["t_s"].to_numpy())


@each_path
@given(data=st.data())
def test_tables(algorithm: str, access: str, data: st.DataObject) -> None:
    case, options = data.draw(spread(algorithm, access))
    rs, ss = data.draw(stream("r", disorder=True)), data.draw(stream("s", disorder=True))
    window = data.draw(st.one_of(time_windows, count_windows))
    ordered = data.draw(st.booleans())
    stats: dict[str, Any] = {}
    out = sj.join(
        table(rs, R),
        table(ss, S),
        on=case.on,
        within=within(window),
        time="t",
        ordered=ordered,
        stats=stats,
        **options,
    )
    want = oracle.pairs(oracle.arrivals_of_tables(rs, ss, TIME), case.holds, window, TIME)
    assert sorted(pairs_of(out)) == want.pairs
    assert (stats["algorithm"], stats["access"]) == (algorithm, access)
    if ordered and out.num_rows:
        assert (np.diff(times_of(out)) >= 0).all()


class Live:
    """A join that is being fed, and everything it has given out so far, in order."""

    def __init__(self, case: Case, window: Window, timed: bool = True, **options: Any) -> None:
        time = {"time": "t"} if timed else {}
        self.join = sj.Join(r=R, s=S, on=case.on, within=within(window), **time, **options)
        self.out: list[Any] = []
        self.arrivals: list[tuple[str, oracle.Row]] = []

    def push(self, side: str, rows: list[oracle.Row], data: pa.RecordBatch | None = None) -> None:
        push = self.join.push_r if side == "r" else self.join.push_s
        push(batch(rows, SCHEMA[side]) if data is None else data)
        self.arrivals += [(side, row) for row in rows]

    def poll(self, timeout: float = 0.0) -> None:
        self.out += self.join.poll(timeout)

    def close(self) -> None:
        self.join.close()
        self.poll()

    def batches(self) -> list[pa.RecordBatch]:
        return [item for item in self.out if not isinstance(item, sj.Punctuation)]

    def pairs(self) -> list[tuple[int, int]]:
        return sorted(pair for found in self.batches() for pair in pairs_of(found))

    def check_order(self) -> None:
        times = np.concatenate([[-NEVER], *(times_of(found) for found in self.batches())])
        assert (np.diff(times) >= 0).all(), times

    def check_punctuations(self) -> None:
        """What a punctuation promises, it promises of everything that is handed out after it."""
        promised = None
        for item in self.out:
            if isinstance(item, sj.Punctuation):
                assert promised is None or item.time > promised
                promised = item.time
            elif promised is not None and item.num_rows:
                assert times_of(item).min() >= promised


def feed(live: Live, data: st.DataObject, rs: list[oracle.Row], ss: list[oracle.Row], timed: bool) -> None:
    """Pushes in any interleaving, looks for results now and then, and promises what is true."""
    rest = {"r": rs, "s": ss}
    favourite = data.draw(st.sampled_from([None, "r", "s"]))
    while rest["r"] or rest["s"]:
        options = [side for side in ("r", "s") if rest[side]]
        side = data.draw(st.sampled_from([favourite] * 3 + options if favourite in options else options))
        size = data.draw(st.sampled_from([1, 2, 5, 50, 0]))
        live.push(side, rest[side][:size])
        rest[side] = rest[side][size:]
        match data.draw(st.sampled_from(["", "poll", "wait", "advance"])):
            case "poll":
                live.poll()
            case "wait":
                live.poll(0.002)
            case "advance" if timed:
                side = data.draw(st.sampled_from(["r", "s"]))
                live.join.advance(**{side: min([row["t"] for row in rest[side]], default=NEVER)})
    live.close()


@each_path
@given(data=st.data())
def test_pushed_streams(algorithm: str, access: str, data: st.DataObject) -> None:
    """Windows of time: disorder within max_delay changes nothing, what is later is dropped and counted."""
    case, options = data.draw(spread(algorithm, access))
    rs, ss = data.draw(stream("r", disorder=True)), data.draw(stream("s", disorder=True))
    window = data.draw(time_windows)
    delay = data.draw(st.sampled_from([6, 0, 2, 100]))
    ordered, punctuations = data.draw(st.booleans()), data.draw(st.booleans())
    options |= {"batch": data.draw(st.sampled_from([1, 4, 64])), "max_delay": delay}
    live = Live(case, window, ordered=ordered, punctuations=punctuations, **options)
    feed(live, data, rs, ss, timed=True)
    kept, late = oracle.split_late(live.arrivals, TIME, delay)
    want = oracle.pairs(kept, case.holds, window, TIME)
    assert live.pairs() == want.pairs
    if ordered:
        live.check_order()
    assert punctuations or len(live.out) == len(live.batches())
    live.check_punctuations()
    stats = live.join.stats()
    assert stats["results"] == len(want.pairs)
    for side in ("r", "s"):
        assert stats[side]["late"] == sum(where == side for where, _ in late)
        assert stats[side]["pushed"] == sum(where == side for where, _ in kept)
        assert stats[side]["shed"] == 0


@each_path
@given(data=st.data())
def test_pushed_streams_under_count_windows(algorithm: str, access: str, data: st.DataObject) -> None:
    """The order of the push calls decides, however far workers have fallen behind each other."""
    case, options = data.draw(spread(algorithm, access))
    rs, ss = data.draw(stream("r", disorder=True)), data.draw(stream("s", disorder=True))
    window = data.draw(count_windows)
    timed = data.draw(st.booleans())
    ordered = timed and data.draw(st.booleans())
    options |= {"batch": data.draw(st.sampled_from([1, 4, 64])), "max_delay": 1_000 if timed else 0}
    live = Live(case, window, timed, ordered=ordered, punctuations=ordered, **options)
    feed(live, data, rs, ss, timed)
    assert live.pairs() == oracle.pairs(live.arrivals, case.holds, window, None).pairs
    if ordered:
        live.check_order()
        live.check_punctuations()


# Longer streams need a judge that is quick: windows as matrices, each pair of values asked once. It is judged itself.


class Judge:
    """A case's answers for pairs of values, asked from the oracle when they first occur."""

    def __init__(self, case: Case) -> None:
        assert case.tree is not None
        used = _columns(case.tree)
        self._used = {side: sorted(name for where, name in used if where == side) for side in ("r", "s")}
        self._codes: dict[str, dict[str, int]] = {"r": {}, "s": {}}
        self._holds = case.holds
        self._known: dict[tuple[int, int], bool] = {}

    def _code(self, side: str, row: oracle.Row) -> int:
        key = repr([row[name] for name in self._used[side]])
        return self._codes[side].setdefault(key, len(self._codes[side]))

    def pairs(self, arrivals: list[tuple[str, oracle.Row]], window: Window, timed: bool) -> list[tuple[int, int]]:
        rows = {side: [row for where, row in arrivals if where == side] for side in ("r", "s")}
        codes = {side: [self._code(side, row) for row in rows[side]] for side in ("r", "s")}
        found = []
        for i, j in np.argwhere(in_window(arrivals, window, timed)):
            key = codes["r"][i], codes["s"][j]
            if key not in self._known:
                self._known[key] = self._holds(rows["r"][i], rows["s"][j])
            if self._known[key]:
                found.append((rows["r"][i]["rid"], rows["s"][j]["sid"]))
        return sorted(found)


def _columns(e: E) -> set[tuple[str, str]]:
    return {e.value} if e.op == "col" else set().union(*(_columns(arg) for arg in e.args))


def in_window(arrivals: list[tuple[str, oracle.Row]], window: Window, timed: bool) -> np.ndarray:
    """Which pairs of r and s, in order of arrival, lie in the window."""
    side = np.array([where == "s" for where, _ in arrivals], np.bool_)
    place = np.flatnonzero(~side)[:, None], np.flatnonzero(side)[None, :]  # among all arrivals
    number = np.arange(place[0].size)[:, None], np.arange(place[1].size)[None, :]  # in the own stream
    times = np.array([row["t"] if timed else 0 for _, row in arrivals], np.int64)
    time_r, time_s = (times[p] for p in place)
    match window:
        case Interval(lower, upper, closed):
            apart = time_s - time_r
            low = apart >= lower if closed in ("both", "left") else apart > lower
            return low & (apart <= upper if closed in ("both", "right") else apart < upper)
        case TumblingTime(width):
            return time_r // width == time_s // width
        case TumblingRows(rows):
            return number[0] // rows == number[1] // rows
        case Last(n, m):
            come_r, come_s = place[1] - number[1], place[0] - number[0]  # of the other stream, before this one
            return np.where(place[0] < place[1], number[0] >= come_r - n, number[1] >= come_s - m)
    raise TypeError(window)


JUDGES = {case.name: Judge(case) for case in CASES}


@given(data=st.data())
def test_the_quick_judge_is_right(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(CASES))
    rs, ss = data.draw(stream("r", disorder=True)), data.draw(stream("s", disorder=True))
    order = data.draw(st.permutations(["r"] * len(rs) + ["s"] * len(ss)))
    rows = {"r": iter(rs), "s": iter(ss)}
    arrivals = [(side, next(rows[side])) for side in order]
    window = data.draw(st.one_of(time_windows, count_windows))
    assert JUDGES[case.name].pairs(arrivals, window, True) == oracle.pairs(arrivals, case.holds, window, TIME).pairs


long_windows = st.one_of(
    st.integers(0, 60).map(lambda w: Interval(-w, w)),
    st.builds(
        lambda lower, width, closed: Interval(lower, lower + width, closed),
        st.integers(-60, 60),
        st.integers(2, 60),
        st.sampled_from(["both", "neither", "left", "right"]),
    ),
    st.integers(1, 100).map(TumblingTime),
    st.builds(Last, st.integers(1, 100), st.integers(1, 100)),
    st.integers(1, 100).map(TumblingRows),
)
RHYTHMS = {"one by one": [1], "a few": [1, 2, 5, 13], "many": [3, 64, 65, 200], "at once": [10_000]}


@each_path
@given(data=st.data())
def test_longer_streams(algorithm: str, access: str, data: st.DataObject) -> None:
    """Some hundred tuples: full batches, every worker has its turns, windows move on while others still compare."""
    case, options = data.draw(spread(algorithm, access))
    seed = data.draw(st.integers(0, 2**32))
    sizes = data.draw(st.sampled_from([(200, 200), (300, 20), (20, 300), (250, 0), (0, 250), (150, 400)]))
    speeds = data.draw(st.sampled_from([(1, 1), (1, 3), (3, 1)]))
    window = data.draw(long_windows)
    rhythm = RHYTHMS[data.draw(st.sampled_from(sorted(RHYTHMS)))]
    ordered, disorder = data.draw(st.booleans()), data.draw(st.booleans())
    options |= {"batch": data.draw(st.sampled_from([1, 4, 64])), "max_delay": 6 * disorder}
    rows = {
        side: long_stream(side, seed, size, speed, disorder)
        for side, size, speed in zip("rs", sizes, speeds, strict=True)
    }
    live = Live(case, window, ordered=ordered, punctuations=ordered, **options)
    whole = {side: batch(rows[side], SCHEMA[side]) for side in rows}
    random, done = np.random.default_rng(seed), {"r": 0, "s": 0}
    while any(done[side] < len(rows[side]) for side in rows):
        left = [len(rows[side]) - done[side] for side in rows]
        side = "rs"[int(random.random() * sum(left) >= left[0])]
        begin, end = done[side], done[side] + int(random.choice(rhythm))
        live.push(side, rows[side][begin:end], whole[side].slice(begin, end - begin))
        done[side] = end
        if random.random() < 0.2:
            live.poll()
    live.close()
    assert live.pairs() == JUDGES[case.name].pairs(live.arrivals, window, True)
    if ordered:
        live.check_order()
        live.check_punctuations()
