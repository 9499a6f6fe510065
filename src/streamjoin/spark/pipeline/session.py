"""The Spark session of a pipeline, which the command owns: settings, Java, and a log file instead of the terminal."""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from streamjoin.errors import FileError, OptionError, PipelineError, StreamjoinError, UnsupportedError
from streamjoin.folders import reason
from streamjoin.java import REMEDY, search
from streamjoin.spark.pipeline.jvm import Jvm

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
TRIES = "spark.task.maxFailures"
_DYING = 10.0  # seconds within which a failing Java process will have ended
_PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"


@dataclass(frozen=True)
class Cluster:
    """Where the pipeline runs: a Spark master, packages from Maven Central, and settings that outrank ours."""

    master: str = "local[*]"
    conf: dict[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    name: str = "streamjoin"

    @property
    def url(self) -> str:
        """The master for Spark. In local mode it tries a task once, whatever the settings say, unless this says more.

        >>> Cluster("local[2]").url, Cluster("local[2, 1]").url, Cluster("local").url, Cluster("spark://host:7077").url
        ('local[2, 4]', 'local[2, 1]', 'local[1, 4]', 'spark://host:7077')
        """
        found = re.fullmatch(r"local(?:\[([0-9]+|\*)\])?", self.master)
        return f"local[{found[1] or 1}, {self.conf.get(TRIES, '4')}]" if found else self.master

    def settings(self) -> dict[str, str]:
        """All settings that the session is started with."""
        from streamjoin.spark.settings import recommended, required

        own = {
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.ansi.enabled": "false",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.adaptive.enabled": "false",  # streams do not use it and would say so
            "spark.sql.streaming.noDataMicroBatches.enabled": "false",  # without rows there is nothing to do
        }
        if self.master.startswith("local"):
            # Only this machine connects to the driver. If the host's name did not resolve, Spark would not start.
            own |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
            own |= recommended(_cores(self.master))
            if not self.master.startswith("local-cluster"):
                # The driver is the only executor. It cannot be lost, and a machine that slept must not count as that.
                own["spark.network.timeout"] = "86400s"
        if self.packages:
            own["spark.jars.packages"] = ",".join(self.packages)
        return own | required() | self.conf | {"spark.master": self.url, "spark.app.name": self.name}


def _cores(master: str) -> int:
    """How many tasks run at a time under a local master; the engine wants one shuffle partition for each.

    >>> _cores("local"), _cores("local[3]"), _cores("local-cluster[2,1,1024]")
    (1, 3, 2)
    """
    from streamjoin.machine import usable_cores

    inside = master.partition("[")[2].rstrip("]").split(",")
    if master.startswith("local-cluster") and len(inside) == 3:
        return int(inside[0]) * int(inside[1])
    if not inside[0]:
        return 1
    return int(inside[0]) if inside[0].isdecimal() else usable_cores()


def check_installed() -> None:
    """Refuses before anything is started if PySpark or a Java is missing."""
    missing = [name for name in ("pyspark", "pandas", "google.protobuf") if not _installed(name)]
    if missing:
        raise UnsupportedError(
            f"--engine spark needs {', '.join(missing)}; install with: pip install 'streamjoin[spark]', or take "
            "--engine embedded"
        )
    found = search()
    if found.java is None:
        passed = "".join(f"; passed over {reason}" for reason in found.rejected)
        raise UnsupportedError(f"--engine spark needs Java{passed}: {REMEDY}")


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


class Log:
    """What Spark and its Python workers write: kept in a file, shown if the pipeline fails, else removed."""

    def __init__(self) -> None:
        try:
            handle, name = tempfile.mkstemp(prefix="streamjoin-spark-", suffix=".log")
        except OSError as error:
            raise FileError(
                f"Spark's log cannot be written: {reason(error)}; name a folder for temporary files with TMPDIR"
            ) from error
        os.close(handle)
        self.path = Path(name)

    @contextmanager
    def taking_stderr(self) -> Iterator[None]:
        """Processes started meanwhile have this file for their standard error, as long as they live."""
        sys.stderr.flush()
        kept = os.dup(2)
        target = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            os.dup2(target, 2)
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(target)
            os.close(kept)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


@contextmanager
def session(cluster: Cluster) -> Iterator[Any]:
    """A started session; stopped at the end. If something fails, the error names the file that Spark logged to."""
    check_installed()
    found = search().java
    assert found is not None
    os.environ["JAVA_HOME"] = found.home
    if cluster.master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else whatever python3 is first on PATH
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    log, java = Log(), None
    try:
        with log.taking_stderr():
            settings: Any = cluster.settings()
            java = Jvm(settings)
            spark = SparkSession.builder.config(map=settings).getOrCreate()
        spark.sparkContext.setLogLevel(cluster.conf.get("spark.log.level", "ERROR"))
        _hush(spark)
    except BaseException as error:
        if java is not None:
            java.end()
        if isinstance(error, PySparkException | Py4JError | OSError):
            raise _not_started(cluster, log, error) from error
        log.remove()
        if isinstance(error, KeyboardInterrupt | SystemExit):
            print("streamjoin: stopped before Spark had started; nothing was done", file=sys.stderr)
        raise
    try:
        yield spark
    except BaseException as error:
        failure = _failure(error, java)
        if isinstance(failure, PipelineError) or not isinstance(
            failure, StreamjoinError | KeyboardInterrupt | SystemExit
        ):
            print(f"streamjoin: Spark's log is kept in {log.path}", file=sys.stderr)
        else:
            log.remove()
        if isinstance(failure, Exception) or not java.is_ours:  # else it was a second signal
            _stop(spark, java)
        java.end()
        if failure is error:
            raise
        raise failure from error
    _stop(spark, java)
    java.end()
    log.remove()


def _stop(spark: Any, java: Jvm) -> None:
    """Stops the session if Java still answers: it may have got the same signal as Python and be ending."""
    from py4j.protocol import Py4JError

    with suppress(Py4JError, OSError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if java.death(0) is None:
            spark.stop()


def _failure(error: BaseException, java: Jvm) -> BaseException:
    """The error itself, or that Java has ended, which can cause any error."""
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

    refused = isinstance(error, StreamjoinError) and not isinstance(error, PipelineError)
    if refused or not isinstance(error, Exception):
        return error
    lost = isinstance(error, Py4JError | ConnectionError) and not isinstance(error, Py4JJavaError)
    how = java.death(_DYING if lost else 0)
    if how is None and isinstance(error, Py4JNetworkError | ConnectionError):
        how = f"Spark has stopped or no longer answers ({error})"
    return PipelineError(f"{how}. With a checkpoint, the same command resumes") if how else error


def _hush(spark: Any) -> None:
    """Where Java ends first, PySpark's thread for accumulators and Py4J's log would print tracebacks."""
    spark.sparkContext._accumulatorServer.handle_error = lambda request, address: None
    if not logging.getLogger().handlers:
        handler = logging.StreamHandler()
        handler.addFilter(lambda record: "py4j" not in record.pathname)
        logging.getLogger().addHandler(handler)


def _not_started(cluster: Cluster, log: Log, error: Exception) -> StreamjoinError:
    """Says why a session did not start, as far as its log shows."""
    lines = log.path.read_text(encoding="utf-8", errors="replace").splitlines()
    if any("UNRESOLVED DEPENDENCIES" in line for line in lines):
        missing = {line.strip(": \t") for line in lines if line.rstrip().endswith(": not found") and "::" in line}
        names = "; ".join(sorted(missing))
        return OptionError(
            f"--packages {','.join(cluster.packages)}: not found on Maven Central ({names}); "
            f"check the versions and the network. All attempts are listed in {log.path}"
        )
    words = str(error).splitlines()[0]
    reason = next((line.strip() for line in lines if "Exception" in line or "ERROR" in line), words)
    return StreamjoinError(f'Spark did not start with --master "{cluster.master}": {reason}. Its log is in {log.path}')


def check_kafka(spark: Any, options: list[str]) -> None:
    """Refuses Kafka without its connector, which the PySpark package does not include."""
    from py4j.protocol import Py4JError

    try:
        loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        spark._jvm.java.lang.Class.forName(_PROVIDER, False, loader)
    except Py4JError:
        raise OptionError(
            f"{' and '.join(options)}: Kafka needs Spark's connector, which PySpark does not include; add "
            f"--packages {CONNECTOR}:{spark.version} (from Maven Central), or its jars with --conf spark.jars=..."
        ) from None
