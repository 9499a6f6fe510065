"""Fixtures and profiles of the whole suite: one Spark session, warm kernels, reproducible Hypothesis runs."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import apart
import report_text
import spark_archive
from profiles import SOAK
from sessions import SETTINGS, prepare

# The suite starts hundreds of Pythons: without files of bytecode each would compile the package anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Kernels stay cached between runs: only the first one pays for compiling.
os.environ.setdefault("STREAMJOIN_CACHE", str(Path(__file__).resolve().parent.parent / ".cache" / "kernels"))

os.environ.setdefault("POCL_CACHE_DIR", str(Path(os.environ["STREAMJOIN_CACHE"]).parent / "pocl"))

# No Java of the tests lives long enough for its better compiler, which would take a core away from the others.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

spark_archive.use()

# "suite" is the same on every run; HYPOTHESIS_PROFILE=soak looks further, with new examples each time.
_calm = [
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.function_scoped_fixture,
]
settings.register_profile("suite", deadline=None, max_examples=25, derandomize=True, suppress_health_check=_calm)
settings.register_profile("soak", deadline=None, max_examples=2_000, suppress_health_check=_calm)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


gc.set_threshold(10_000)  # the compiler makes many short-lived objects; looking for cycles took 6 % of its time


def pytest_configure(config: pytest.Config) -> None:
    apart.set_up(config)
    config.pluginmanager.register(report_text)
    if config.getoption("numprocesses", None):  # who hands tests to others, at the beginning of a long run
        config.add_cleanup(spark_archive.make())


# Tests of these files share nothing that is dear, neither kernels nor a session.
APART = {"test_predicates_fuzz.py", "test_spark_kill.py", "test_spark_masters.py"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where the suite runs in several processes: one of them has the Spark session, and a file's tests stay together.

    What takes long begins first, so that no process is left alone with it at the end.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif item.path.name not in APART:
            item.add_marker(pytest.mark.xdist_group(item.path.name))
    items.sort(key=lambda item: not {"spark", "slow"} & {mark.name for mark in item.iter_markers()})


@pytest.fixture
def hang_up() -> Iterator[None]:
    """SIGHUP has its default effect in the test and in processes it starts, even if the suite runs under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="session")
def soak() -> bool:
    return SOAK


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One Spark for the whole run."""
    prepare()
    from pyspark.sql import SparkSession

    from streamjoin.spark.settings import recommended

    session = (
        SparkSession.builder.master("local[2]")
        .appName("streamjoin-tests")
        .config(map=SETTINGS)
        .config(map=recommended(cores=2))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
