"""The Spark settings that the streaming join needs: listed, recommended and checked, never changed.

State is binary chunks, so its schema never evolves and the default row encoding serves; the Avro encoding is not asked
for, because Spark refuses it as soon as the same query aggregates.
"""

from __future__ import annotations

from typing import Any

from streamjoin.errors import OptionError

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
RENAMING = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
PARTITIONS = "spark.sql.shuffle.partitions"
BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BUFFER = "spark.sql.execution.pandas.udf.buffer.size"
UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"


def required() -> dict[str, str]:
    """Settings without which a streaming join does not start, or rewrites its window with every micro-batch."""
    return {PROVIDER: ROCKSDB, CHANGELOG: "true"}


def recommended(cores: int | None = None) -> dict[str, Any]:
    """The required settings and those that make a trigger short.

    One shuffle partition per core: each is a task, a state store and a commit in every micro-batch. The file manager
    that renames commits state ten times sooner on a local disk or HDFS; object stores need their own. A buffer of 1 MiB
    between Java and Python takes about 8 % off a join of two tables. Over TCP every Python task begins with 40 ms in
    which the two ends wait for one another; over sockets of the Unix domain it does not. A limit in bytes for the Arrow
    batches between them has Spark add up a batch again after every row, a third of Java's work; with the largest number
    it does not, and batches of 1,000 rows stay below Arrow's 2 GiB as long as rows are below 2 MiB.
    """
    from streamjoin.machine import usable_cores

    return {
        **required(),
        FILE_MANAGER: RENAMING,
        PARTITIONS: str(cores or usable_cores()),
        BATCH_BYTES: str((1 << 31) - 1),
        BATCH_ROWS: "1000",
        BUFFER: str(1 << 20),
        UNIX_SOCKETS: "true",
    }


def check(spark: Any) -> None:
    """Raises an error that names the line to add if this session cannot run a streaming join."""
    for name, wanted in required().items():
        found = spark.conf.get(name, "")
        fits = found.rpartition(".")[2] == wanted.rpartition(".")[2] if name == PROVIDER else found.lower() == wanted
        if not fits:
            raise OptionError(
                f"a streaming join needs {name} = {wanted}, and this session has {found or 'no value'!r}; before the "
                f'query starts, add: spark.conf.set("{name}", "{wanted}")'
            )
    try:
        import google.protobuf  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        raise OptionError(
            "Spark's stateful operator needs the package protobuf, which is not installed; add: "
            "pip install 'streamjoin[spark]'"
        ) from None
