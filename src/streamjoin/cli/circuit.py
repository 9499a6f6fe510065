"""`streamjoin circuit`: builds the lock-step chain as hardware, simulates it beside its model, proves and reports."""

from __future__ import annotations

import functools
import inspect
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamjoin.cli.parameters import AsJson

if TYPE_CHECKING:
    from streamjoin.circuit.spec import Spec

app = typer.Typer(
    help="Handshake join in lock step as an FPGA circuit (extra fpga).", no_args_is_help=True, rich_markup_mode=None
)

Words = dict[str, Any]  # options by name
Group = dict[str, tuple[Any, Any]]  # by name of an option: what Typer knows of it, and its default

CHAIN: Group = {
    "on": (Annotated[str, typer.Option(help='The predicate, as "abs(r.x - s.x) <= 10".')], inspect.Parameter.empty),
    "cores": (Annotated[int, typer.Option(min=1, help="Join cores.")], 4),
    "segment": (Annotated[int, typer.Option(min=1, help="Tuples of each stream that a core holds.")], 8),
    "r": (
        Annotated[str, typer.Option("--r", help="Columns of r, as x:int16,y:decimal(9,2); others have 32 bits.")],
        "",
    ),
    "s": (Annotated[str, typer.Option("--s", help="Columns of s.")], ""),
    "window": (
        Annotated[str, typer.Option(help="Rows of the windows, 100 or 100,80; all that the segments hold.")],
        "",
    ),
    "scanners": (Annotated[int, typer.Option(min=1, max=2, help="Comparisons per core and cycle.")], 2),
    "memory": (Annotated[str, typer.Option(help="Where segments lie: lutram, registers or blockram.")], "lutram"),
    "network": (Annotated[str, typer.Option(help="The merging network: tree or paper.")], "tree"),
    "payload": (Annotated[int, typer.Option(min=1, max=64, help="Bits of a tuple's number.")], 16),
    "low_latency": (Annotated[bool, typer.Option("--low-latency", help="Tuples visit all cores at once.")], False),
}
CHIP: Group = {
    "device": (
        Annotated[
            str,
            typer.Option(help="ECP5: 12k to 85k; if their nextpnr is installed, iCE40: hx1k to hx8k, MachXO3: 6900."),
        ],
        "85k",
    ),
    "grade": (Annotated[int | None, typer.Option(help="Its speed grade; of an ECP5 6, 7 or 8.")], None),
    "seed": (Annotated[int, typer.Option(help="Of the placer.")], 1),
    "limit": (Annotated[float, typer.Option(min=1, help="Time limit of a tool, in seconds.")], 3600.0),
}
Limit = Annotated[float, CHIP["limit"][0].__metadata__[0]]
Route = Annotated[bool, typer.Option(help="Place and route, too: minutes for many cores.")]


def taking(*groups: Group) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of groups. It gets each group's values as one of its first arguments, a dict."""

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[len(groups) :]
        shared = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=begins, annotation=known)
            for group in groups
            for name, (known, begins) in group.items()
        ]
        shown = [*shared, *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own)]

        @functools.wraps(command)
        def call(**words: Any) -> None:
            gathered = [{name: words.pop(name) for name in group} for group in groups]
            command(*gathered, **words)

        call.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
        return call

    return wrap


def begun(group: Group, **defaults: Any) -> Group:
    """A group with other defaults."""
    return {name: (known, defaults.get(name, begins)) for name, (known, begins) in group.items()}


DEALT = Annotated[str, typer.Option(help="Rows that the cores share; without it each core adds a segment.")]
CORE = begun({name: CHAIN[name] for name in CHAIN if name != "cores"} | {"window": (DEALT, "")}, on="r.x = s.x")


def _rows(window: str) -> tuple[int, int] | None:
    if not window:
        return None
    parts = window.split(",")
    if len(parts) > 2 or not all(part.strip().isdecimal() and int(part) for part in parts):
        raise typer.BadParameter(f'--window "{window}" is not a number of rows, nor two with a comma')
    return int(parts[0]), int(parts[-1])


def _spec(words: Words) -> Spec:
    from streamjoin.circuit.spec import Spec

    spec = Spec(**{**words, "window": _rows(words.get("window", ""))})
    spec.design()  # says now what is missing, or cannot be
    return spec


