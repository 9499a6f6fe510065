"""The same scan in C with AVX2 by hand, as a yardstick. Without a C compiler and a checkout there is no figure."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from streamjoin.errors import StreamjoinError
from streamjoin.papers import HALF_WIDTH, Array

SOURCE = Path(__file__).parents[3] / "benchmarks" / "scan.c"
ROUNDS = 5


def reference_scan(r: tuple[Array, Array, Array], s: tuple[Array, Array, Array], pairs: int) -> float | None:
    """Comparisons per second of the C scan, or None if it cannot be built here."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not SOURCE.exists():
        return None
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "scan.so"
        command = [compiler, "-O3", "-march=native", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
        if subprocess.run(command, capture_output=True).returncode:
            return None
        function = ctypes.CDLL(str(library)).band_scan
    function.restype = ctypes.c_int64
    columns = [np.ascontiguousarray(column, np.float32) for column in (r[1], r[2], s[1], s[2])]
    out = np.empty((2, max(2 * pairs, 1 << 20)), np.int64)
    pointers = [column.ctypes.data_as(ctypes.POINTER(ctypes.c_float)) for column in columns]
    target = out.ctypes.data_as(ctypes.POINTER(ctypes.c_int64))
    sizes = ctypes.c_int64(len(columns[0])), ctypes.c_int64(len(columns[2])), ctypes.c_int64(out.shape[1])
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        found = function(*pointers, ctypes.c_float(HALF_WIDTH), *sizes, target)
        best = min(best, time.perf_counter() - start)
    if abs(found - pairs) > max(4, pairs // 100):  # it computes in single precision throughout
        raise StreamjoinError(f"the C reference found {found} pairs, the scan {pairs}")
    return len(columns[0]) * len(columns[2]) / best
