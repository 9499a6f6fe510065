"""The competitors of streamjoin in benchmarks: other engines in their best phrasing, and C by hand."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.bench.jobs import COLUMNS, Inputs, Job, Part
from streamjoin.errors import StreamjoinError
from streamjoin.machine import usable_cores
from streamjoin.papers import HALF_WIDTH, Array
from streamjoin.predicate.tree import OTHER

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


OUTPUT = ", ".join(f"{side}.{name} AS {name}" for side in "rs" for name in COLUMNS[side])

Run = Callable[[], pa.Table]


@dataclass(frozen=True)
class Dialect:
    """How to repeat rows: for the values of a list, and for 0 and 1, which is a part of FROM."""

    explode: str
    twice: str


UNNEST = Dialect("unnest", "CROSS JOIN (SELECT 0 AS {0} UNION ALL SELECT 1) AS twice_{0}")
CLICKHOUSE = Dialect("arrayJoin", "ARRAY JOIN [0, 1] AS {0}")


def _sql(job: Job, part: Part, dialect: Dialect) -> str:
    """A part of a job: an equality on buckets, with one of two rows repeated for every bucket that its bounds touch."""
    source = {"r": "r", "s": "s"}
    on = [f"r.{x} = s.{a}" for x, a in job.equal]
    for k, near in enumerate(part.near):

        def bucket(expression: str, width: int = near.bucket) -> str:
            return f"CAST(floor(({expression}) / {width}.0) AS INT)"

        point, bounds = near.side, OTHER[near.side]
        if near.steady:
            touched, repeated = f"{bucket(near.low)} + d{k}", dialect.twice.format(f"d{k}")
        else:
            touched, repeated = f"{dialect.explode}(range({bucket(near.low)}, {bucket(near.high)} + 1))", ""
        source[point] = f"(SELECT *, {bucket(near.column)} AS k{k} FROM {source[point]} AS q{k})"
        source[bounds] = f"(SELECT *, {touched} AS k{k} FROM {source[bounds]} AS q{k} {repeated})"
        on.append(f"r.k{k} = s.k{k}")
    if not on:
        return f"SELECT {OUTPUT} FROM r JOIN s ON {part.where}"
    return f"SELECT {OUTPUT} FROM {source['r']} AS r JOIN {source['s']} AS s ON {' AND '.join(on)} WHERE {part.where}"


def _query(job: Job, inputs: Inputs, dialect: Dialect) -> str:
    return " UNION ALL ".join(_sql(job, part, dialect) for part in job.timed_parts(inputs.r.num_rows))


def duckdb_tables(inputs: Inputs) -> Any:
    """A connection with the tables r and s."""
    import duckdb

    connection = duckdb.connect(config={"threads": usable_cores()})
    for side, table in (("r", inputs.r), ("s", inputs.s)):
        connection.register("given", table)
        connection.execute(f"CREATE TABLE {side} AS SELECT * FROM given")
    return connection


def chdb_tables(inputs: Inputs) -> Any:
    """A session with the tables r and s."""
    from chdb.session import Session

    session = Session()
    for side, given in (("r", inputs.r), ("s", inputs.s)):  # noqa: B007 (the query names it)
        session.query(f"CREATE TABLE {side} ENGINE = Memory AS SELECT * FROM Python(given)")
    return session


def duckdb_join(job: Job, inputs: Inputs) -> Run:
    """DuckDB: its own tables, whose statistics it uses; two inequalities go through its IEJoin."""
    connection = duckdb_tables(inputs)
    query = _query(job, inputs, UNNEST)
    return lambda: connection.sql(query).to_arrow_table()


def datafusion_join(job: Job, inputs: Inputs) -> Run:
    """DataFusion: the same phrasing."""
    from datafusion import SessionConfig, SessionContext

    context = SessionContext(SessionConfig().with_target_partitions(usable_cores()))
    context.from_arrow(inputs.r, name="r")
    context.from_arrow(inputs.s, name="s")
    query = _query(job, inputs, UNNEST)
    return lambda: context.sql(query).to_arrow_table()


def chdb_join(job: Job, inputs: Inputs) -> Run:
    """ClickHouse inside the process: buckets for bands; its IEJoin for inequalities, and for overlap."""
    session = chdb_tables(inputs)
    query = _sql(job, Part(job.on), CLICKHOUSE) if job.window is None else _query(job, inputs, CLICKHOUSE)
    return lambda: session.query(f"{query} SETTINGS max_threads = {usable_cores()}", "ArrowTable")


def polars_join(job: Job, inputs: Inputs) -> Run:
    """Polars: buckets through its streaming engine, inequalities through join_where."""
    import polars as pl

    frames = {"r": pl.DataFrame(inputs.r).lazy(), "s": pl.DataFrame(inputs.s).lazy()}
    names = [name for side in "rs" for name in COLUMNS[side]]
    parts = [_polars_part(job, part, frames).select(names) for part in job.timed_parts(inputs.r.num_rows)]
    query = pl.concat(parts)
    buckets = bool(job.equal or job.parts)
    return lambda: query.collect(engine="streaming" if buckets else "in-memory").to_arrow()


def polars_bio_join(job: Job, inputs: Inputs) -> Run:
    """polars-bio: overlaps of intervals that include their ends, all of one contig, by its quickest algorithm here."""
    import polars as pl
    import polars_bio as pb

    pb.set_option("datafusion.execution.target_partitions", str(usable_cores()))
    frames: list[Any] = [pl.DataFrame(table).with_columns(contig=pl.lit("all")) for table in (inputs.r, inputs.s)]
    for frame in frames:
        frame.config_meta.set(coordinate_system_zero_based=False)
    ends = [["contig", COLUMNS[side][0], COLUMNS[side][2]] for side in "rs"]
    wanted = {f"{name}_{side}": name for side in "rs" for name in COLUMNS[side]}

    def run() -> pa.Table:
        found = pb.overlap(
            *frames, suffixes=("_r", "_s"), cols1=ends[0], cols2=ends[1], algorithm="SuperIntervals"
        ).select(*wanted)
        return found.collect(engine="streaming").rename(wanted).to_arrow()

    return run


def _polars_part(job: Job, part: Part, frames: Mapping[str, Any]) -> Any:
    import polars as pl

    def unqualified(text: str) -> Any:
        return pl.sql_expr(re.sub(r"\b[rs]\.", "", text))

    if not job.equal and not part.near:
        return frames["r"].join_where(frames["s"], unqualified(part.where))
    source = dict(frames)
    on = {side: [pair[k] for pair in job.equal] for k, side in enumerate("rs")}
    for k, near in enumerate(part.near):

        def bucket(expression: str, width: int = near.bucket) -> Any:
            return (unqualified(expression) / width).floor().cast(pl.Int64)

        name, other = f"k{k}", OTHER[near.side]
        source[near.side] = source[near.side].with_columns(bucket(near.column).alias(name))
        if near.steady:
            first = source[other].with_columns(bucket(near.low).alias(name))
            source[other] = pl.concat([first, first.with_columns(pl.col(name) + 1)])
        else:
            touched = pl.int_ranges(bucket(near.low), bucket(near.high) + 1)
            source[other] = source[other].with_columns(touched.alias(name)).explode(name)
        for side in "rs":
            on[side].append(name)
    joined = source["r"].join(source["s"], left_on=on["r"], right_on=on["s"], coalesce=False)
    return joined.filter(unqualified(part.where))


@dataclass(frozen=True)
class Peer:
    """Another engine: the module to import, and how it does a job."""

    prepare: Callable[[Job, Inputs], Run]
    nested_loops: bool = False  # has nothing better for two inequalities
    overlaps_alone: bool = False

    def takes(self, job: Job) -> bool:
        if self.overlaps_alone:
            return job.overlap
        return not self.nested_loops or bool(job.equal or job.parts)


PEERS: Mapping[str, Peer] = MappingProxyType(
    {
        "duckdb": Peer(duckdb_join),
        "polars": Peer(polars_join),
        "datafusion": Peer(datafusion_join, nested_loops=True),
        "chdb": Peer(chdb_join),
        "polars_bio": Peer(polars_bio_join, overlaps_alone=True),
    }
)
