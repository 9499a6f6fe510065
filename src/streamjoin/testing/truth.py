"""Predicates on all pairs of two small tables: many at once, in one generated module. For checking, not for joining."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from streamjoin.access.records import FAULT_WORDS
from streamjoin.codegen.cache import load_module
from streamjoin.codegen.program import Program, head
from streamjoin.codegen.records import Array
from streamjoin.intake.columns import physical_columns
from streamjoin.intake.prepare import overflow
from streamjoin.predicate.analysis import analyse
from streamjoin.predicate.resolve import resolve
from streamjoin.predicate.tree import Node, to_sql

_EVALUATE = """
@njit(nogil=True, error_model="numpy", cache=True, no_cfunc_wrapper=True)
def evaluate_{k}(entry_r, boxes_r, key_r, entry_s, boxes_s, key_s, r, s, origin, truth, fault):
    width = np.zeros(len(origin), np.float32)
    keep_r, keep_s = np.zeros(len(key_r), np.bool_), np.zeros(len(key_s), np.bool_)
    compute_r_{k}(entry_r, len(key_r), origin, keep_r, boxes_r[0], boxes_r[1], boxes_r[2], width, key_r, fault)
    compute_s_{k}(entry_s, len(key_s), origin, keep_s, boxes_s[0], boxes_s[1], boxes_s[2], width, key_s, fault)
    for i in range(len(keep_r)):
        for j in range(len(keep_s)):
            if keep_r[i] and keep_s[j]:
                truth[i, j] = matches_{k}(r, i, s, j, fault)

"""


def evaluate_all(
    trees: list[Node], schema_r: pa.Schema, schema_s: pa.Schema, table_r: pa.Table, table_s: pa.Table
) -> list[Array]:
    """The truth of every predicate for every pair of rows, as boolean matrices (rows of r by rows of s).

    Raises DataError if a predicate overflows for some pair, as a join would; AssertionError if a pair matches whose
    boxes or keys deny it, since then some access path would miss it.
    """
    programs = [Program(analyse(resolve(tree, schema_r, schema_s))) for tree in trees]
    source = head()
    for k, program in enumerate(programs):
        source += program.match_text("r").replace("def matches(", f"def matches_{k}(")
        for side in "rs":
            source += program.compute_text(side).replace("def compute(", f"def compute_{side}_{k}(")
        source += _EVALUATE.format(k=k)
    module = load_module(source)
    tables = {"r": table_r, "s": table_s}
    return [_truth(program, getattr(module, f"evaluate_{k}"), tables) for k, program in enumerate(programs)]


def _truth(program: Program, evaluate: Callable[..., None], tables: dict[str, pa.Table]) -> Array:
    dims = len(program.dimensions)
    arguments, stored, prepared = [], {}, {}
    for side, table in tables.items():
        n = table.num_rows
        key, boxes = np.zeros(n, np.uint32), np.zeros((3, dims, n), np.float32)
        entry = physical_columns(table, program.entry[side], side)
        stored[side] = physical_columns(table, program.stored[side], side)
        prepared[side] = (*boxes[:2], key)
        # An empty tuple has no type to compile for; any array will do in its place.
        arguments += [entry or (key,), boxes, key]
    truth = np.zeros((tables["r"].num_rows, tables["s"].num_rows), np.bool_)
    fault = np.zeros(FAULT_WORDS, np.int64)
    evaluate(*arguments, stored["r"], stored["s"], np.zeros(dims), truth, fault)
    if fault[0]:
        rows = dict(zip("rs", fault[1:], strict=True))
        found = {s: (program.stored[s], tuple(column[rows[s]] for column in stored[s])) for s in "rs"}
        raise overflow(program, int(fault[0]), found)
    (lo_r, hi_r, key_r), (lo_s, hi_s, key_s) = prepared["r"], prepared["s"]
    touch = ((lo_r[:, :, None] <= hi_s[:, None, :]) & (lo_s[:, None, :] <= hi_r[:, :, None])).all(axis=0)
    touch &= key_r[:, None] == key_s[None, :]
    assert not (truth & ~touch).any(), f"boxes or keys deny a match of {to_sql(program.analysis.tree)}"
    return truth
