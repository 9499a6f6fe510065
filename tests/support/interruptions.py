"""Interrupts a live join at every step, and checks each time that it is whole or says that it has failed.

A program of its own, so that a hang ends with a traceback and not with a suite that hangs:

    python interruptions.py lines kang,grid --every 1       KeyboardInterrupt before the n-th line, for all n
    python interruptions.py opcodes kang --every 7          before the n-th instruction
    python interruptions.py twice grid --every 5            a second one inside the close() that follows
    python interruptions.py signals grid --rounds 1000      real signals at random moments
    python interruptions.py tables handshake --every 3      sj.join on tables
    python interruptions.py blocked grid                    a push that waits for its workers
    python interruptions.py lines grid --kind left          another kind of join

It prints how often each outcome was seen. What the join should have found is computed by a nested loop.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gc
import json
import opcode
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa

import streamjoin as sj
from streamjoin.errors import ClosedError

PACKAGE = str(Path(sj.__file__).parent)
ALGORITHMS = ["kang", "cell", "biclique", "handshake", "low_latency", "grid", "hells"]
PATIENCE = 60  # seconds after which something hangs
WINDOW = 40
VISITS = 3  # of a step that is repeated: whoever waits repeats it for as long as it takes
RETURN, CONSTANT = opcode.opmap["RETURN_VALUE"], opcode.opmap["LOAD_CONST"]

Rows = list[tuple[int, int, int | None]]  # number, time, value
Pairs = Counter[tuple[int, int | None]]
KINDS: dict[str, dict[str, Any]] = {
    "inner": {},
    "left": {"how": "left"},
    "anti": {"how": "anti"},
    "take": {"how": "left", "take": "nearest"},
    "count": {"how": "left", "aggregate": {"n": "count(*)"}},
}
kind = "inner"  # of the joins that are interrupted

SCHEMAS = {side: pa.schema([(f"{side}id", pa.int64()), ("t", pa.int64()), ("x", pa.int64())]) for side in "rs"}


def batch(side: str, rows: Rows) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(c, pa.int64()) for c in columns], schema=SCHEMAS[side])


def make_rows(first: int, count: int, null: bool = False) -> Rows:
    rows: Rows = [(i, i // 2, i * 7 % 5) for i in range(first, first + count)]
    return [(i, t, None if null and i % 4 == 1 else x) for i, t, x in rows]


def nested_loop(r: Rows, s: Rows) -> Pairs:
    """The result: of each r its partners, one of them, how many there are, or None."""
    found: Pairs = Counter()
    for i, a, x in r:
        partners = [(j, b - a) for j, b, y in s if x is not None and x == y and abs(a - b) <= WINDOW]
        if kind == "count":
            found[i, len(partners)] += 1
        elif kind == "take" and partners:
            # The closer one, then the earlier one; of several at one time up to r's the last, after it the first.
            found[i, min(partners, key=lambda p: (abs(p[1]), p[1] > 0, p[0] if p[1] > 0 else -p[0]))[0]] += 1
        elif kind != "anti":
            found.update((i, j) for j, _ in partners)
        if not partners and kind in ("left", "anti", "take"):
            found[i, None] += 1
    return found


def new_join(algorithm: str, **options: Any) -> sj.Join:
    if algorithm not in ("kang", "hells"):
        options = {"workers": 2, "batch": 4, **options}
    on, options = options.pop("on", "r.x = s.x"), KINDS[kind] | options
    return sj.Join(
        r=SCHEMAS["r"], s=SCHEMAS["s"], on=on, within=WINDOW, time="t", algorithm=algorithm, late="keep", **options
    )


def returns(frame: FrameType) -> bool:
    """Is the next instruction a return, or the constant before one?"""
    code, at = frame.f_code.co_code, frame.f_lasti
    return code[at] == RETURN or (code[at] == CONSTANT and code[at + 2] == RETURN)


def interrupted(operation: Callable[[], object], at: int, opcodes: bool = False, inside: str = "") -> bool:
    """Runs an operation with a KeyboardInterrupt before its step `at`. False if it ended before."""
    count, visits = -1, Counter[Any]()

    def step(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if event == ("opcode" if opcodes else "line"):
            back, place = frame.f_back, frame.f_lasti if opcodes else frame.f_lineno
            if opcodes and returns(frame) and (back is None or not back.f_code.co_filename.startswith(PACKAGE)):
                return step  # no signal is looked for here; after it the caller has the value, or has it not
            visits[frame.f_code, place] += 1
            if visits[frame.f_code, place] > VISITS:
                return step
            count += 1
            if count == at:
                raise KeyboardInterrupt
        return step

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        # The lock around the kernel cache is re-entrant, and no live join waits for it.
        if not name.startswith(PACKAGE + inside) or name.endswith(("codegen/cache.py", "codegen/jit.py")):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = opcodes, not opcodes
        return step

    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    sys.settrace(enter)
    try:
        operation()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
    return False


def drain(join: sj.Join, seen: Pairs) -> str | None:
    """Collects what is ready. Returns what the join says of its failure."""
    try:
        for found in join.poll():
            seen.update(pairs_of(found))
    except ClosedError as error:
        return str(error)
    return None


def pairs_of(found: Any) -> list[tuple[int, int | None]]:
    if isinstance(found, sj.Punctuation):
        return []
    second = [name for name in found.schema.names if name in ("sid", "n")]
    others = found[second[0]].to_pylist() if second else [None] * found.num_rows
    return list(zip(found["rid"].to_pylist(), others, strict=True))


def threads_are_gone() -> None:
    deadline = time.monotonic() + 10
    while alive := [t.name for t in threading.enumerate() if t.name.startswith("streamjoin")]:
        assert time.monotonic() < deadline, f"left behind: {alive}"
        time.sleep(0.001)


def elsewhere(action: Callable[[], object]) -> None:
    """Does something in another thread, which finds every lock free."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def refused(action: Callable[[], object], name: str) -> None:
    said = ""
    try:
        action()
    except ClosedError as error:
        said = str(error)
    assert f"{name}() was interrupted" in said, f"an interruption of {name} was not told: {said}"


