"""What others rely on, as plain values, compared with tests/data/nets.json.

`python tests/support/nets.py` writes that anew.

A checkpoint is refused when a signature changes, and a caller breaks when a parameter, an option or a field of --json
goes. A change here is a decision, never an accident.
"""

from __future__ import annotations

import inspect
import io
import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import typer

import streamjoin as sj
from cells import Cluster, spec_of
from streamjoin import spark
from streamjoin.cli.main import app, main
from streamjoin.spark.spec import JoinSpec
from streamjoin.testing import cases

GOLDEN = Path(__file__).parents[1] / "data" / "nets.json"

WINDOWS = {
    "symmetric": 10,
    "interval": sj.interval(-5, 9),
    "half open": sj.interval(-5, 9, closed="left"),
    "slices": sj.tumbling(13),
}
KINDS: dict[str, dict[str, Any]] = {
    "left": {"how": "left"},
    "full": {"how": "full"},
    "semi": {"how": "semi"},
    "backward": {"take": "backward", "how": "left"},
    "best": {"take": sj.min_by("abs(r.x - s.a)", k=2)},
    "aggregate": {"aggregate": {"n": "count(*)", "high": "max(s.a - r.x)"}, "select": "r.rid"},
}
SQL = [case for case in cases.CASES if isinstance(case.on, str)]  # bytecode differs from Python to Python


def observed() -> dict[str, Any]:
    """Everything, in a form that JSON keeps."""
    found = {
        "public": sorted(sj.__all__),
        "parameters": parameters(),
        "commands": commands(typer.main.get_command(app)),
        "json": json_fields(),
        "signatures": signatures(),
        "manifest": manifest(),
        "manifest of a left join": manifest(how="left"),
        "explain": explanations(),
    }
    return dict(json.loads(json.dumps(found)))


def parameters() -> dict[str, dict[str, str]]:
    """By function: its parameters and their defaults."""
    functions: dict[str, Callable[..., Any]] = {
        "join": sj.join,
        "Join": sj.Join,
        "explain": sj.explain,
        "spark.join": spark.join,
        "interval": sj.interval,
        "last": sj.last,
        "tumbling": sj.tumbling,
    }
    return {
        name: {p.name: "needed" if p.default is p.empty else repr(p.default) for p in signature.parameters.values()}
        for name, signature in ((name, inspect.signature(function)) for name, function in functions.items())
    }


def commands(command: Any) -> dict[str, Any]:
    """The options of a command and of those below it."""
    options = sorted(word for parameter in command.params for word in parameter.opts)
    below = {name: commands(sub) for name, sub in getattr(command, "commands", {}).items()}
    return {"options": options, "commands": below}


def json_fields() -> dict[str, list[str]]:
    """The fields of what --json prints, by command."""
    with tempfile.TemporaryDirectory() as folder:
        table, out = str(Path(folder) / "in.parquet"), str(Path(folder) / "out.parquet")
        pq.write_table(pa.table({"t": [1, 2], "x": [1, 2]}), table)
        words = ["--left", table, "--right", table, "--on", "r.x = s.x", "--within", "1", "--time", "t"]
        joined = printed("join", *words, "-o", out, "--json")
        live = printed("join", *words, "-o", out, "--algorithm", "grid", "--workers", "2", "--json")
    return {"join": fields(joined), "join, grid": fields(live), "doctor": fields(printed("doctor", "--json"))}


def printed(*words: str) -> Any:
    with redirect_stdout(io.StringIO()) as out:
        main(list(words))
    return json.loads(out.getvalue())


def fields(value: Any) -> list[str]:
    """The names on the first two levels."""
    inner = {name: sorted(part) if isinstance(part, dict) else [] for name, part in value.items()}
    return sorted([*inner, *(f"{name}.{field}" for name, part in inner.items() for field in part)])


def signatures() -> dict[str, dict[str, str]]:
    """What a checkpoint's state is kept under."""
    found = {case.name: spec_of(case.on, 10).signature for case in SQL}
    band = cases.BY_NAME["band_2d"].on
    found |= {f"band_2d, {name}": spec_of(band, window).signature for name, window in WINDOWS.items()}
    found |= {f"equality, {name}": _spec("equality", kind).signature for name, kind in KINDS.items()}
    return found


def _spec(name: str, kind: dict[str, Any]) -> JoinSpec:
    return spec_of(cases.BY_NAME[name].on, 10, **kind)


def manifest(**kind: Any) -> dict[str, Any]:
    """What the first cell's manifest says after two micro-batches, but for sizes and digests of compressed rows."""
    cluster = Cluster(_spec("band_2d", kind), None)
    rows = {side: cases.long_stream(side, 5, 60, 1, True) for side in "rs"}
    for k in (0, 30):
        cluster.batch(rows["r"][k : k + 30], rows["s"][k : k + 30])
    kept = json.loads(cluster.cells[0].kept or b"{}")
    for entry in kept["entries"]:
        entry |= {name: type(entry[name]).__name__ for name in ("size", "weight", "name")}
    return dict(kept)


def explanations() -> dict[str, str]:
    """What `explain` says; nothing of it depends on the machine."""
    options: dict[str, Any] = {"time": "t", "algorithm": "kang"}
    found = {case.name: str(sj.explain(cases.R, cases.S, on=case.on, within=10, **options)) for case in SQL}
    band = cases.BY_NAME["band_2d"].on
    for name, window in {**WINDOWS, "rows": sj.last(r=500, s=1000)}.items():
        found[f"band_2d, {name}"] = str(sj.explain(cases.R, cases.S, on=band, within=window, **options))
    return found


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(observed(), indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{GOLDEN.name}: {GOLDEN.stat().st_size} bytes", file=sys.stderr)
