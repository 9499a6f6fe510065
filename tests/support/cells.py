"""A streaming join on a cluster without a cluster: the same routing, cells and chunks, with state in dicts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.options import Options
from streamjoin.spark.cell_kernels import Engine, engine_of
from streamjoin.spark.chunk_files import ChunkCache
from streamjoin.spark.deciding import cell_of
from streamjoin.spark.spec import CONTENT, JoinSpec, make_spec
from streamjoin.spark.wire import pack, unpack, with_integers
from streamjoin.testing import cases, oracle
from streamjoin.testing.rows import pairs_of, to_table
from streamjoin.windows import SINCE_EVER


class DictState:
    """What Spark's state store holds of one cell."""

    def __init__(self) -> None:
        self.kept: bytes | None = None
        self.chunks: dict[int, bytes] = {}

    def manifest(self) -> bytes | None:
        return self.kept

    def save(self, manifest: bytes) -> None:
        self.kept = manifest

    def get(self, number: int) -> bytes:
        return self.chunks[number]

    def put(self, number: int, data: bytes) -> None:
        self.chunks[number] = data

    def remove(self, number: int) -> None:
        del self.chunks[number]


def spec_of(on: Any, within: Any, *, r: pa.Schema = cases.R, s: pa.Schema = cases.S, **options: Any) -> JoinSpec:
    cells = options.pop("cells", 4)
    return make_spec(r, s, Options(on=on, within=within, **({"time": "t"} | options)), cells)


def contents(rows: Sequence[oracle.Row], key: str) -> np.ndarray:
    """A hash of each row's content, as Spark would give one."""
    ids = np.array([row[key] for row in rows], np.uint64)
    return (ids * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)


class Cluster:
    """Micro-batches through routing and cells. `pairs` is what came out, as values of both sides' first columns."""

    def __init__(self, spec: JoinSpec, folder: Path | None, delay: int = 6) -> None:
        self.engine: Engine = engine_of(spec)
        self.cells = [DictState() for _ in range(spec.router.cells)]
        self.folder = folder
        self.cache = ChunkCache("test", folder)
        self.delay = delay
        self.newest: dict[str, int] = {}
        self.late = 0
        self.copies = 0
        self.pairs: list[tuple[int, int]] = []
        self.out: list[pa.Table] = []

    def batch(self, r: Sequence[oracle.Row], s: Sequence[oracle.Row]) -> list[tuple[int, int]]:
        """One micro-batch: the rows of both sides, then the watermark moves."""
        arriving: list[dict[str, list[pa.Table]]] = [{"r": [], "s": []} for _ in self.cells]
        for side, rows in (("r", r), ("s", s)):
            if rows:
                schema = self.engine.plan.schemas[side]
                table = with_integers(to_table(list(rows), schema), CONTENT, contents(rows, self._key(side, rows[0])))
                for cell, part in self.engine.route(side, table):
                    arriving[cell][side].append(unpack(pack(part)))
                    self.copies += part.num_rows
        found = []
        for number, tables in enumerate(arriving if r or s else []):  # every cell has a sign of life
            found += self._visit(number, tables, self.watermark)
        for side, rows in (("r", r), ("s", s)):
            if rows:
                self.newest[side] = max([*(row["t"] for row in rows), self.newest.get(side, SINCE_EVER)])
        self.pairs += found
        return found

    def _key(self, side: str, row: oracle.Row) -> str:
        """What tells a side's rows apart; the join need not have kept it."""
        name: str = self.engine.plan.schemas[side].names[0]
        return f"{side}id" if f"{side}id" in row else name

    def _visit(self, number: int, tables: dict[str, list[pa.Table]], watermark: int) -> list[tuple[int, int]]:
        cell = cell_of(self.engine, number, self.cells[number], self.cache)
        tables_out = [*cell.arrive(tables), *cell.decide(watermark)]
        self.out += tables_out
        cell.expire(watermark)
        cell.save()
        self.late += cell.tally.late
        if not self.engine.plan.kind.plain:
            return []
        names = self.engine.plan.output_names()
        ids = names["r"][0], names["s"][0]
        return [pair for table in tables_out for pair in pairs_of(table, ids)]

    def time_passes(self) -> None:
        """A micro-batch without rows, in which the watermark moves on: all cells are visited."""
        for number in range(len(self.cells)):
            self._visit(number, {"r": [], "s": []}, self.watermark)

    @property
    def watermark(self) -> int:
        """That of the next micro-batch."""
        return min(self.newest.values()) - self.delay if len(self.newest) == 2 else SINCE_EVER

    @property
    def state_rows(self) -> int:
        chunks = [data for state in self.cells for number, data in state.chunks.items() if number >= 0]
        return sum(unpack(data).num_rows for data in chunks)


def expected(case: cases.Case, window: Any, r: list[oracle.Row], s: list[oracle.Row]) -> list[tuple[int, int]]:
    arrivals = [("r", row) for row in r] + [("s", row) for row in s]
    return oracle.pairs(arrivals, case.holds, window, ("t", "t"))
