"""How a window is searched: a row for every access path, a file or folder each. Reading the rows loads no compiler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING

from streamjoin.access import prices
from streamjoin.access.prices import Costs, Price
from streamjoin.predicate.widths import band_width

if TYPE_CHECKING:
    from streamjoin.access.segment import Segment
    from streamjoin.codegen.program import Program
    from streamjoin.predicate.analysis import Analysis

NO_KEY = 'needs an equality such as r.k = s.k in the predicate, and there is none; use access="band", "scan" or "auto"'
NO_BAND = (
    "needs a band such as r.x BETWEEN s.a - 10 AND s.a + 10 in the predicate, and there is none; "
    'use access="hash", "scan" or "auto"'
)


def _anyway(analysis: Analysis) -> str:
    return ""


def _key_missing(analysis: Analysis) -> str:
    return "" if analysis.equalities else NO_KEY


def _band_missing(analysis: Analysis) -> str:
    return "" if analysis.dimensions else NO_BAND


def _for_keys(analysis: Analysis) -> str:
    keys = len(analysis.equalities)
    if not keys or analysis.two_sided:
        return ""
    return f"{keys} equality key{'s' * (keys > 1)} and no two-sided band: hash chains"


def _for_bands(analysis: Analysis) -> str:
    count, behind = len(analysis.dimensions), _behind(analysis)
    if _known_width(analysis):
        return f"{count} band key{'s' * (count > 1)}{behind}: runs ordered by bin"
    if count and behind and not analysis.two_sided:
        return f"{count} inequalit{'ies' if count > 1 else 'y'}{behind}: runs ordered by bin, even of a frequent key"
    return ""


def _for_trees(analysis: Analysis) -> str:
    if not analysis.dimensions or _known_width(analysis):
        return ""
    return f"inequalities, or intervals of any length{_behind(analysis)}: ordered runs with trees of minima"


def _behind(analysis: Analysis) -> str:
    keys = len(analysis.equalities)
    return f" behind {keys} equality key{'s' * (keys > 1)}" if keys else ""


def _known_width(analysis: Analysis) -> bool:
    """Is there a band whose width does not depend on the tuple? A grid can divide its tuples."""
    return any(band_width(dimension) is not None for dimension in analysis.dimensions)


def _all_boxes(program: Program) -> int:
    return len(program.dimensions)


@dataclass(frozen=True)
class Access:
    """The description of an access path for the rest of the package."""

    name: str
    file: str  # in this folder
    why_not: Callable[[Analysis], str] = _anyway  # what it needs and a predicate lacks; "" if it can be used
    reason: Callable[[Analysis], str] = _anyway  # why "auto" chooses it for a predicate; "" if it does not
    hint: str = ""  # the note of "auto" if another path was chosen where this one could be used
    price: Callable[[Costs, bool], Price] = field(kw_only=True)  # by the costs, and whether there are boxes
    dims: Callable[[Program], int] = _all_boxes  # dimensions of the boxes that it reads
    by_key: bool = False  # finds tuples by their keys
    by_box: bool = False  # finds tuples by their boxes
    keeps_tuples: bool = False  # stores tuples in an order of its own; the others leave them on the tape
    sorts_batches: bool = False  # needs batches that are sorted on the tape
    whole: bool = False  # serves whole tables and frozen runs, whatever the predicate: it can order by time alone
    gives_way: str = ""  # the path that replaces it if "auto" has chosen it and the tuples do not suit it

    @cached_property
    def segment(self) -> type[Segment]:
        """The class that owns a segment."""
        found: type[Segment] = import_module(f"{__name__}.{self.file}").SEGMENT
        return found

    @property
    def indexed(self) -> bool:
        """Does a probe read less than the whole window?"""
        return self.by_key or self.by_box


# "auto" chooses the last one with a reason, otherwise the first one, which serves every algorithm.
ACCESSES = {
    row.name: row
    for row in (
        Access("scan", "scan", price=prices.of_scan, dims=lambda program: program.scan_dims),
        Access(
            "sorted",
            "sorted",
            _band_missing,
            price=prices.of_merge,
            hint='merging sorted batches pays off from about 256 tuples on: access="sorted" with batch=1024',
            by_box=True,
            sorts_batches=True,
        ),
        Access("hash", "hash", _key_missing, _for_keys, price=prices.of_hash, dims=lambda program: 0, by_key=True),
        Access(
            "tree",
            "tree.index",
            _band_missing,
            _for_trees,
            price=prices.of_tree,
            by_key=True,
            by_box=True,
            keeps_tuples=True,
        ),
        Access(
            "band",
            "band.index",
            _band_missing,
            _for_bands,
            price=prices.of_band,
            by_key=True,
            by_box=True,
            keeps_tuples=True,
            whole=True,
            gives_way="tree",
        ),
    )
}
(WHOLE,) = (row.name for row in ACCESSES.values() if row.whole)
