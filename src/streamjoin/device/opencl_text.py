"""The OpenCL C of a join: for either side, a kernel that adds its tuples and one that compares them with the other's.

    compare   one work item: 32 stored tuples against a batch of probes, one 32-bit word of results for each probe
    add       one work item: one tuple, from the staged batch to its place in the window

A batch is staged in one piece of memory that begins with the places of its arrays. Most stored tuples are ruled out by
their boxes and key hashes, 32 at a time; what is left is asked for window and predicate, four at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamjoin.algorithms.hells import WORD
from streamjoin.codegen.opencl import HELPERS, HELPERS_DOUBLE, LANES, Translator
from streamjoin.codegen.program import Program
from streamjoin.errors import PredicateError
from streamjoin.predicate.operations import is_exact
from streamjoin.predicate.tree import OTHER, brief, walk

HEAD = 16  # words before the results: the fault that a comparison met
WIDE = 8  # tuples whose boxes and key hashes are looked at together: 256 bits of float
GROUP = 64  # work items that compare together
OPTIONS = ("-cl-std=CL1.2", "-cl-fp32-correctly-rounded-divide-sqrt", "-w")

_TYPES = {
    "f4": "float",
    "f8": "double",
    "b1": "uchar",
    "i1": "char",
    "i2": "short",
    "i4": "int",
    "i8": "long",
    "u4": "uint",
}
_QUICK = """\
    if (!any_near({quick[0]} | {quick[1]} | {quick[2]} | {quick[3]})) {{
      bitmap[HEAD + item * probes + p] = 0;
      continue;
    }}
