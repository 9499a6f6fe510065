"""The circuit as C++ (yosys cxxrtl), where there is a compiler: the trace of Amaranth's simulator, faster.

Either the circuit as it is described, or the cells of a family of chips that synthesis makes of it.
"""

from __future__ import annotations

import importlib.util
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from streamjoin.circuit.build import CIRCUIT, flat_text, text_of
from streamjoin.circuit.chips import BLOCK_RAM, Family
from streamjoin.circuit.core import Design
from streamjoin.circuit.cycles import COUNTS, STILL
from streamjoin.circuit.simulate import Steps
from streamjoin.circuit.tools import YOSYS, compiler, limited, run
from streamjoin.codegen.records import Array
from streamjoin.errors import CircuitError, OptionError

SCRIPT = """\
read_rtlil circuit.il
hierarchy -top {top} -check
proc
flatten
write_cxxrtl -O6 -g0 circuit.cc
"""
# Every net between cells gets its own name; nothing inside a cell has one. So debug items are nets.
GATES = """\
read_rtlil circuit.il
hierarchy -top {top} -check
{command} -top {top} -noflatten
flatten
splitnets
opt_clean -purge
rename -hide c:* w:* i:* %d o:* %d
rename -enumerate -pattern net_% w:$*
design -copy-to gates {top}
design -load gates
read_verilog -overwrite {models}
hierarchy -top {top}
proc
flatten
opt_clean
write_cxxrtl -O4 -g2 circuit.cc
"""
# Reads one record per step: moves of r and s, pause, both words. Writes one row per cycle, as the model does.
DRIVER = """\
#include "circuit.cc"
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>
template<size_t N> uint32_t *bits(cxxrtl::value<N> &v) { return v.data; }
template<size_t N> uint32_t *bits(cxxrtl::wire<N> &w) { return w.curr.data; }
static uint64_t number(const uint32_t *p, int from, int count) {
  uint64_t found = 0;
  for (int k = 0; k < count; k++) found |= (uint64_t)(p[(from + k) / 32] >> ((from + k) % 32) & 1) << k;
  return found;
}
int main() {
  const int words_r = @WORDS_R@, words_s = @WORDS_S@, payload_r = @PAYLOAD_R@, payload_s = @PAYLOAD_S@;
  int64_t head[3];
  FILE *in = fopen("steps.bin", "rb"), *out = fopen("trace.bin", "wb");
  if (!in || !out || fread(head, 8, 3, in) != 3) return 1;
  const int64_t steps = head[0], cycles = head[1], readies = head[2], each = 3 + words_r + words_s;
  std::vector<uint32_t> step(steps * each);
  std::vector<uint8_t> ready(readies);
  if (fread(step.data(), 4, step.size(), in) != step.size() || fread(ready.data(), 1, readies, in) != readies) return 1;
  cxxrtl_design::p_@TOP@ top;
  std::vector<int64_t> row(@COLUMNS@);
  int64_t taken = 0, pause = -1;
@BEGIN@
  auto began = std::chrono::steady_clock::now();
  top.step();
  for (int64_t cycle = 0; cycle < cycles; cycle++) {
    bool offered = false;
    const uint32_t *now = nullptr;
    if (taken < steps) {
      now = &step[taken * each];
      if (pause < 0) pause = now[2];
      offered = pause == 0;
      if (pause > 0) pause--;
    }
    top.p_r__valid.set<bool>(offered && now[0]);
    top.p_s__valid.set<bool>(offered && now[1]);
    if (offered) {
      memcpy(bits(top.p_r), now + 3, 4 * words_r);
      memcpy(bits(top.p_s), now + 3 + words_r, 4 * words_s);
    }
    top.p_out__ready.set<bool>(ready[cycle % readies]);
    top.p_clk.set<bool>(false);
    top.step();
    row[0] = bits(top.p_ready)[0];
    row[1] = @THROTTLE@;
    row[2] = bits(top.p_out__valid)[0];
    row[3] = row[4] = -1;
    if (row[2]) {
      row[3] = number(bits(top.p_out), 0, payload_r);
      row[4] = number(bits(top.p_out), payload_r, payload_s);
    }
@COUNTS@
@EACH@
    if (offered && row[0]) { taken++; pause = -1; }
    top.p_clk.set<bool>(true);
    top.step();
  }
  printf("%.6f\\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
@END@
  return fclose(out);
}
"""


TRACE = {"BEGIN": "", "EACH": "    fwrite(row.data(), 8, row.size(), out);", "END": ""}
# Counts the nets that change from one cycle to the next, when they have settled.
ACTIVITY = {
    "BEGIN": """\
  cxxrtl::debug_items items;
  top.debug_info(&items, nullptr, "");
  std::vector<std::pair<const uint32_t *, size_t>> nets;
  size_t size = 0;
  for (auto &entry : items.table)
    for (auto &part : entry.second)
      if (part.type == cxxrtl::debug_item::WIRE || part.type == cxxrtl::debug_item::VALUE) {
        nets.push_back({part.curr, (part.width + 31) / 32});
        size += (part.width + 31) / 32;
      }
  std::vector<uint32_t> before(size);
  uint64_t toggles = 0;""",
    "EACH": """\
    size_t at = 0;
    for (auto &part : nets)
      for (size_t k = 0; k < part.second; k++, at++) {
        if (cycle > @FROM@) toggles += __builtin_popcount(before[at] ^ part.first[k]);
        before[at] = part.first[k];
      }""",
    "END": """\
  printf("%zu nets, %llu toggles\\n", nets.size(), (unsigned long long)toggles);""",
}


