"""`streamjoin warm`: compiles kernels in advance, so that a first join does not wait for them."""

from __future__ import annotations

import json
import sys
import time

from streamjoin.cli.parameters import AsJson
from streamjoin.folders import cache_folder


def warm(as_json: AsJson = False) -> None:
    """Compiles the kernels of all joins on this machine ahead, on all cores, and keeps them in the cache folder."""
    from streamjoin.warm import steps, warm

    started = time.perf_counter()

    def tell(name: str, done: int, steps: int) -> None:
        print(f"streamjoin: [{done}/{steps}] {name}, {time.perf_counter() - started:.0f} s", file=sys.stderr)

    compiled = warm(list(steps()), tell)
    seconds = time.perf_counter() - started
    if as_json:
        print(json.dumps({"compiled": compiled, "seconds": seconds, "folder": str(cache_folder())}))
    else:
        print(f"{compiled} functions compiled in {seconds:.0f} s, kept in {cache_folder()}")
