"""Hypothesis strategies: streams, windows, and the joins of `conformance.py`."""

from __future__ import annotations

from collections.abc import Sequence

from streamjoin.errors import UnsupportedError
from streamjoin.testing.cases import CASES, CODES, Bound, Case, lasting, r, s, stream_of
from streamjoin.testing.conformance import Advance, Poll, Push, Step, StreamJoin, TableJoin
from streamjoin.testing.expressions import op
from streamjoin.testing.kinds import INNER, Kind
from streamjoin.testing.oracle import (
    Everything,
    Interval,
    Last,
    Row,
    RowInterval,
    TumblingRows,
    TumblingTime,
    Valid,
    Validity,
    Window,
)

try:
    from hypothesis import given as given
    from hypothesis import settings as settings
    from hypothesis import strategies as st
except ImportError:
    raise UnsupportedError(
        "streamjoin.testing draws its examples with the package hypothesis, which is not installed; add: "
        "pip install 'streamjoin[testing]'"
    ) from None

Windows = st.SearchStrategy[Window]
NEVER = 10**6  # beyond all times drawn here


@st.composite
def stream(draw: st.DrawFn, side: str, disorder: bool = True, max_size: int = 24) -> list[Row]:
    """Rows in order of arrival: bursts of equal times, pauses, and with `disorder` steps back of up to 6."""
    least = draw(st.sampled_from([0, 0, max_size // 4, max_size // 2]))  # alone, Hypothesis draws some five
    codes = draw(st.lists(st.integers(0, CODES - 1), min_size=least, max_size=max_size))
    speed = draw(st.sampled_from([1, 1, 0, 3]))
    return stream_of(side, codes, speed, draw(st.integers(-5, 5)), disorder)


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    lower = draw(st.integers(-8, 8))
    width = draw(st.integers(0, 10))
    closed = draw(st.sampled_from(["both", "both", "left", "right", "neither"]))
    return Interval(lower, lower + width, closed if width >= 2 else "both")


symmetric = st.integers(0, 12).map(lambda w: Interval(-w, w))
time_windows: Windows = st.one_of(symmetric, intervals(), st.integers(1, 15).map(TumblingTime))
count_windows: Windows = st.one_of(
    st.builds(Last, st.integers(1, 6), st.integers(1, 6)), st.integers(1, 6).map(TumblingRows)
)

no_window: Windows = st.just(Everything())
LOOKBACK, TOLERANCE = Bound(op("neg", r("w"))), Bound(s("tol"))


def row_windows(most: Sequence[int | None] = (None, 2, 20)) -> Windows:
    """Intervals with a bound that depends on the row: on r below, or on s above."""
    limits = st.sampled_from(most)
    below = st.builds(RowInterval, st.just(LOOKBACK), st.integers(0, 3), limits)
    return below | st.builds(RowInterval, st.integers(-3, 0), st.just(TOLERANCE), limits)


def _validity(most: int) -> st.SearchStrategy[Validity]:
    closed = st.sampled_from(["left", "left", "right", "both", "neither"])
    return st.builds(Validity, st.just("t"), st.just("until"), closed, st.just(most))


@st.composite
def validities(draw: st.DrawFn) -> Valid:
    """A side, or both, whose rows are valid from their time on; see `cases.lasting`."""
    which, most = draw(st.sampled_from(["s", "r", "rs"])), draw(st.sampled_from([4, 5, 20]))
    r, s = (draw(_validity(most)) if side in which else None for side in "rs")
    return Valid(r, s)


@st.composite
def table_joins(
    draw: st.DrawFn,
    cases: Sequence[Case] = CASES,
    windows: Windows = time_windows | count_windows,
    orders: Sequence[bool] = (False, True),
    kinds: Sequence[Kind] = (INNER,),
) -> TableJoin:
    """Joins of two tables, in order of time or not; `orders` says whether the result may be asked for in order."""
    return TableJoin(
        draw(st.sampled_from(cases)),
        draw(windows),
        draw(stream("r")),
        draw(stream("s")),
        ordered=draw(st.sampled_from(orders)),
        kind=draw(st.sampled_from(kinds)),
    )


@st.composite
def stream_joins(
    draw: st.DrawFn,
    cases: Sequence[Case] = CASES,
    windows: Windows = time_windows,
    *,
    delays: Sequence[int] = (6, 0, 2, 100),
    timed: bool = True,
    orders: Sequence[bool] = (False, True),
    advances: bool = True,
    kinds: Sequence[Kind] = (INNER,),
) -> StreamJoin:
    """Joins of two streams, pushed in batches of any size and interleaving.

    `delays` are the values of max_delay; from 6 on nothing is late. `orders` as in `table_joins`; ordered or not, the
    engine may be asked for punctuations. `advances=False` is for an engine without `advance`.
    """
    window = draw(windows)
    rest = {side: draw(stream(side)) for side in ("r", "s")}
    if isinstance(window, Valid):
        rest = {side: lasting(side, rows) for side, rows in rest.items()}
    favourite = draw(st.sampled_from([None, "r", "s"]))
    steps: list[Step] = []
    while rest["r"] or rest["s"]:
        sides = [side for side in ("r", "s") if rest[side]]
        side = draw(st.sampled_from([favourite] * 3 + sides if favourite in sides else sides))
        size = draw(st.sampled_from([1, 2, 5, 50, 0]))
        steps.append(Push(side, rest[side][:size]))
        rest[side] = rest[side][size:]
        match draw(st.sampled_from(["", "poll", "wait", "advance"])):
            case "poll":
                steps.append(Poll())
            case "wait":
                steps.append(Poll(0.002))
            case "advance" if timed and advances:
                other = draw(st.sampled_from(["r", "s"]))
                steps.append(Advance(other, min([row["t"] for row in rest[other]], default=NEVER)))
    ordered = timed and draw(st.sampled_from(orders))
    return StreamJoin(
        draw(st.sampled_from(cases)),
        window,
        steps,
        timed=timed,
        max_delay=draw(st.sampled_from(delays)) if timed else 0,
        ordered=ordered,
        punctuations=timed and draw(st.sampled_from(orders)),
        sliced=draw(st.booleans()),
        kind=draw(st.sampled_from(kinds)),
    )