class Scene:
    """A join with some tuples inside, what was pushed and handed out so far, and what is still to come."""

    def __init__(self, algorithm: str, **options: Any) -> None:
        self.join = new_join(algorithm, **options)
        self.pushed: dict[str, Rows] = {"r": [], "s": []}
        self.kept: list[int] = []
        self.late: list[int] = []
        self.seen: Pairs = Counter()
        for k in range(3):
            self.push("r", make_rows(10 * k, 10))
            self.push("s", make_rows(10 * k, 10))
        self.push("s", [(900, 0, 0), (901, 1, 1)], late=True)
        self.settle()

    def push(self, side: str, rows: Rows, late: bool = False) -> None:
        getattr(self.join, f"push_{side}")(batch(side, rows))
        if late:
            self.kept += [row[0] for row in rows]
        else:
            self.pushed[side] += rows

    def settle(self) -> None:
        """Waits until the workers have found what there is, so that a poll has something to hand out."""
        if kind != "inner":  # what is decided later is not there yet
            return
        # Of a handshake join many tuples meet only when later ones push them on.
        wanted = sum(nested_loop(**self.pushed).values()) if self.join.plan.algorithm != "handshake" else 1
        deadline = time.monotonic() + PATIENCE / 2
        while self.join.stats()["results"] < wanted and time.monotonic() < deadline:
            time.sleep(0.0005)

    def failed(self, name: str, more: Pairs) -> None:
        """The join has said that it failed: everybody is told, and what was handed out is right."""
        join = self.join
        for action in (
            lambda: join.push_r(batch("r", make_rows(500, 3))),
            lambda: join.advance(r=5),
            lambda: list(join.poll()),
        ):
            refused(action, name)
        elsewhere(lambda: refused(lambda: join.push_s(batch("s", make_rows(500, 3))), name))
        refused(join.close, name)
        threads_are_gone()
        join.close()
        refused(lambda: list(join.poll()), name)
        elsewhere(join.stats)
        self.right(self.seen, more)

    def right(self, seen: Pairs, possible: Pairs) -> None:
        wrong = seen - possible
        assert not wrong, f"wrong or doubled: {wrong}"

    def completed(self) -> None:
        """The join goes on, from another thread too, and finds exactly what it should."""
        self.push("r", make_rows(60, 7))
        elsewhere(lambda: self.push("s", make_rows(60, 9)))
        self.late += [row for _, found in self.join.late() for row in found.column(0).to_pylist()]
        self.join.close()
        threads_are_gone()
        assert drain(self.join, self.seen) is None
        self.exact()

    def exact(self) -> None:
        wanted = nested_loop(**self.pushed)
        assert self.seen == wanted, f"missing {wanted - self.seen}, wrong or doubled {self.seen - wanted}"
        assert self.late == self.kept, f"late: {self.late} instead of {self.kept}"


