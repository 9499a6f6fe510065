"""Puts machine code of the kernels into a wheel, so that the first join on a machine need not compile them.

Only if STREAMJOIN_SHIP is set, as `make wheel` does: it takes a minute or two and needs the dependencies installed.
The code is for every x86-64 processor of the third level (AVX2), for this version of Python, Numba and LLVM. Elsewhere
`streamjoin.codegen.jit` compiles, as it does for wheels without such code.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ShippedKernels(BuildHookInterface):  # type: ignore[type-arg]
    """Compiles into a folder of its own and has it included."""

    folder: str | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable" or not os.environ.get("STREAMJOIN_SHIP"):
            return
        self.folder = tempfile.mkdtemp(prefix="streamjoin-kernels-")
        target = {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": ""}
        places = {"STREAMJOIN_CACHE": self.folder, "PYTHONPATH": str(Path(self.root, "src"))}
        subprocess.run([sys.executable, "-m", "streamjoin", "warm"], env={**os.environ, **target, **places}, check=True)
        build_data["force_include"][str(Path(self.folder, "kernels"))] = "streamjoin/shipped"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder)
