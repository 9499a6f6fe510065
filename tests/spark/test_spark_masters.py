"""The same join behind Spark Connect and on a cluster of hosts, as streams and as tables, against the oracle.

Of the other masters, local is that of most tests, and local-cluster has its own in `test_spark_kill.py`.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import sessions
from profiles import SOAK, soak_only
from victims import PATIENCE, Victim, runs

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILES = 6 if SOAK else 4


def test_spark_connect(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs: pip install 'pyspark[connect]'")
    victim = Victim(tmp_path, FILES, "--tables", "--remote", "local[2]")
    try:
        victim.feed(FILES - 1)
        victim.finish()
        victim.check()
    finally:
        victim.end()


class Host:
    """A process of Spark's own on 127.0.0.1, with a chunk cache that no other host sees."""

    def __init__(self, folder: Path, name: str, role: str, *arguments: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}", "--host", "127.0.0.1"]
        environment = {**os.environ, "SPARK_HOME": str(home), "STREAMJOIN_CHUNKS": str(folder / f"chunks-{name}")}
        environment["SPARK_DAEMON_JAVA_OPTS"] = "-Dspark.worker.timeout=86400 -Dspark.network.timeout=86400s"
        with (folder / f"{name}.log").open("wb") as log:
            self._process = psutil.Popen([*command, *arguments], env=environment, stdout=log, stderr=log)

    def kill(self) -> int:
        """SIGKILL for everything on this host; says how many executors were among it."""
        if not self._process.is_running():
            return 0
        members = [self._process, *self._process.children(recursive=True)]
        executors = sum(runs(member, "CoarseGrainedExecutorBackend") for member in members)
        for member in members:
            member.send_signal(signal.SIGKILL)
        psutil.wait_procs(members, timeout=PATIENCE)
        return executors


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[tuple[str, list[Host]]]:
    """A master and two workers of one core each."""
    sessions.prepare()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    hosts = [Host(tmp_path, "master", "master.Master", "--port", str(port), "--webui-port", "0")]
    for name in ("one", "two"):
        work = ["--work-dir", str(tmp_path / f"work-{name}"), "--webui-port", "0", "-c", "1", "-m", "1g"]
        hosts.append(Host(tmp_path, name, "worker.Worker", *work, url))
    yield url, hosts
    for host in reversed(hosts):
        host.kill()


@soak_only  # six Javas
def test_a_standalone_cluster_loses_a_host(tmp_path: Path, standalone: tuple[str, list[Host]]) -> None:
    url, hosts = standalone
    caches = [tmp_path / f"chunks-{name}" for name in ("one", "two")]
    victim = Victim(tmp_path / "run", FILES, "--tables", "--master", url)
    try:
        victim.feed(2)
        victim.wait_for(lambda: victim.commits() > 1 and all(cache.exists() for cache in caches))
        victim.feed()
        assert hosts[1].kill() == 1
        victim.feed(FILES - 4)
        victim.finish()
        victim.check()
    finally:
        victim.end()
