"""The performance model: the papers' figures by hand, what must hold for any load, and what "auto" makes of it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.access.prices import Costs, Price
from streamjoin.algorithms import ALGORITHMS, NAMES, PARALLEL
from streamjoin.errors import OptionError
from streamjoin.plan import Retention, Task, choose
from streamjoin.plan import choice as choosing
from streamjoin.plan import costs as costing
from streamjoin.plan import formulas as model
from streamjoin.plan.choice import Wish
from streamjoin.plan.formulas import Load, load_of
from streamjoin.windows import asked

HIT_RATE = 3.6e-6  # DP-Join 5.1
PAPER = HIT_RATE / 1550  # T_on: figure 6 has 3,100 results/s for 2 workers and 6,200 for 4
COSTS = Costs(
    scan=1 / 10.4e9,
    exact=1.3e-9,
    band=Price(probe=0.55e-6, insert=0.3e-6, result=25e-9),
    hash=Price(probe=0.11e-6, insert=0.05e-6, result=0.11e-6),
)
FIFTEEN_MINUTES = Retention(900, 900)

rates = st.floats(1, 1e6)
lengths = st.floats(0.001, 1e5)
loads = st.builds(lambda r, s, t, u: load_of(r, s, Retention(t, u)), rates, rates, lengths, lengths)


def chosen(task: Task, cores: int = 16, **wish: object) -> choosing.Choice:
    return choose(task, cores, Wish(**wish), COSTS)  # type: ignore[arg-type]


def scan(rate: float | None, retention: Retention | None = FIFTEEN_MINUTES) -> Task:
    return Task("scan", retention, rate, rate)


def test_figure_6_bandwidth_and_degree() -> None:
    load = load_of(2100, 2100, Retention(300, 300))
    assert model.max_bandwidth(load, HIT_RATE) == pytest.approx(2 * 2100**2 * 300 * HIT_RATE) == pytest.approx(9525.6)
    assert model.offered_bandwidth(1, 2, PAPER, HIT_RATE) == pytest.approx(3100)
    assert model.offered_bandwidth(1, 4, PAPER, HIT_RATE) == pytest.approx(6200)
    linear = model.optimal_degree(load, PAPER)
    assert linear == 7
    assert next(n for n in range(linear, 99) if min(model.best_layout(load, n)) > 1) == 8  # 2 x 4
    assert next(n for n in range(linear, 99) if math.isqrt(n) ** 2 == n) == 9  # 3 x 3


@pytest.mark.parametrize(("m", "n", "measured"), [(2, 3, 9301), (3, 3, 14047)])
def test_table_1_offered_bandwidth(m: int, n: int, measured: float) -> None:
    assert model.offered_bandwidth(m, n, PAPER, HIT_RATE) == pytest.approx(measured, rel=0.01)


def test_a_layout_does_not_change_the_offered_bandwidth() -> None:
    assert len({model.offered_bandwidth(m, n, PAPER, HIT_RATE) for m, n in model.layouts(16)}) == 1


def test_expression_7_is_the_mean_over_the_segment() -> None:
    """A match at the i-th tuple of a segment is found after i comparisons, whatever the hit rate."""
    load, n = Load(10, 10, 900, 1200), 4
    mean = np.mean(np.arange(1, 1200 // n + 1) * PAPER)
    assert model.latency_r(load, n, PAPER) == pytest.approx(mean, rel=0.01)
    assert model.latency_s(load, 3, PAPER) == pytest.approx(900 * PAPER / 6)


def test_expression_9_is_8_without_the_papers_p() -> None:
    load = load_of(2500, 2500, Retention(300, 300))
    for m, n in model.layouts(12):
        assert model.grid_latency(load, m, n, PAPER) == pytest.approx(2500 * PAPER * 300 * (m + n) / (4 * m * n))
    square = model.grid_latency(load, 3, 3, PAPER)
    assert square == pytest.approx(0.29e-3, rel=0.01)
    assert square * HIT_RATE < 2e-9  # what the paper's (9) says of a measured millisecond


@pytest.mark.parametrize(
    ("rate_r", "rate_s", "layout", "measured"),
    [
        (2500, 2500, (3, 3), 0.95e-3),  # 5.3.1
        (2500, 2500, (1, 9), 2.42e-3),
        (1000, 3000, (3, 5), 0.26e-3),  # 5.3.2
        (1000, 3000, (4, 4), 0.30e-3),
    ],
)
def test_latency_with_the_way_is_near_what_the_paper_measured(
    rate_r: float, rate_s: float, layout: tuple[int, int], measured: float
) -> None:
    load = load_of(rate_r, rate_s, Retention(300, 300))
    node = model.node_of(load, "grid", layout)
    assert model.latency(node, Price(PAPER)) == pytest.approx(measured, rel=0.25)


def test_figure_9_a_rectangle_for_streams_of_different_rates() -> None:
    load = load_of(1000, 3000, Retention(300, 300))
    assert model.best_layout(load, 15) == (3, 5)
    assert model.grid_latency(load, 3, 5, PAPER) < model.grid_latency(load, 4, 4, PAPER)


def test_handshake_latency() -> None:
    assert model.handshake_latency_bound(Retention(200, 200)) == 100  # LLHJ 3.2
    assert model.handshake_latency_bound(Retention(200, 100)) == pytest.approx(66.67, abs=0.01)
    assert model.handshake_latency_bound(FIFTEEN_MINUTES) == 450
    assert model.handshake_latency_bound(Retention(0, 0)) == 0


@pytest.mark.parametrize("retention", [Retention(200, 200), Retention(200, 100), Retention(3, 900)])
def test_handshake_mean_is_that_over_all_meeting_points(retention: Retention) -> None:
    alpha = (np.arange(100_000) + 0.5) / 100_000
    travelled_r, travelled_s = alpha * retention.r, (1 - alpha) * retention.s  # LLHJ (1) and (2)
    since_the_later = np.minimum(travelled_r, travelled_s)
    assert model.handshake_latency(retention) == pytest.approx(since_the_later.mean(), rel=1e-4)
    assert model.handshake_latency_bound(retention) == pytest.approx(since_the_later.max(), rel=1e-3)


@given(loads, st.integers(1, 48))
def test_the_best_layout_has_the_lowest_latency(load: Load, workers: int) -> None:
    found = model.best_layout(load, workers)
    assert found in model.layouts(workers)
    lowest = min(model.grid_latency(load, m, n, PAPER) for m, n in model.layouts(workers))
    assert model.grid_latency(load, *found, PAPER) == pytest.approx(lowest)


@given(rates, lengths, st.integers(1, 48))
def test_equal_streams_want_the_squarest_layout(rate: float, length: float, workers: int) -> None:
    m, n = model.best_layout(load_of(rate, rate, Retention(length, length)), workers)
    assert m + n == min(a + b for a, b in model.layouts(workers))


@given(rates, rates, lengths, st.floats(1, 10))
def test_the_degree_grows_with_the_rate(rate_r: float, rate_s: float, length: float, factor: float) -> None:
    slow, fast = (load_of(rate_r * f, rate_s, Retention(length, length)) for f in (1, factor))
    assert model.optimal_degree(slow, PAPER) <= model.optimal_degree(fast, PAPER)


@given(loads)
def test_the_degree_is_the_fewest_workers_that_offer_enough(load: Load) -> None:
    degree, most = model.optimal_degree(load, PAPER), model.max_bandwidth(load, HIT_RATE)
    assert model.offered_bandwidth(1, degree, PAPER, HIT_RATE) >= most * (1 - 1e-9)
    assert degree == 1 or model.offered_bandwidth(1, degree - 1, PAPER, HIT_RATE) < most


@given(st.integers(1, 64), lengths, lengths, st.booleans())
def test_at_the_sustainable_rate_all_workers_are_busy(workers: int, r: float, s: float, by_rows: bool) -> None:
    retention = Retention(r, s, by_rows)
    rate = model.sustainable_rate(workers, PAPER, retention)
    assert load_of(rate, rate, retention).comparisons * PAPER == pytest.approx(workers)


@given(rates, rates, lengths)
def test_either_stream_is_the_later_one_as_often_in_equal_windows(r: float, s: float, length: float) -> None:
    assert load_of(r, s, Retention(length, length)).later_r == pytest.approx(0.5)


@given(loads, st.integers(1, 16), st.floats(0, 1e-4))
def test_workers_of_any_topology_do_the_same_comparisons(load: Load, workers: int, hit_rate: float) -> None:
    price = Price(PAPER, result=1e-8)
    alone = model.busy(model.node_of(load, "kang", (1, 1)), price, hit_rate)
    nodes = [model.node_of(load, "grid", layout) for layout in model.layouts(workers)]
    for node in (*nodes, model.node_of(load, "low_latency", (1, workers))):
        assert model.busy(node, price, hit_rate) * workers == pytest.approx(alone)


def test_a_stripe_piles_up_only_where_a_turn_is_too_much() -> None:
    calm, near = (load_of(rate, rate, Retention(300, 300)) for rate in (1000, 2500))
    for load, waits in ((calm, False), (near, True)):
        node = model.node_of(load, "grid", (3, 3))
        dealt_singly, in_stripes = (model.latency(node, Price(PAPER), stripe=x) for x in (1, 2048))
        assert (in_stripes > dealt_singly) == waits
        chain = model.node_of(load, "low_latency", (1, 9))
        assert model.latency(chain, Price(PAPER)) == model.latency(chain, Price(PAPER), stripe=2048)


def test_different_windows_on_each_side() -> None:
    """lower <= s.time - r.time <= upper: an r waits for s as long as `upper`, an s for r as long as -`lower`."""
    retention = asked(sj.interval("-10 min", "5 min")).window("us").retention
    assert retention == Retention(300, 600)
    load = load_of(100, 200, retention)
    assert load.comparisons == 100 * (200 * 600) + 200 * (100 * 300)
    assert load.later_r == pytest.approx(2 / 3)


def test_stay_of_every_window() -> None:
    assert asked("2 s").window("ns").retention == Retention(2, 2)
    assert asked(sj.interval("1 s", "10 s")).window("us").retention == Retention(10, 0)
    assert asked(sj.last(r=500, s=1000)).window(None).retention == Retention(500, 1000, by_rows=True)
    assert asked(sj.tumbling("1 minute")).window("us").retention == Retention(60, 60)
    assert asked(sj.tumbling(rows=100)).window(None).retention == Retention(100, 100, by_rows=True)
    assert asked(500).window("int").retention is None


def test_unknown_rates_mean_one_worker() -> None:
    for task in (scan(None), Task("scan", FIFTEEN_MINUTES, 5000, None), scan(5000, None)):
        choice = chosen(task)
        assert (choice.algorithm, choice.workers, choice.layout) == ("kang", 1, (1, 1))
        assert "one worker is assumed to be enough" in choice.reasons[0]


def test_one_core_is_enough_up_to_70_percent() -> None:
    limit = model.sustainable_rate(1, COSTS.scan, FIFTEEN_MINUTES)
    below, above = chosen(scan(limit * math.sqrt(0.69))), chosen(scan(limit * math.sqrt(0.71)))
    assert below.algorithm == "kang" and "69 % busy" in below.reasons[0]
    assert above.algorithm != "kang" and above.workers == 2


def test_reasons_are_numbers() -> None:
    reasons = chosen(scan(5000), cores=2).reasons
    assert reasons[0] == (
        "2 x 5,000 tuples/s against windows of 4.5 M: 45 G comparisons/s, one core does 10.4 G: "
        "5 workers needed, 2 cores are there"
    )
    assert any("handshake (a result may take 450 s)" in reason and "cell" in reason for reason in reasons)
    assert any("sustains about 68 %" in reason for reason in reasons)


def test_streams_of_different_rates_are_told_apart() -> None:
    reason = chosen(Task("scan", FIFTEEN_MINUTES, 1000, 9000)).reasons[0]
    assert reason.startswith("1,000 r/s against 8.1 M s, 9,000 s/s against 900,000 r: 16.2 G comparisons/s")


def test_scans_go_where_the_latency_is_lower() -> None:
    """A chain divides a scan by all workers; a grid has shorter ways, which matters if the scans are short."""
    assert chosen(scan(5000)).algorithm == "low_latency"
    short = scan(500_000, Retention(0.02, 0.02))
    assert chosen(short).algorithm == "grid"
    slow = replace(COSTS, hop=1e-9)
    assert choose(short, 16, costs=slow).algorithm == "low_latency"


def test_a_grid_is_chosen_only_if_it_beats_the_chain() -> None:
    for rate, length in ((5e5, 0.02), (1e6, 0.005), (3000, 900), (20_000, 60)):
        task = scan(rate, Retention(length, length))
        case = choosing._Case(task, load_of(rate, rate, Retention(length, length)), COSTS, 16)
        grid, chain = case.fitting("grid", 2), case.fitting("low_latency", 2)
        assert chosen(task).algorithm == ("grid" if grid.latency < chain.latency else "low_latency")


def test_indexes_are_kept_once_as_long_as_the_probes_can_be_carried() -> None:
    some = chosen(Task("hash", Retention(60, 60), 3e6, 3e6))
    assert some.algorithm == "biclique" and some.workers == 2 and "one index" in some.reasons[1]
    many = chosen(Task("hash", Retention(60, 60), 1e7, 1e7))
    assert many.algorithm == "grid" and "4.0 entries per tuple" in many.reasons[1]


def test_a_predicate_without_boxes_is_slower_to_scan() -> None:
    assert chosen(scan(1500)).algorithm == "kang"
    assert chosen(replace(scan(1500), boxes=False)).workers == 6


def test_no_more_workers_than_cores_unless_asked_for() -> None:
    assert chosen(scan(50_000), cores=4).workers == 4
    assert chosen(scan(50_000), cores=1).algorithm == "kang"
    choice = chosen(scan(5000), cores=2, algorithm="grid", workers=6)
    assert (choice.workers, choice.layout) == (6, (2, 3))
    assert choice.reasons[-1] == "6 workers were asked for, 2 cores are there: they take turns"


@pytest.mark.parametrize("algorithm", PARALLEL)
def test_a_named_algorithm_gets_its_optimal_degree(algorithm: str) -> None:
    choice = chosen(scan(5000), algorithm=algorithm)
    assert choice.algorithm == algorithm
    assert choice.workers == (6 if algorithm == "grid" else 5)  # 2 x 3 is a rectangle, 5 is none
    assert chosen(scan(5000), cores=3, algorithm=algorithm).workers == 3


@pytest.mark.parametrize("algorithm", PARALLEL)
def test_a_named_algorithm_gets_all_cores_if_rates_are_unknown(algorithm: str) -> None:
    choice = chosen(scan(None), cores=6, algorithm=algorithm)
    assert (choice.algorithm, choice.workers) == (algorithm, 6)
    assert choice.layout == ((2, 3) if algorithm == "grid" else (1, 6))


def test_handshake_says_how_long_it_takes() -> None:
    assert any("up to 450 s" in reason for reason in chosen(scan(5000), algorithm="handshake").reasons)
    rows = Task("scan", Retention(1e7, 1e7, by_rows=True), 1e4, 1e4)
    assert any("up to 500 s" in reason for reason in chosen(rows, algorithm="handshake").reasons)


def test_what_the_user_fixed_stays() -> None:
    assert chosen(scan(5000), workers=1).algorithm == "kang"
    assert chosen(scan(10), workers=3).workers == 3
    assert chosen(scan(None), workers=3).algorithm == "low_latency"
    for task in (scan(None), scan(10), scan(5000)):
        choice = chosen(task, layout=(2, 4))
        assert (choice.algorithm, choice.workers, choice.layout) == ("grid", 8, (2, 4))
    assert chosen(scan(5000), algorithm="kang").workers == 1


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"algorithm": "gird"}, "grid"),
        ({"algorithm": "kang", "workers": 2}, "one worker"),
        ({"workers": 0}, "at least 1"),
        ({"workers": True}, "at least 1"),
        ({"workers": "many"}, "at least 1"),
        ({"layout": (2, 0)}, "rows, columns"),
        ({"layout": "2x3"}, "rows, columns"),
        ({"layout": (2, 2), "algorithm": "cell"}, "for algorithm"),
        ({"layout": (2, 2), "workers": 5}, "4 workers"),
    ],
)
def test_wishes_that_contradict_themselves(wish: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        chosen(scan(5000), **wish)


@pytest.mark.parametrize("rate", [-1.0, math.nan, math.inf])
def test_a_rate_is_a_number(rate: float) -> None:
    with pytest.raises(OptionError, match="rate of s"):
        chosen(Task("scan", FIFTEEN_MINUTES, 10, rate))


@given(
    st.sampled_from(["scan", "sorted", "tree", "band", "hash"]),
    st.one_of(st.none(), st.floats(0, 1e8)),
    st.one_of(st.none(), st.floats(0, 1e8)),
    st.builds(Retention, st.floats(0, 1e6), st.floats(0, 1e6), st.booleans()),
    st.integers(1, 12),
    st.sampled_from(NAMES),
)
def test_every_choice_is_consistent(
    access: str, r: float | None, s: float | None, retention: Retention, cores: int, algorithm: str
) -> None:
    choice = choose(Task(access, retention, r, s), cores, Wish(algorithm), COSTS)
    assert choice.workers == choice.layout[0] * choice.layout[1]
    assert choice.workers <= cores or ALGORITHMS[choice.algorithm].degree, "join cores are none of the machine"
    assert choice.algorithm == algorithm or algorithm == "auto"
    assert choice.algorithm in ("kang", "grid", "low_latency") or algorithm != "auto"
    assert choice.algorithm != "kang" or choice.workers == 1
    assert choice.reasons


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A cache folder of its own, and how often was measured."""
    calls: list[int] = []

    def measure() -> Costs:
        calls.append(1)
        return COSTS

    monkeypatch.setenv("STREAMJOIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(costing, "_measure", measure)
    costing._calibrated.cache_clear()
    yield calls
    costing._calibrated.cache_clear()


def test_a_machine_is_measured_once(counted: list[int], tmp_path: Path) -> None:
    assert costing.calibrated() == costing.calibrated() == COSTS
    costing._calibrated.cache_clear()  # the next process
    assert costing.calibrated() == COSTS
    assert counted == [1]
    (kept,) = (tmp_path / "cache").iterdir()
    assert json.loads(kept.read_text())["hash"]["probe"] == COSTS.hash.probe
    assert (tmp_path / "cache").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"scan": "fast"}', json.dumps({"scan": -1, "exact": 1, "band": {}, "hash": {}})]
)
def test_a_broken_file_is_measured_again(counted: list[int], tmp_path: Path, text: str) -> None:
    costing.calibrated()
    (kept,) = (tmp_path / "cache").iterdir()
    kept.write_text(text)
    costing._calibrated.cache_clear()
    assert costing.calibrated() == COSTS
    assert counted == [1, 1]
    assert json.loads(kept.read_text())["scan"] == COSTS.scan


def test_a_folder_that_cannot_be_written(counted: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("STREAMJOIN_CACHE", str(tmp_path / "file" / "cache"))
    assert costing.calibrated() == costing.calibrated() == COSTS
    assert counted == [1]


def test_the_measurement_itself() -> None:
    """No more than signs and lower limits: beside other work everything may take long."""
    costs = costing._measure()
    assert costs.scan > 1e-12
    assert costs.exact > 1e-12
    for price in (costs.band, costs.hash):
        assert price.probe > 1e-9
        assert price.insert > 1e-9
        assert price.result >= 0


def test_costs_are_measured_only_if_they_decide(counted: list[int]) -> None:
    choose(scan(None), 4)
    choose(scan(5000), 4, Wish("kang"))
    assert counted == []
    choose(scan(5000), 4)
    assert counted == [1]
