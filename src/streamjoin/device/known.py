"""Known answers: a device serves only if generated kernels find on it what NumPy finds.

Drivers have returned wrong bits without an error, and have ended the process (see docs/decisions/0016). So before the
first join of a process its device compares a few thousand pairs by kernels of the generator that writes the real ones:
every comparison of every type, arithmetic, window, boxes, key hashes and the report of an overflow, either side
probing. The first time on a machine a process of its own goes ahead, so that a crash is an error and not the end.

    python -m streamjoin.device.known         "answer: " and all devices as JSON
    python -m streamjoin.device.known 1 0     "answer: " and what is wrong with device 0 after device 1 was tried
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from streamjoin.algorithms.hells import WORD, placement
from streamjoin.codegen.records import Array
from streamjoin.device.buffers import Bitmap, Window, stage
from streamjoin.device.build import built, context_of
from streamjoin.device.devices import denormals, describe, devices, opencl
from streamjoin.device.opencl_text import GROUP, HEAD, Source, together
from streamjoin.device.questions import Question, Rows, questions
from streamjoin.errors import DeviceError
from streamjoin.folders import kept
from streamjoin.interrupts import Section
from streamjoin.predicate.tree import OTHER

PATIENCE = 120  # seconds for a separate process, in which nothing may be compiled yet
ANSWER = "answer: "  # drivers print, too


@lru_cache(maxsize=4)
def _asked(doubles: bool, denormals: bool) -> tuple[list[Question], list[Source], str]:
    asked = questions(doubles, denormals)
    sources = [Source(question.program) for question in asked]
    return asked, sources, together(sources)


def _of(device: Any) -> tuple[list[Question], list[Source], str]:
    return _asked(bool(device.double_fp_config), denormals(device))


def wrong(device: Any) -> str:
    """What this device computes wrongly, in this process; nothing if all answers are right."""
    asked, sources, text = _of(device)
    try:
        program = built(device, text)
        context = context_of(device)
        for k, (question, source) in enumerate(zip(asked, sources, strict=True)):
            for probing in "rs":
                if fault := _fault(context, device, program, k, question, source, probing):
                    return f"wrong results for {fault}, {probing} probing"
    except Exception as error:  # drivers raise anything
        return f"{type(error).__name__}: {error}"
    return ""


def _fault(context: Any, device: Any, program: Any, k: int, question: Question, source: Source, probing: str) -> str:
    """What one comparison answers otherwise than NumPy. Stored rows come in two batches, by the adding kernel."""
    cl, stored = opencl(), OTHER[probing]
    columns = {side: _columns(source, question.rows[side], side) for side in "rs"}
    m, n = len(columns[stored][0]), len(columns[probing][0])
    queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    where = placement(device.host_unified_memory, "auto")
    window = Window(context, queue, source.stored(stored), cl.Kernel(program, f"add_{stored}_{k}"), where, m)
    for rows in (slice(0, 50), slice(50, m)):
        batch = [column[rows] for column in columns[stored]]
        window.add(stage(context, source.staged(stored), batch), batch[:-2], batch[0])
    ((arrays, place, _, count),) = window.parts(1 << 20)
    bitmap = Bitmap(context, queue, where == "host")
    bitmap.make_room(count * n)
    kernel = cl.Kernel(program, f"compare_{probing}_{k}")
    begin, end = 1, m - 1
    probes = stage(context, source.staged(probing), columns[probing])
    numbers = np.int32(0), np.int32(n), np.uint32(place), np.uint32(count), np.int32(begin), np.int32(end)
    kernel.set_args(probes, *numbers, bitmap.buffer, *arrays)
    cl.enqueue_nd_range_kernel(queue, kernel, (-(-count // GROUP) * GROUP,), (GROUP,))
    words, ready = bitmap.fetch(count * n)
    ready.wait()
    found = np.array(words, np.uint32)
    bitmap.give_back()
    queue.finish()
    if question.code:
        probe, position = (7, 41) if probing == "r" else (41, 7)
        return "" if found[:3].tolist() == [question.code, probe, position] else f"an overflow in {question.text}"
    bits = np.unpackbits(found[HEAD:].reshape(count, n, 1).view(np.uint8), axis=2, bitorder="little")
    truth = bits.transpose(1, 0, 2).reshape(n, count * WORD)[:, :m].astype(np.bool_)
    differ = truth != _wanted(question, columns, probing, slice(begin, end))
    if found[0] or not differ.any():
        return f"an overflow that is none in {question.text[:60]}" if found[0] else ""
    row = np.argwhere(differ if probing == "r" else differ.T)[0, 0]
    return question.cases[question.rows["r"]["op"][row]] if question.cases else question.text


def _wanted(question: Question, columns: dict[str, list[Array]], probing: str, live: slice) -> Array:
    """The truth of all pairs by NumPy, a line for each probe."""
    r, s = question.rows["r"], question.rows["s"]
    with np.errstate(all="ignore"):
        truth = question.answer({c: v[:, None] for c, v in r.items()}, {c: v[None, :] for c, v in s.items()})
    truth = np.asarray(truth, np.bool_)
    if "key" in r:
        truth = truth & (r["key"][:, None] == s["key"][None, :])
        for d in range(2):
            truth &= (r[f"lo{d}"][:, None] <= s[f"hi{d}"]) & (r[f"hi{d}"][:, None] >= s[f"lo{d}"])
    truth = truth if probing == "r" else truth.T
    at, (since, until) = columns[OTHER[probing]][0], columns[probing][-2:]
    truth = truth & (at >= since[:, None]) & (at <= until[:, None])
    inside = np.zeros(len(at), np.bool_)
    inside[live] = True
    return np.asarray(truth & inside)


def _columns(source: Source, rows: Rows, side: str) -> list[Array]:
    """The rows as a side's staged arrays: a place each, of which a probe reaches all but a few."""
    count = len(next(iter(rows.values())))
    at = np.arange(count, dtype=np.int64) + 2**40
    made = {"at": at, "since": np.full(count, 2**40 + 2), "until": np.full(count, 2**40 + 10**6)}
    made["until"][::5] = 2**40 + 60
    parts = source.parts(side)
    found = []
    for field in source.staged(side):
        if field.name in parts:
            column, role = parts[field.name]
            values = rows[column] if role == "value" else rows.get(f"{column} valid", np.ones(count))
        else:
            values = made[field.name] if field.name in made else rows[field.name]
        found.append(np.ascontiguousarray(values, field.dtype))
    return found