# Operations: each takes a scene, a way to interrupt, and returns what was seen, or None if it came to its end.
Interrupt = Callable[[Callable[[], object]], bool]


def pushing(side: str, rows: Rows, late: Rows) -> Callable[[Scene, Interrupt], str | None]:
    """A push is there as a whole, or not at all, which `stats` tells; or the join has failed."""

    def play(scene: Scene, interrupt: Interrupt) -> str | None:
        join = scene.join
        push = getattr(join, f"push_{side}")
        given = batch(side, [*rows, *late])
        before = join.stats()[side]
        possible = nested_loop(**{**scene.pushed, side: scene.pushed[side] + rows})
        if not interrupt(lambda: push(given)):
            scene.pushed[side] += rows
            scene.kept += [row[0] for row in late]
            scene.completed()
            return None
        said = drain(join, scene.seen)
        if said is not None:
            scene.failed(f"push_{side}", possible)
            return "failed"
        after = join.stats()[side]
        taken = after["pushed"] - before["pushed"], after["late"] - before["late"]
        if taken == (0, 0):
            push(given)
        else:
            assert taken == (len(rows), len(late)), taken
        scene.pushed[side] += rows
        scene.kept += [row[0] for row in late]
        scene.completed()
        return "whole" if taken != (0, 0) else "nothing"

    return play


def advancing(scene: Scene, interrupt: Interrupt) -> str | None:
    ended = not interrupt(lambda: scene.join.advance(r=14, s=14))
    if drain(scene.join, scene.seen) is not None:
        scene.failed("advance", nested_loop(**scene.pushed))
        return "failed"
    scene.join.advance(r=14, s=14)
    scene.completed()
    return None if ended else "nothing"


def polling(into_a_list: bool) -> Callable[[Scene, Interrupt], str | None]:
    def play(scene: Scene, interrupt: Interrupt) -> str | None:
        def poll() -> None:
            if into_a_list:  # which is lost if it is not completed
                found = list(scene.join.poll(0.01))
                scene.seen.update(pair for some in found for pair in pairs_of(some))
            else:
                for some in scene.join.poll(0.01):
                    scene.seen.update(pairs_of(some))

        ended = not interrupt(poll)
        if drain(scene.join, scene.seen) is not None:
            scene.failed("poll", nested_loop(**scene.pushed))
            return "failed"
        scene.completed()
        return None if ended else "nothing"

    return play


def handing_back(scene: Scene, interrupt: Interrupt) -> str | None:
    def late() -> None:
        found = scene.join.late()
        scene.late += [row for _, some in found for row in some.column(0).to_pylist()]

    ended = not interrupt(late)
    if drain(scene.join, scene.seen) is not None:
        scene.failed("late", nested_loop(**scene.pushed))
        return "failed"
    scene.completed()
    return None if ended else "nothing"