@dataclass(frozen=True)
class Native:
    """The trace of a compiled circuit, and how long it took."""

    trace: Array
    compile_seconds: float
    cycles_per_s: float


def native_trace(
    design: Design, steps: Steps, cycles: int, limit: float = 600.0, family: Family | None = None
) -> Native:
    """What the circuit shows in each cycle, compiled from C++.

    Of a family's cells nothing but the ports can be seen: throttle and the entries of FIFOs are 0.
    """
    with tempfile.TemporaryDirectory(prefix="streamjoin-circuit-") as name:
        folder = Path(name)
        began = time.perf_counter()
        _compile(design, folder, TRACE, limit, family)
        compiled = time.perf_counter() - began
        _write_steps(folder / "steps.bin", design, steps, cycles)
        done = limited(["./circuit"], folder, limit, "the compiled circuit")
        trace = np.fromfile(folder / "trace.bin", np.int64).reshape(cycles, -1)
    return Native(trace, compiled, cycles / max(float(done.output), 1e-9))


def activity(design: Design, steps: Steps, first: int, cycles: int, family: Family, limit: float = 600.0) -> float:
    """How many nets between a family's cells change per cycle, on average from a cycle on."""
    with tempfile.TemporaryDirectory(prefix="streamjoin-circuit-") as name:
        folder = Path(name)
        _compile(design, folder, {**ACTIVITY, "FROM": str(first)}, limit, family)
        _write_steps(folder / "steps.bin", design, steps, cycles)
        done = limited(["./circuit"], folder, limit, "the compiled circuit")
    counted = re.search(r"(\d+) nets, (\d+) toggles", done.output)
    assert counted is not None and int(counted[1]), done.output
    return int(counted[2]) / (cycles - 1 - first)


def _compile(design: Design, folder: Path, hooks: dict[str, str], limit: float, family: Family | None) -> None:
    """Makes the program `circuit`, which reads steps.bin."""
    if family is None:
        text, script = flat_text(design), SCRIPT.format(top=CIRCUIT)
    elif design.memory == BLOCK_RAM and not family.block_ram_model:
        raise OptionError(f'yosys has no model of the block RAM of {family.name}; use another memory, or device "hx8k"')
    else:
        family.check(design.memory)
        text = text_of(design, shell=False)
        script = GATES.format(top=CIRCUIT, command=family.synthesis, models=family.models)
    make_program(text, script, _driver(design, hooks, family), folder, limit, quick=family is None)


def make_program(text: str, script: str, driver: str, folder: Path, limit: float, quick: bool) -> None:
    """Makes the program `circuit` of RTLIL, a script that makes C++ of it, and what drives that.

    `quick`: the program, not its making; an optimising compiler takes minutes for the cells of a few cores.
    """
    found = compiler()
    if found is None:
        raise CircuitError("there is no C++ compiler (c++, g++, clang++) to run the circuit with; leave --native out")
    (folder / "circuit.il").write_text(text)
    (folder / "cxxrtl.ys").write_text(script)
    run(YOSYS, ["-q", "cxxrtl.ys"], folder, limit)
    (folder / "main.cc").write_text(driver)
    words = [found, "-O2" if quick else "-O0", "-std=c++14", "-I", str(_runtime()), "main.cc", "-o", "circuit"]
    limited(words, folder, limit, "the C++ compiler")


def _driver(design: Design, hooks: dict[str, str], family: Family | None) -> str:
    text, fifos = DRIVER, design.chain.leaves + len(design.chain.mergers)
    counts = [f"    row[{COUNTS + k}] = bits(top.p_count__{k})[0];" for k in range(fifos)]
    for name, value in {
        **hooks,
        "WORDS_R": -(-design.r.width // 32),
        "WORDS_S": -(-design.s.width // 32),
        "PAYLOAD_R": design.r.payload,
        "PAYLOAD_S": design.s.payload,
        "TOP": CIRCUIT,
        "COLUMNS": COUNTS + fifos,
        "COUNTS": "" if family else "\n".join(counts),
        "THROTTLE": "0" if family else "bits(top.p_throttle)[0]",
    }.items():
        text = text.replace(f"@{name}@", str(value))
    return text


def _runtime() -> Path:
    """Where cxxrtl's headers are."""
    spec = importlib.util.find_spec(YOSYS)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "share" / "include" / "backends" / "cxxrtl" / "runtime"


def _write_steps(file: Path, design: Design, steps: Steps, cycles: int) -> None:
    words_r, words_s = -(-design.r.width // 32), -(-design.s.width // 32)
    rows = np.zeros((len(steps.r), 3 + words_r + words_s), np.uint32)
    rows[:, 0], rows[:, 1], rows[:, 2] = steps.r != STILL, steps.s != STILL, steps.pause
    for side, layout, first, count in ((0, design.r, 3, words_r), (1, design.s, 3 + words_r, words_s)):
        for k, word in enumerate(steps.words(side, layout)):
            rows[k, first : first + count] = [word >> 32 * part & 0xFFFFFFFF for part in range(count)]
    with file.open("wb") as out:
        out.write(np.array([len(steps.r), cycles, len(steps.ready)], np.int64).tobytes())
        out.write(rows.tobytes())
        out.write(steps.ready.astype(np.uint8).tobytes())