_asking = Section()
_told: dict[Any, str] = {}
_tried: list[int] = []  # in this process: two drivers can be right alone and crash together


def why_unfit(index: int, device: Any) -> str:
    """Why this device must not be used, or nothing. Asked once per process; in one of its own the first time here."""
    return str(_asking.run(_fault_of, index, device))


def _fault_of(index: int, device: Any) -> str:
    if device not in _told:
        folder, name = kept("devices"), f"{_identity([*_tried, index])}.passed"
        reason = "" if folder.read(name) is not None else apart(*_tried, index)
        if not reason:
            _tried.append(index)
            reason = wrong(device)
        if not reason:
            folder.keep(name)  # else the next process asks again
        _told[device] = reason
    return _told[device]


def _identity(indices: list[int]) -> str:
    """Of everything that an answer depends on: kernels, drivers and processor."""
    told = [platform.machine(), _processor()]
    for device in (devices()[index] for index in indices):
        told += [device.name, device.version, device.driver_version, device.platform.version, _of(device)[2]]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:24]


def _processor() -> str:
    """Its name and its capabilities, where the driver reports them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))


def apart(*indices: int) -> str:
    """What is wrong with the last of these devices, tested in a separate process, since a driver may crash."""
    return str(_process(*map(str, indices)))


def listed_apart() -> list[dict[str, Any]] | str:
    """All devices as `devices.describe` shows them, or a text that says why they cannot be listed."""
    found: list[dict[str, Any]] | str = _process()
    return found


def _process(*arguments: str) -> Any:
    if not sys.executable:
        return ""  # Python inside another program: nothing to start
    # -P: what lies in the working directory is not imported unless it was here.
    command = [sys.executable, "-P", "-m", "streamjoin.device.known", *arguments]
    paths = [path for path in sys.path if path] + [str(Path(__file__).parents[2])]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    try:
        done = subprocess.run(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {PATIENCE} s"
    except OSError as error:
        return f"no process could be started to try it in: {error}"
    answers = [line.removeprefix(ANSWER) for line in done.stdout.splitlines() if line.startswith(ANSWER)]
    if done.returncode == 0 and answers:
        return json.loads(answers[0])
    *_, said = ["", *(line.strip() for line in done.stderr.splitlines() if line.strip())]
    return f"it ended the process ({_ending(done.returncode)}){': ' if said else ''}{said[:200].rstrip('.')}"


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _answer(indices: list[int]) -> Any:
    try:
        found = devices()
    except DeviceError as error:
        return str(error)
    if not indices:
        return [describe(device) for device in found]
    return [wrong(found[index]) for index in indices][-1]


if __name__ == "__main__":
    print(ANSWER + json.dumps(_answer([int(word) for word in sys.argv[1:]])))