def closing(scene: Scene, interrupt: Interrupt) -> str | None:
    scene.late += [row for _, found in scene.join.late() for row in found.column(0).to_pylist()]
    ended = not interrupt(scene.join.close)
    said = ""
    try:
        scene.join.close()
    except ClosedError as error:
        said = str(error)
    if said:
        assert "close() was interrupted" in said, said
        threads_are_gone()
        assert "close() was interrupted" in str(drain(scene.join, scene.seen))
        scene.join.close()
        elsewhere(scene.join.stats)
        scene.right(scene.seen, nested_loop(**scene.pushed))
        return "failed"
    threads_are_gone()
    assert drain(scene.join, scene.seen) is None
    scene.exact()
    return None if ended else "nothing"


OPERATIONS: dict[str, Callable[[Scene, Interrupt], str | None]] = {
    "push": pushing("r", make_rows(30, 6), []),
    "long push": pushing("s", make_rows(30, 6, null=True), [(902, 0, 0)]),
    "advance": advancing,
    "poll": polling(False),
    "poll into a list": polling(True),
    "late": handing_back,
    "close": closing,
}


def run_operations(algorithm: str, every: int, opcodes: bool, only: str, offset: int, **options: Any) -> Counter[str]:
    seen: Counter[str] = Counter()
    for name, play in OPERATIONS.items():
        if only and name != only:
            continue
        at = offset % every
        outcome: str | None = ""
        while outcome is not None:
            scene = Scene(algorithm, **options)
            try:
                outcome = play(scene, partial(interrupted, at=at, opcodes=opcodes))
            except BaseException:
                print(f"{algorithm} {options}: {name} interrupted at step {at}", file=sys.stderr)
                raise
            seen[f"{name}: {outcome or 'ended'}"] += 1
            at += every
    return seen


def run_constructions(algorithm: str, every: int, opcodes: bool, offset: int) -> Counter[str]:
    """A construction that was interrupted leaves nothing behind, and the next one works."""
    seen: Counter[str] = Counter()
    at = offset % every
    held: list[Any] = []
    while interrupted(lambda: held.append(new_join(algorithm)), at, opcodes, inside="/"):
        if held:  # it came to its end
            held.pop().close()
        threads_are_gone()
        seen["construction: nothing"] += 1
        at += every
    held.pop().close()
    Scene(algorithm).completed()
    return seen


@contextlib.contextmanager
def small_tapes() -> Iterator[None]:
    """Tapes that grow after a thousand tuples."""
    from streamjoin.access import tape
    from streamjoin.threads import driver

    before = driver.FIRST_ROOM, driver.UNDER_WAY, tape.CHUNK
    driver.FIRST_ROOM, driver.UNDER_WAY, tape.CHUNK = 64, 64, 64
    yield
    driver.FIRST_ROOM, driver.UNDER_WAY, tape.CHUNK = before


def run_growth(algorithm: str, every: int, opcodes: bool, offset: int) -> Counter[str]:
    """A push during which a tape grows, which stops and starts the workers."""
    seen: Counter[str] = Counter()
    rows: Rows = [(i, 15, i) for i in range(100, 2300)]  # few of them match
    play = pushing("r", rows, [])
    at = offset % every
    outcome: str | None = ""
    with small_tapes():
        while outcome is not None:
            outcome = play(Scene(algorithm), partial(interrupted, at=at, opcodes=opcodes))
            seen[f"growing push: {outcome or 'ended'}"] += 1
            at += every
    return seen


