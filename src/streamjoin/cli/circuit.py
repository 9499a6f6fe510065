"""`streamjoin circuit`: the lock-step chain as hardware: built, simulated beside its model, proved, reported."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from streamjoin.circuit.spec import Spec

app = typer.Typer(
    help="Handshake join in lock step as an FPGA circuit (extra fpga).", no_args_is_help=True, rich_markup_mode=None
)

On = Annotated[str, typer.Option(help='The predicate, as "abs(r.x - s.x) <= 10".')]
Cores = Annotated[int, typer.Option(min=1, help="Join cores.")]
Segment = Annotated[int, typer.Option(min=1, help="Tuples of each stream that a core holds.")]
R = Annotated[str, typer.Option("--r", help="Columns of r, as x:int16,y:decimal(9,2); others have 32 bits.")]
S = Annotated[str, typer.Option("--s", help="Columns of s.")]
Window = Annotated[str, typer.Option(help="Rows of the windows, 100 or 100,80; all that the segments hold.")]
Scanners = Annotated[int, typer.Option(min=1, max=2, help="Comparisons per core and cycle.")]
Memory = Annotated[str, typer.Option(help="Where segments lie: lutram, registers or blockram.")]
Network = Annotated[str, typer.Option(help="The merging network: tree or paper.")]
Payload = Annotated[int, typer.Option(min=1, max=64, help="Bits of a tuple's number.")]
LowLatency = Annotated[bool, typer.Option("--low-latency", help="Tuples visit all cores at once.")]
Limit = Annotated[float, typer.Option(min=1, help="Seconds after which a tool is given up.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")]


def _spec(on: str, window: str, **words: Any) -> Spec:
    from streamjoin.circuit.spec import Spec

    rows = None
    if window:
        parts = window.split(",")
        if len(parts) > 2 or not all(part.strip().isdecimal() for part in parts):
            raise typer.BadParameter(f'--window "{window}" is not a number of rows, nor two with a comma')
        rows = int(parts[0]), int(parts[-1])
    return Spec(on, window=rows, **words)


def _tell(quiet: bool) -> Callable[[str], None]:
    started = time.perf_counter()

    def tell(text: str) -> None:
        print(f"streamjoin: {text}, {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)

    return (lambda text: None) if quiet else tell


@app.command()
def build(
    on: On,
    cores: Cores = 4,
    segment: Segment = 8,
    r: R = "",
    s: S = "",
    window: Window = "",
    scanners: Scanners = 2,
    memory: Memory = "lutram",
    network: Network = "tree",
    payload: Payload = 16,
    low_latency: LowLatency = False,
    out: Annotated[Path | None, typer.Option(help="A folder for circuit.il, circuit.v and report.json.")] = None,
    route: Annotated[bool, typer.Option(help="Place and route, too: minutes for many cores.")] = True,
    device: Annotated[str, typer.Option(help="The ECP5: 12k, 25k, 45k or 85k.")] = "85k",
    grade: Annotated[int, typer.Option(help="Its speed grade: 6, 7 or 8.")] = 6,
    seed: Annotated[int, typer.Option(help="Of the placer.")] = 1,
    limit: Limit = 3600.0,
    as_json: AsJson = False,
) -> None:
    """Makes a circuit of a join: Verilog, RTLIL, synthesis, place and route. Known results are not computed again."""
    spec = _spec(
        on,
        window,
        cores=cores,
        segment=segment,
        r=r,
        s=s,
        scanners=scanners,
        memory=memory,
        network=network,
        payload=payload,
        low_latency=low_latency,
    )
    spec.design()
    from streamjoin.circuit.build import Target, built, sources

    figures = built(spec, Target(device, grade, seed, limit=limit), _tell(as_json), route)
    if out is not None:
        figures["files"] = [str(path) for path in sources(spec, out, limit)]
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
            "tuples/s per stream": f"{figures['tuples_per_s']:,.0f}",
        }
    for name, text in lines.items():
        print(f"{name:<22} {text}")


@app.command()
def simulate(
    on: On,
    cores: Cores = 2,
    segment: Segment = 4,
    r: R = "",
    s: S = "",
    window: Window = "",
    scanners: Scanners = 2,
    memory: Memory = "lutram",
    network: Network = "tree",
    low_latency: LowLatency = False,
    steps: Annotated[int, typer.Option(min=1, help="Tuples of each stream.")] = 50,
    values: Annotated[int, typer.Option(min=1, help="Different values of a column.")] = 8,
    speed: Annotated[float, typer.Option(min=0.01, max=1, help="Part of all cycles that takes a result.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of the tuples.")] = 1,
    native: Annotated[bool, typer.Option("--native", help="As C++ from yosys, with this machine's compiler.")] = False,
    limit: Limit = 600.0,
    as_json: AsJson = False,
) -> None:
    """Runs the circuit itself beside its model and compares every cycle; exits 1 if they differ."""
    spec = _spec(
        on,
        window,
        cores=cores,
        segment=segment,
        r=r,
        s=s,
        scanners=scanners,
        memory=memory,
        network=network,
        low_latency=low_latency,
    )
    design = spec.design()
    from streamjoin.circuit.cycles import OUT_VALID, THROTTLE
    from streamjoin.circuit.simulate import circuit_trace, difference, matches_of, model_trace, random_steps

    given = random_steps(design, steps, values, seed, speed)
    matches = matches_of(spec.gates.tree, given.rows_r, given.rows_s)
    cycles = (steps + 4) * spec.chain.step(True, True) + 100
    model = model_trace(design, given, matches, cycles)
    started = time.perf_counter()
    figures: dict[str, Any] = {"cycles": cycles}
    if native:
        from streamjoin.circuit.native import native_trace

        ran = native_trace(design, given, cycles, limit)
        circuit = ran.trace
        figures |= {"compile_seconds": ran.compile_seconds, "cycles_per_s": ran.cycles_per_s}
    else:
        circuit = circuit_trace(design, given, cycles)
        figures["cycles_per_s"] = cycles / (time.perf_counter() - started)
    figures |= {
        "same": bool((model == circuit).all()),
        "difference": difference(model, circuit),
        "cycles_with_a_result": int(circuit[:, OUT_VALID].sum()),
        "throttled_cycles": int(circuit[:, THROTTLE].sum()),
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
    cycles: Annotated[int, typer.Option(min=1, help="All inputs of so many cycles.")] = 16,
    limit: Limit = 600.0,
    as_json: AsJson = False,
) -> None:
    """Proves of a small chain that no result is lost and every pair comes out once; and that faults would be found."""
    from streamjoin.circuit.tools import hardware

    hardware()
    from streamjoin.circuit.proof import prove_all

    found = prove_all(cores, segment, cycles, limit)
    if as_json:
        print(json.dumps({"cores": cores, "segment": segment, "proofs": found}))
    else:
        for proof in found:
            told = "holds for all inputs" if proof["holds"] else "an input breaks it: one"
            print(f"{proof['claim']}: {told} of {proof['cycles']} cycles, {proof['seconds']:.0f} s")
    if any(proof["holds"] == proof["fault"] for proof in found):
        raise typer.Exit(1)


@app.command()
def report(
    on: On = "r.x = s.x",
    cores: Annotated[str, typer.Option(help="Numbers of cores, with commas between them.")] = "1,2,4",
    segment: Segment = 8,
    r: R = "",
    s: S = "",
    scanners: Scanners = 2,
    memory: Memory = "lutram",
    network: Network = "tree",
    payload: Payload = 16,
    route: Annotated[bool, typer.Option(help="Place and route, too.")] = True,
    device: Annotated[str, typer.Option(help="The ECP5: 12k, 25k, 45k or 85k.")] = "85k",
    power: Annotated[bool, typer.Option("--power", help="An estimate of power, too; needs a C++ compiler.")] = False,
    limit: Limit = 3600.0,
    as_json: AsJson = False,
) -> None:
    """Clock, tuples/s, size and latency against the number of cores, and published figures beside them."""
    counts = cores.split(",")
    if not all(count.strip().isdecimal() and int(count) for count in counts):
        raise typer.BadParameter(f'--cores "{cores}" is not numbers with commas between them')
    numbers = [int(count) for count in counts]
    words = {"scanners": scanners, "memory": memory, "network": network, "payload": payload}
    spec = _spec(on, "", cores=numbers[0], segment=segment, r=r, s=s, **words)
    spec.design()
    from streamjoin.circuit.build import Target
    from streamjoin.circuit.report import scaling

    target, tell = Target(device, limit=limit), _tell(as_json)
    figures = scaling(spec, numbers, target, tell, route)
    if power:
        from streamjoin.circuit.power import power as estimate

        figures["power"] = estimate(spec, target, tell)
    if as_json:
        print(json.dumps(figures))
        return
    for point in figures["points"]:
        wait = point["latency_cycles"]
        clock = f"{point['clock_mhz']:>7.1f} MHz {point['tuples_per_s'] / 1e6:>7.2f} M tuples/s" if route else ""
        print(
            f"{point['cores']:>4} cores {point['rows'][0]:>5} rows {point['synthesis']['luts']:>7,} LUTs "
            f"{point['synthesis']['registers']:>7,} registers {clock}  latency in cycles, median: "
            f"{wait['plain']['median']:,.0f}, low latency {wait['low_latency']['median']:,.0f}"
        )
    for point in figures["published"]:
        print(f"{'published':<10} {'; '.join(f'{name} {value}' for name, value in point.items())}")
    print(figures["why_otherwise"])
    if power:
        _show_power(figures["power"])


def _show_power(figures: dict[str, Any]) -> None:
    for whose, points in (("ours", figures["points"]), ("published", figures["published"])):
        for point in points:
            print(
                f"power, {whose:<10} {point['cores']:>3} cores {point['clock_mhz']:>5.1f} MHz  dynamic "
                f"{point['dynamic_mw']:>6.1f} mW  static by area {point['static_mw']:>6.1f} mW  total "
                f"{point['total_mw']:>6.1f} mW"
            )
    for assumption in figures["assumptions"]:
        print(f"assumed: {assumption}")