def _tell(quiet: bool) -> Callable[[str], None]:
    started = time.perf_counter()

    def tell(text: str) -> None:
        print(f"streamjoin: {text}, {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)

    return (lambda text: None) if quiet else tell


@app.command()
@taking(CHAIN, CHIP)
def build(
    chain: Words,
    chip: Words,
    out: Annotated[Path | None, typer.Option(help="A folder for circuit.il, circuit.v and report.json.")] = None,
    route: Route = True,
    as_json: AsJson = False,
) -> None:
    """Makes a circuit of a join: Verilog, RTLIL, synthesis, place and route. Known results are reused."""
    spec = _spec(chain)
    from streamjoin.circuit.build import built, sources
    from streamjoin.circuit.chips import Target

    target = Target(**chip)
    figures = built(spec, target, _tell(as_json), route)
    if out is not None:
        figures["files"] = [str(path) for path in sources(spec, out, target.limit)]
        (out / "report.json").write_text(json.dumps(figures, indent=1))
    if as_json:
        print(json.dumps(figures))
        return
    _show(figures)


def _show(figures: dict[str, Any]) -> None:
    made = figures["synthesis"]
    lines = {
        "cores, windows": f"{figures['cores']}, {figures['rows'][0]} and {figures['rows'][1]} rows",
        "cycles per step": f"{figures['cycles_per_step']}, predicate in {figures['stages']}",
        "result FIFOs": f"{figures['fifo_entries']} entries, margin {figures['fifo_margin']}",
        "network limits from": f"{figures['selectivity_limit']:.2%} of all comparisons that match",
        "LUTs": f"{made['luts']:,}",
        "registers": f"{made['registers']:,}",
        "LUT RAM, block RAM": f"{made['lut_rams']:,} cells of 64 bits, {made['block_rams']} blocks",
        "synthesis": f"{made['seconds']:.0f} s, {made['peak_mb']:,.0f} MB{' (known)' * made['cached']}",
    }
    if "route" in figures:
        routed = figures["route"]
        known = " (known)" * routed["cached"]
        lines |= {
            "place and route": f"{routed['device']}: {routed['seconds']:.0f} s, {routed['peak_mb']:,.0f} MB{known}",
            "clock": f"{figures['clock_mhz']:.1f} MHz",
            "limited by": _path(routed["longest_path"]),
            "tuples/s per stream": f"{figures['tuples_per_s']:,.0f}",
        }
    for name, text in lines.items():
        print(f"{name:<22} {text}")


@app.command()
@taking(begun(CHAIN, cores=2, segment=4))
def simulate(
    chain: Words,
    steps: Annotated[int, typer.Option(min=1, help="Tuples of each stream.")] = 50,
    values: Annotated[int, typer.Option(min=1, help="Number of distinct values of a column.")] = 8,
    speed: Annotated[
        float, typer.Option(min=0.01, max=1, help="Share of the cycles in which a result is taken.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="Of the tuples.")] = 1,
    native: Annotated[bool, typer.Option("--native", help="As C++ from yosys, with this machine's compiler.")] = False,
    device: Annotated[
        str, typer.Option(help="Simulate the cells that synthesis generates for this device, as C++.")
    ] = "",
    limit: Limit = 600.0,
    as_json: AsJson = False,
) -> None:
    """Runs the circuit itself beside its model and compares every cycle; exits 1 if they differ."""
    spec = _spec(chain)
    design = spec.design()
    from streamjoin.circuit.cycles import COUNTS, OUT_VALID, THROTTLE
    from streamjoin.circuit.simulate import circuit_trace, difference, matches_of, model_trace, random_steps

    given = random_steps(design, steps, values, seed, speed)
    matches = matches_of(spec.gates.tree, given.rows_r, given.rows_s)
    cycles = (steps + 4) * spec.chain.step(True, True) + 100
    model = model_trace(design, given, matches, cycles)
    started = time.perf_counter()
    figures: dict[str, Any] = {"cycles": cycles}
    throttled = int(model[:, THROTTLE].sum())
    if native or device:
        from streamjoin.circuit.chips import Target
        from streamjoin.circuit.native import native_trace

        ran = native_trace(design, given, cycles, limit, Target(device=device).family if device else None)
        circuit = ran.trace
        if device:  # of cells, nothing but the ports can be seen
            model[:, [THROTTLE, *range(COUNTS, model.shape[1])]] = 0
        figures |= {"compile_seconds": ran.compile_seconds, "cycles_per_s": ran.cycles_per_s}
    else:
        circuit = circuit_trace(design, given, cycles)
        figures["cycles_per_s"] = cycles / (time.perf_counter() - started)
    figures |= {
        "same": bool((model == circuit).all()),
        "difference": difference(model, circuit),
        "cycles_with_a_result": int(circuit[:, OUT_VALID].sum()),
        "throttled_cycles": throttled,
    }
    if as_json:
        print(json.dumps(figures))
    else:
        told = "the same in circuit and model" if figures["same"] else figures["difference"]
        print(f"{cycles:,} cycles: {told}")
        print(
            f"{figures['cycles_with_a_result']:,} with a result, {figures['throttled_cycles']:,} throttled, "
            f"{figures['cycles_per_s']:,.0f} cycles/s simulated"
        )
    if not figures["same"]:
        raise typer.Exit(1)


@app.command()
def prove(
    cores: Annotated[int, typer.Option(min=1, max=3, help="Join cores.")] = 2,
    segment: Annotated[int, typer.Option(min=1, max=3, help="Tuples of each stream that a core holds.")] = 2,
    scanners: Annotated[int, CHAIN["scanners"][0].__metadata__[0]] = 2,
    cycles: Annotated[int, typer.Option(min=1, help="Number of cycles; all inputs in them are examined.")] = 16,
    limit: Limit = 600.0,
    as_json: AsJson = False,
) -> None:
    """Proves for a small chain that no result is lost and every pair is output once, and finds planted faults."""
    from streamjoin.circuit.tools import hardware

    hardware()
    from streamjoin.circuit.proof import prove_all

    found = prove_all(cores, segment, cycles, limit, scanners)
    if as_json:
        print(json.dumps({"cores": cores, "segment": segment, "scanners": scanners, "proofs": found}))
    else:
        for proof in found:
            told = "holds for all inputs" if proof["holds"] else "an input breaks it: one"
            print(f"{proof['claim']}: {told} of {proof['cycles']} cycles, {proof['seconds']:.0f} s")
    if any(proof["holds"] == proof["fault"] for proof in found):
        raise typer.Exit(1)


@app.command()
@taking(CORE, CHIP)
def report(
    chain: Words,
    chip: Words,
    cores: Annotated[str, typer.Option(help="Numbers of cores, separated by commas.")] = "1,2,4",
    route: Route = True,
    power: Annotated[bool, typer.Option("--power", help="An estimate of power, too; needs a C++ compiler.")] = False,
    out: Annotated[Path | None, typer.Option(help="A file for all figures, as JSON.")] = None,
    as_json: AsJson = False,
) -> None:
    """Clock, tuples/s, size and latency against the number of cores, and published figures beside them."""
    counts = cores.split(",")
    if not all(count.strip().isdecimal() and int(count) for count in counts):
        raise typer.BadParameter(f'--cores "{cores}" is not a list of numbers, separated by commas')
    numbers = [int(count) for count in counts]
    rows, spec = _rows(chain["window"]), _spec({**chain, "cores": numbers[0], "window": ""})
    from streamjoin.circuit.chips import Target
    from streamjoin.circuit.report import scaling

    target, tell = Target(**chip), _tell(as_json)
    figures = scaling(spec, numbers, target, tell, route, rows)
    if power:
        from streamjoin.circuit.power import power as estimate

        figures["power"] = estimate(spec, target.limit, tell)
    if out is not None:
        out.write_text(json.dumps(figures, indent=1))
    if as_json:
        print(json.dumps(figures))
        return
    for point in figures["points"]:
        _show_point(point)
    if "flatness" in figures:
        flat = figures["flatness"]
        print(f"clock with {flat['to']} cores: {flat['ratio']:.2f} of that with {flat['from']}")
    for point in figures.get("standing", ()):
        told = f"{point['tuples_per_s_against_2016']:.1f} times the tuples/s of 2016"
        loops = f"{point['speedup_over_nested_loops']:.0f} times one core with the whole window"
        print(
            f"{point['cores']} cores: {told}, low latency up to {point['low_latency_ns']:.0f} ns; {loops}, "
            f"2012: {point['speedup_2012']} times"
        )
    for point in figures["published"]:
        print(f"{'published':<10} {'; '.join(f'{name} {value}' for name, value in point.items())}")
    print(figures["why_otherwise"])
    if power:
        _show_power(figures["power"])


def _path(path: dict[str, Any]) -> str:
    """The path that limits the clock, in words."""
    return f"{path['from']} to {path['to']}: {path['cells_ns']:.1f} ns in cells, {path['wires_ns']:.1f} ns in wires"


def _show_point(point: dict[str, Any]) -> None:
    made, wait = point["synthesis"], point["latency_cycles"]
    ram = f"{made['lut_rams']:,} cells of LUT RAM, {made['block_rams']} blocks"
    size = f"{made['luts']:,} LUTs, {made['registers']:,} registers, {ram}"
    print(f"{point['cores']} cores, {point['rows'][0]} rows: {size}")
    if "clock_mhz" in point:
        print(f"     {point['clock_mhz']:.1f} MHz, {point['tuples_per_s'] / 1e6:.2f} M tuples/s per stream")
        print(f"     limited by {_path(point['route']['longest_path'])}")
        routed = point["route"]
        print(f"     place and route: {routed['cpu_seconds']:.0f} s of CPU, {routed['peak_mb']:,.0f} MB")
        wait = point["latency_ns"]
    unit = "ns" if "clock_mhz" in point else "cycles"
    told = [f"{name.replace('_', ' ')} {one['median']:,.0f}, at most {one['max']:,.0f}" for name, one in wait.items()]
    print(f"     latency in {unit}, median: {'; '.join(told)}")
    loads = [f"{load['speed']:.0%} of full speed at {load['selectivity']:.2%}" for load in point["network_load"]]
    print(f"     the network limits from {point['selectivity_limit']:.2%} of matches on; model: {', '.join(loads)}")


def _show_power(figures: dict[str, Any]) -> None:
    for whose, points in (("ours", figures["points"]), ("published", figures["published"])):
        for point in points:
            print(
                f"power, {whose:<10} {point['cores']:>3} cores {point['clock_mhz']:>5.1f} MHz  LUTs "
                f"{point['area']:>6.2%}  dynamic "
                f"{point['dynamic_mw']:>6.1f} mW  static by area {point['static_mw']:>6.1f} mW  total "
                f"{point['total_mw']:>6.1f} mW"
            )
    for assumption in figures["assumptions"]:
        print(f"assumed: {assumption}")
