"""What every Spark of the tests is started with, and the Java and the paths that it needs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

# UTC and ANSI off, as the semantics say; only this machine; and whoever was stopped for hours is not lost.
SETTINGS: dict[str, Any] = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.network.timeout": "86400s",
    "spark.executor.heartbeatInterval": "60s",
    "spark.worker.timeout": "86400",
}


def prepare() -> None:
    """Sets JAVA_HOME, and has Python workers import the package and the test modules as this process does."""
    from streamjoin.java import java_home

    home = java_home()
    if home:
        os.environ["JAVA_HOME"] = home
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [str(HERE.parents[1] / "src"), str(HERE), *(os.path.abspath(path) for path in known if path)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