"""
_COMPARE = """
kernel void compare_{side}(
    global const uchar *batch, const int first, const int probes,
    const uint word, const uint words, const int begin, const int end, global uint *bitmap,
    {arguments})
{{
  const size_t item = get_global_id(0);
  if (item >= words) return;
  global const ulong *places = (global const ulong *)batch;
{pointers}
  for (int p = 0; p < probes; p++) {{
    const int i = first + p;
    const size_t near0 = (word + item) * {nears};
{probe}{skip}    uint bits = 0;
    for (int k = 0; k < {nears}; k++) {{
      const int8 near = {one};
      if (!any_near(near)) continue;
      for (int part = 0; part < 2; part++) {{
        int4 m = part ? near.hi : near.lo;
        if (!any_of(m)) continue;
        const size_t g = (near0 + k) * 2 + part;
        const int at_bit = k * {wide} + part * {lanes};
        const int here = (int)item * {word} + at_bit;
        const int4 place = here + (int4)(0, 1, 2, 3);
        const long4 t = at[g];
        m &= (place >= begin) & (place < end) & convert_int4((t >= since[i]) & (t <= until[i]));
        if (!any_of(m)) continue;
{exact}
        bits |= bits_of(m) << at_bit;
      }}
    }}
    bitmap[HEAD + item * probes + p] = bits;
  }}
}}
"""
_ADD = """
kernel void add_{side}(
    global const uchar *batch, const uint first, const uint count, const uint place, const uint capacity,
    {arguments})
{{
  const uint k = get_global_id(0);
  if (k >= count) return;
  global const ulong *places = (global const ulong *)batch;
  const uint from = first + k;
  const uint to = (uint)(((ulong)place + k) % capacity);
{copies}
}}
"""
_REPORT = """
inline int any_near(int8 m) { ulong4 w = as_ulong4(m); ulong2 h = w.lo | w.hi; return (h.x | h.y) != 0; }
inline void report(global uint *bitmap, int4 lanes, uint code, int probe, int here) {
  uint b = bits_of(lanes);
  if (atomic_cmpxchg((volatile global uint *)bitmap, 0u, code) == 0u) {
    bitmap[1] = (uint)probe;
    bitmap[2] = (uint)here + popcount((b & -b) - 1u);
  }
}
"""


@dataclass(frozen=True)
class Field:
    """One array of a batch or window: its name in C and its type."""

    name: str
    dtype: np.dtype[np.generic]

    @property
    def c(self) -> str:
        return _TYPES[self.dtype.str[1:]]

    @property
    def quick(self) -> bool:
        """Is it looked at before window and predicate?"""
        return self.name == "key" or self.name[:2] in ("lo", "hi")


class Source:
    """The program text of a predicate, and which arrays its kernels read."""

    def __init__(self, program: Program) -> None:
        function = next((node for node in walk(program.analysis.tree) if node.op == "function"), None)
        if function is not None:
            raise PredicateError(
                f'algorithm="hells" cannot run the Python function {function.function.__name__} on a device; write the '
                'predicate as SQL text or as an expression of streamjoin.r and streamjoin.s, or use algorithm="grid"'
            )
        inexact = next((node for node in walk(program.analysis.tree) if not is_exact(node.op)), None)
        if inexact is not None:
            raise PredicateError(
                f'algorithm="hells" cannot compute {brief(inexact)} on a device: {inexact.op} may differ there in the '
                'last bit; compute it as a column before joining, or use algorithm="grid"'
            )
        self._program = program
        self._dims = program.scan_dims
        texts = [self._add(side) + self._compare(side) for side in "rs"]
        self.doubles = any("double" in text for text in texts)
        self.singles = any("float" in text for text in texts)
        self.kernels = "\n".join(texts)
        self.text = preamble(self.doubles) + self.kernels

    def stored(self, side: str) -> tuple[Field, ...]:
        """The arrays of a side's window."""
        boxes = [Field(f"{end}{d}", np.dtype(np.float32)) for d in range(self._dims) for end in ("lo", "hi")]
        key = [Field("key", np.dtype(np.uint32))] if self._program.keyed else []
        columns = [Field(f"w{k}", part.dtype) for k, part in enumerate(self._program.stored[side])]
        return (Field("at", np.dtype(np.int64)), *key, *boxes, *columns)

    def parts(self, side: str) -> dict[str, tuple[str, str]]:
        """Of which column, and which part of it, the arrays of the predicate's columns are."""
        return {f"w{k}": (part.column, part.role) for k, part in enumerate(self._program.stored[side])}

    def staged(self, side: str) -> tuple[Field, ...]:
        """The arrays of a side's batch: what goes into its window, and what it reaches in the other."""
        return (*self.stored(side), Field("since", np.dtype(np.int64)), Field("until", np.dtype(np.int64)))

    def _add(self, side: str) -> str:
        fields = self.stored(side)
        return _ADD.format(
            side=side,
            arguments=", ".join(f"global {f.c} *{f.name}" for f in fields),
            copies="\n".join(
                f"  {f.name}[to] = ((global const {f.c} *)(batch + places[{k}]))[from];" for k, f in enumerate(fields)
            ),
        )

    def _compare(self, side: str) -> str:
        stored = self.stored(OTHER[side])
        nears = WORD // WIDE
        pointers, probe = [], []
        for k, f in enumerate(self.staged(side)):
            name = f.name.replace("w", "p") if f.name[0] == "w" else f.name if f.name in ("since", "until") else ""
            if name:
                pointers.append(f"  global const {f.c} *{name} = (global const {f.c} *)(batch + places[{k}]);")
            elif f.name != "at":
                pointers.append(f"  global const {f.c} *probe_{f.name} = (global const {f.c} *)(batch + places[{k}]);")
                probe.append(f"    const {f.c} its_{f.name} = probe_{f.name}[i];\n")
        return _COMPARE.format(
            side=side,
            # As vectors: gathered by vload8 instead, they cost five times as much where vload8 is not made one load.
            arguments=", ".join(f"global const {f.c}{WIDE if f.quick else LANES} *{f.name}" for f in stored),
            pointers="\n".join(pointers),
            probe="".join(probe),
            skip=_QUICK.format(quick=[self._quick(f"near0 + {k}") for k in range(nears)]) if probe else "",
            one=self._quick("near0 + k") if probe else "(int8)(-1)",
            exact="\n".join(f"        {line}" for line in self._exact(side)),
            nears=nears,
            wide=WIDE,
            lanes=LANES,
            word=WORD,
        )

    def _quick(self, g: str) -> str:
        """May the eight tuples of vector g match at all? Their boxes must touch, their key hashes be the same."""
        tests = ["(key[%s] == its_key)"] if self._program.keyed else []
        for d in range(self._dims):
            tests += [f"(lo{d}[%s] <= its_hi{d})", f"(hi{d}[%s] >= its_lo{d})"]
        return "(" + " & ".join(test % g for test in tests) + ")"

    def _exact(self, side: str) -> list[str]:
        """Statements that clear the bits in m of pairs that do not match."""
        program = self._program
        pair = program.pair_code(side)
        types = {"p": side, "w": OTHER[side]}
        columns = {name: tuple(part.dtype for part in program.stored[of]) for name, of in types.items()}
        translator = Translator(columns)
        translator.statements(pair.lines)
        lines = translator.lines
        lines += [f"m &= {translator.truth(code)};" for code in pair.plain]
        for _, value in pair.costly:
            lines.append(f"m &= {translator.truth(f'{value.code} | ({value.bad})' if value.bad else value.code)};")
        for code, value in pair.costly:
            if value.bad:
                name = f"bad{code}"
                lines.append(f"const int4 {name} = m & {translator.truth(value.bad)};")
                lines.append(f"if (any_of({name})) report(bitmap, {name}, {code}u, i, here);")
                lines.append(f"m &= ~{name};")
        return lines


def together(sources: list[Source]) -> str:
    """One text for several predicates: the kernels of the k-th have names that end in _k."""
    texts = [preamble(any(source.doubles for source in sources))]
    for k, source in enumerate(sources):
        text = source.kernels
        for name in ("compare_r", "compare_s", "add_r", "add_s"):
            text = text.replace(f"void {name}(", f"void {name}_{k}(")
        texts.append(text)
    return "\n".join(texts)


def preamble(doubles: bool) -> str:
    """What stands before all kernels. Without double precision, what needs it is left out."""
    lines = ["#pragma OPENCL FP_CONTRACT OFF", f"#define HEAD {HEAD}", HELPERS, _REPORT]
    if doubles:
        lines[1:1] = ["#pragma OPENCL EXTENSION cl_khr_fp64 : enable"]
        lines.append(HELPERS_DOUBLE)
    return "\n".join(lines)