def run_twice(algorithm: str, every: int, opcodes: bool, offset: int) -> Counter[str]:
    """A push or a close is interrupted, then the close() after it, then there is another close()."""
    seen: Counter[str] = Counter()
    first = offset % every
    more = True
    while more:
        more = False
        for operation in ("push", "close"):
            second, twice = (offset + first) % every, True
            while twice:
                scene = Scene(algorithm)
                join = scene.join
                push = partial(join.push_r, batch("r", make_rows(30, 6)))
                once = interrupted(push if operation == "push" else join.close, first, opcodes)
                more |= once
                if not once:
                    join.close()
                    threads_are_gone()
                    break
                try:
                    twice = interrupted(join.close, second, opcodes)
                except ClosedError:
                    twice = False
                with contextlib.suppress(ClosedError):
                    join.close()
                join.close()
                threads_are_gone()
                drain(join, scene.seen)
                pushed = {"r": scene.pushed["r"] + make_rows(30, 6), "s": scene.pushed["s"]}
                scene.right(scene.seen, nested_loop(**pushed))
                elsewhere(join.stats)
                seen["twice"] += 1
                second += every
        first += every
    return seen


def run_tables(algorithm: str, every: int, opcodes: bool, offset: int) -> Counter[str]:
    """Whole tables through workers: an interruption leaves no thread behind."""
    seen: Counter[str] = Counter()
    rows = make_rows(0, 60)
    r, s = (pa.Table.from_batches([batch(side, rows)]) for side in "rs")
    options: dict[str, Any] = {} if algorithm in ("kang", "hells") else {"workers": 2}
    results: list[Any] = []

    def join() -> None:
        results.append(sj.join(r, s, on="r.x = s.x", within=WINDOW, time="t", algorithm=algorithm, **options))

    at = offset % every
    while interrupted(join, at, opcodes, inside="/"):
        threads_are_gone()
        seen["tables: nothing"] += 1
        at += every
    assert Counter(pairs_of(results[-1])) == nested_loop(rows, rows)
    return seen


def run_signals(algorithm: str, rounds: int, seed: int) -> Counter[str]:
    """Signals at random moments, in our code and in everybody else's below it."""
    seen: Counter[str] = Counter()
    chance = random.Random(seed)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    steps = [(side, make_rows(6 * k, 6, null=k % 3 == 2)) for k in range(12) for side in "rs"]
    batches = [(side, batch(side, rows)) for side, rows in steps]
    longest = 60.0
    for _ in range(5):  # the first ones compile and load
        started = time.perf_counter()
        with new_join(algorithm) as join:
            for side, given in batches:
                getattr(join, f"push_{side}")(given)
        longest = min(longest, (time.perf_counter() - started) * 1.2)
    for _ in range(rounds):
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        held: list[sj.Join] = []
        found: list[Any] = []
        try:
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, longest), 0)
            held.append(new_join(algorithm))
            for side, given in batches:
                getattr(held[0], f"push_{side}")(given)
                found.extend(held[0].poll())
            held[0].close()
            signal.setitimer(signal.ITIMER_REAL, 0)
            outcome = "ended"
        except KeyboardInterrupt:
            outcome = "interrupted"
        signal.setitimer(signal.ITIMER_REAL, 0)
        if outcome == "interrupted":
            # Sometimes a second one, into whatever follows.
            if held and chance.random() < 0.3:
                try:
                    signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, 2e-3), 0)
                    held[0].close()
                except (KeyboardInterrupt, ClosedError):
                    pass
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
        if not held:
            gc.collect()
            threads_are_gone()
            seen["no join"] += 1
            continue
        seen[after_a_signal(held[0], batches, steps, found)] += 1
    faulthandler.cancel_dump_traceback_later()
    return seen


