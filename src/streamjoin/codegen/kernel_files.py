"""Files with machine code: in the user's cache, or brought along by a wheel.

The user's cache has code for this very processor. `streamjoin/shipped`, which a wheel may bring along (see
`hatch_build.py`), has code for every x86-64 processor of the third level (AVX2). Every file begins with a checksum;
whatever is wrong with it, it is as good as missing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from streamjoin.folders import kept

Target = tuple[str, ...]  # as Numba names it: triple, processor, features

CHECKSUM = 32  # bytes
SHIPPED = Path(__file__).parent.parent / "shipped"  # as trustworthy as the code beside it
PORTABLE = "x86-64-v3"
LEVEL_3 = {"avx", "avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sahf", "sse4.2", "xsave"}


def keep(name: str, content: bytes) -> None:
    """Writes a file to the user's cache."""
    kept("kernels").keep(name, hashlib.sha256(content).digest(), content)


def read(target: Target, name: Callable[[Target], str]) -> Iterator[tuple[Target, memoryview]]:
    """The contents that may serve this target, each with the target that it was made for, the best one first.

    `name` is that of the file for a target.
    """
    found = kept("kernels").read(name(target), renew=1)
    if found is not None and _whole(found):
        yield target, memoryview(found)[CHECKSUM:]
    other = portable(target)
    found = None if other is None else _shipped(name(other))
    if other is not None and found is not None and _whole(found):
        yield other, memoryview(found)[CHECKSUM:]


def there(target: Target, name: Callable[[Target], str]) -> bool:
    """Is there a file that may serve this target?"""
    other = portable(target)
    shipped = other is not None and (SHIPPED / name(other)).exists()
    return shipped or Path(kept("kernels").path, name(target)).exists()


@cache
def portable(target: Target) -> Target | None:
    """What shipped code was compiled for; None if this processor does not run it."""
    triple, _, features = target
    there = {name[1:] for name in features.split(",") if name.startswith("+")}
    return (triple, PORTABLE, "") if there >= LEVEL_3 else None


def _whole(data: bytes) -> bool:
    return hashlib.sha256(memoryview(data)[CHECKSUM:]).digest() == data[:CHECKSUM]


def _shipped(name: str) -> bytes | None:
    try:
        return (SHIPPED / name).read_bytes()
    except OSError:
        return None
