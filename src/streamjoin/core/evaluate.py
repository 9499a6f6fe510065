"""Predicates on all pairs of two small tables: many at once, in one generated module. For checking, not for joining."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamjoin.core.analysis import analyse
from streamjoin.core.cache import load_module
from streamjoin.core.codegen import HEAD, Program
from streamjoin.core.columns import physical_columns
from streamjoin.core.intake import overflow
from streamjoin.core.kernels.layout import TROUBLE_FIELDS, Array
from streamjoin.core.predicate.resolve import resolve
from streamjoin.core.tree import Node, to_sql

_PAIRS = """
@njit(nogil=True, error_model="numpy", cache=True)
def pairs_{k}(r, n_r, s, n_s, truth, trouble):
    for i in range(n_r):
        for j in range(n_s):
            truth[i, j] = match_{k}(r, i, s, j, trouble)

"""


def evaluate_all(
    trees: list[Node], schema_r: pa.Schema, schema_s: pa.Schema, table_r: pa.Table, table_s: pa.Table
) -> list[Array]:
    """The truth of every predicate for every pair of rows, as boolean matrices (rows of r by rows of s).

    Raises DataError if a predicate overflows for some pair, as a join would; AssertionError if a pair matches whose
    boxes or keys deny it, since then some access path would miss it.
    """
    programs = [Program(analyse(resolve(tree, schema_r, schema_s))) for tree in trees]
    source = HEAD
    for k, program in enumerate(programs):
        source += program.match_text("r").replace("def match(", f"def match_{k}(")
        source += _PAIRS.format(k=k)
        for side in "rs":
            source += program.prepare_text(side).replace("def prepare(", f"def prepare_{side}_{k}(")
    module = load_module(source)
    return [_truth(program, k, vars(module), {"r": table_r, "s": table_s}) for k, program in enumerate(programs)]


def _truth(program: Program, k: int, functions: dict[str, object], tables: dict[str, pa.Table]) -> Array:
    kept, boxes, keys, columns = {}, {}, {}, {}
    for side, table in tables.items():
        n, dims = table.num_rows, len(program.dimensions)
        keep, key = np.zeros(n, np.bool_), np.zeros(n, np.uint32)
        lo, hi = np.zeros((dims, n), np.float32), np.zeros((dims, n), np.float32)
        entry = physical_columns(table, program.entry[side], side)
        trouble = np.zeros(TROUBLE_FIELDS, np.int64)
        functions[f"prepare_{side}_{k}"](entry or (keep,), n, np.zeros(dims), keep, lo, hi, key, trouble)  # type: ignore[operator]
        if trouble[0]:
            row = tuple(column[trouble[1]] for column in entry)
            raise overflow(program, int(trouble[0]), {side: (program.entry[side], row)})
        stored = physical_columns(table, program.stored[side], side)
        kept[side], columns[side] = keep, tuple(column[keep] for column in stored)
        boxes[side], keys[side] = (lo[:, keep], hi[:, keep]), key[keep]
    n_r, n_s = int(kept["r"].sum()), int(kept["s"].sum())
    truth, trouble = np.zeros((n_r, n_s), np.bool_), np.zeros(TROUBLE_FIELDS, np.int64)
    functions[f"pairs_{k}"](columns["r"], n_r, columns["s"], n_s, truth, trouble)  # type: ignore[operator]
    if trouble[0]:
        found = {
            side: (program.stored[side], tuple(column[trouble[1 + "rs".index(side)]] for column in columns[side]))
            for side in "rs"
        }
        raise overflow(program, int(trouble[0]), found)
    (lo_r, hi_r), (lo_s, hi_s) = boxes["r"], boxes["s"]
    touch = ((lo_r[:, :, None] <= hi_s[:, None, :]) & (lo_s[:, None, :] <= hi_r[:, :, None])).all(axis=0)
    touch &= keys["r"][:, None] == keys["s"][None, :]
    assert not (truth & ~touch).any(), f"boxes or keys deny a match of {to_sql(program.analysis.tree)}"
    whole = np.zeros((len(kept["r"]), len(kept["s"])), np.bool_)
    whole[np.ix_(kept["r"], kept["s"])] = truth
    return whole