def after_a_signal(join: sj.Join, batches: list[Any], steps: list[Any], found: list[Any]) -> str:
    """Goes on where the join says it is, or hears of the failure."""
    everything = {side: [row for one, rows in steps if one == side for row in rows] for side in "rs"}
    outcome, said = "whole", ""
    try:
        counts = {side: join.stats()[side]["pushed"] for side in "rs"}
        for k, (side, given) in enumerate(batches):
            before = sum(len(rows) for one, rows in steps[:k] if one == side)
            if counts[side] <= before:
                getattr(join, f"push_{side}")(given)
        join.close()
        found.extend(join.poll())
    except ClosedError as error:
        said = str(error)
    if said:
        with contextlib.suppress(ClosedError):
            join.close()
        try:
            found.extend(join.poll())
            # It was closed as a whole before all was pushed: the second signal came too late.
            assert "the join is closed" in said, said
            everything = {side: everything[side][: join.stats()[side]["pushed"]] for side in "rs"}
        except ClosedError as error:
            outcome, said = "failed", str(error)
        assert outcome == "whole" or "was interrupted" in said, said
    threads_are_gone()
    got = Counter(pair for some in found for pair in pairs_of(some))
    wanted = nested_loop(**everything)
    assert not got - wanted, f"wrong or doubled: {got - wanted}"
    assert outcome == "failed" or got == wanted, f"missing: {wanted - got}"
    elsewhere(join.stats)
    return outcome


def run_blocked(algorithm: str) -> Counter[str]:
    """A push waits for workers, who wait for a collector that does not move: Ctrl-C comes through at once."""
    from streamjoin.results.output import Output

    go_on, real = threading.Event(), Output.pairs

    def stuck(self: Output, r: Any, s: Any) -> None:
        go_on.wait()
        real(self, r, s)

    rows: dict[str, Rows] = {side: [(i, 0, 0) for i in range(3000)] for side in "rs"}
    with new_join(algorithm, on="TRUE") as join:  # compiles what is needed
        join.push_r(batch("r", rows["r"][:600]))
        join.push_s(batch("s", rows["s"][:600]))
    Output.pairs = stuck  # type: ignore[method-assign]
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    join = new_join(algorithm, on="TRUE")
    given = [batch(side, rows[side]) for side in "rs"]
    faulthandler.dump_traceback_later(PATIENCE / 4, exit=True)
    started = time.perf_counter()
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    try:
        join.push_r(given[0])
        while True:
            join.push_s(given[1])
    except KeyboardInterrupt:
        took = time.perf_counter() - started - 1.0
    Output.pairs = real  # type: ignore[method-assign]
    go_on.set()
    assert took < 1.0, took
    pushed = {side: join.stats()[side]["pushed"] for side in "rs"}
    assert pushed["r"] == 3000 >= pushed["s"], f"it was not blocked: {pushed}"
    refused(join.close, "push_s")
    threads_are_gone()
    return Counter({"blocked: failed": 1})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["lines", "opcodes", "twice", "signals", "tables", "blocked"])
    parser.add_argument("algorithms")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--kind", default="inner", choices=KINDS)
    given = parser.parse_args()
    global kind, WINDOW
    kind = given.kind
    if kind != "inner":
        WINDOW = 4  # so that rows are decided before the end
    seen: Counter[str] = Counter()
    opcodes = given.mode == "opcodes"
    steps = given.every, opcodes, given.offset
    for algorithm in given.algorithms.split(","):
        gc.collect()
        if given.mode in ("lines", "opcodes"):
            seen += run_operations(algorithm, given.every, opcodes, given.only, given.offset)
            if given.only:
                continue
            seen += run_constructions(algorithm, *steps)
            if algorithm not in ("kang", "hells"):
                seen += run_growth(algorithm, 5 * given.every, opcodes, given.offset)
        elif given.mode == "twice":
            seen += run_twice(algorithm, *steps)
        elif given.mode == "tables":
            seen += run_tables(algorithm, *steps)
        elif given.mode == "signals":
            seen += run_signals(algorithm, given.rounds, given.seed)
        else:
            seen += run_blocked(algorithm)
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps(dict(sorted(seen.items()))))


if __name__ == "__main__":
    main()
