"""The Java process that Spark runs in: out of reach of the command's signals, watched, and ended with the session."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from typing import Any

from streamjoin.spark.pipeline.stop import held

_GRACE = 10.0  # seconds to remove temporary folders
_OUT_OF_MEMORY = 52  # SparkExitCode.OOM
_LESS = "give it fewer rows per micro-batch (--left-option maxFilesPerTrigger=1, batch= of the generator)"


class Jvm:
    """The Java process, if this session started it; a later session of the same process shares it.

    It has a process session of its own. A signal to the command's process group or from its terminal so reaches Python
    alone, who stops the query before Java. If Python is killed, Java's standard input ends, and Java with it.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway

        self._process: subprocess.Popen[Any] | None = None
        if SparkContext._gateway is None:
            conf = SparkConf().setAll(list(settings.items()))
            launch: Any = launch_gateway  # has no types
            try:
                with held():  # interrupted halfway, it would leave an orphaned Java process that never ends
                    gateway = launch(conf, popen_kwargs={"start_new_session": True})
                    self._process = gateway.proc
                    SparkContext._ensure_initialized(gateway=gateway, conf=conf)
            except BaseException:
                self.end()
                raise

    @property
    def is_ours(self) -> bool:
        return self._process is not None

    def death(self, seconds: float) -> str | None:
        """How Java ended and what to do about it; None if it is still running after this time."""
        try:
            return None if self._process is None else told(self._process.wait(seconds))
        except subprocess.TimeoutExpired:
            return None

    def end(self) -> None:
        """Ends Java and waits for it; kills it if that takes too long."""
        from pyspark import SparkContext

        if self._process is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None


def told(code: int) -> str:
    """An exit code of Java in words.

    >>> told(1)
    'the Java process of Spark ended with exit code 1'
    >>> told(143)
    'the Java process of Spark was ended by SIGTERM'
    """
    what = "the Java process of Spark"
    if code == -signal.SIGKILL:
        return f"{what} was killed by SIGKILL, as the kernel does when memory runs out; in that case, {_LESS}"
    if code == _OUT_OF_MEMORY:
        return f"{what} ran out of memory; give it more (--conf spark.driver.memory=4g), or {_LESS}"
    number = -code if code < 0 else code - 128  # Java takes the signals that ask it to end, and ends like a shell
    try:
        how = "killed" if code < 0 else "ended"
        return f"{what} was {how} by {signal.Signals(number).name}"
    except ValueError:
        return f"{what} ended with exit code {code}"
