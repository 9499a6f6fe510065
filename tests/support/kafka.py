"""A real Kafka broker for tests: jars from Maven Central, one KRaft node on loopback."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import socket
import subprocess
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from streamjoin.folders import atomically
from streamjoin.java import java_home

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "kafka"
# The connector is that of 4.2.0, which was seen to work with 4.3: the newest that is published without a gap.
LIST = Path(__file__).resolve().parents[1] / "data" / "kafka-jars.txt"
MAVEN = "https://repo1.maven.org/maven2"
PATIENCE = 300.0  # seconds; a busy machine may stand still for a minute


class Unreachable(Exception):
    """Maven Central did not give a jar."""


def broker_jars() -> list[Path]:
    scala = Path(pyspark.__file__).parent.joinpath("jars").glob("scala-library-*.jar")
    return [*_jars("broker"), *scala]


def connector_jars() -> list[Path]:
    return _jars("connector")


def _jars(whose: str) -> list[Path]:
    """The listed jars, downloaded once and then taken from the cache folder."""
    lines = [line.split() for line in LIST.read_text().splitlines()]
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(_jar, *zip(*(line[1:] for line in lines if line[0] == whose), strict=True)))


def _jar(coordinates: str, digest: str) -> Path:
    group, name, version = coordinates.split(":")
    path = CACHE / digest[:16] / f"{name}-{version}.jar"
    if not path.exists():
        url = f"{MAVEN}/{group.replace('.', '/')}/{name}/{version}/{path.name}"
        try:
            with urlopen(url, timeout=60) as answer:
                content = answer.read()
        except OSError as error:
            raise Unreachable(f"{url}: {error}") from None
        assert hashlib.sha256(content).hexdigest() == digest, url
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomically(path) as file:
            file.write(content)
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Broker:
    """One node that is broker and controller; keeps its data and its port over a restart."""

    def __init__(self, folder: Path, jars: list[Path]) -> None:
        self._folder = folder
        self._classpath = os.pathsep.join(map(str, jars))
        self._java = str(Path(java_home() or "/usr") / "bin" / "java")
        self._process: subprocess.Popen[bytes] | None = None
        self.port, controller = free_port(), free_port()
        self.address = f"127.0.0.1:{self.port}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(folder / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "controlled.shutdown.enable": "false",
        }
        folder.mkdir(parents=True)
        self._settings = folder / "server.properties"
        self._settings.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        cluster = base64.urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        self._tool("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._settings))

    def start(self) -> None:
        with (self._folder / "log").open("ab") as log:
            command = [self._java, "-Xmx384m", "-cp", self._classpath, "kafka.Kafka", str(self._settings)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        limit = time.monotonic() + PATIENCE
        while time.monotonic() < limit:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if self._process.poll() is not None:
                    break
                time.sleep(0.2)
        raise RuntimeError(f"the broker did not start: {(self._folder / 'log').read_text()[-2000:]}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def remove(self) -> None:
        self.stop()
        self._gateway.shutdown()
        shutil.rmtree(self._folder, ignore_errors=True)

    @cached_property
    def _gateway(self) -> JavaGateway:
        """A Java with Kafka's own clients, for as long as this process lives."""
        (jar,) = Path(pyspark.__file__).parent.joinpath("jars").glob("py4j-*.jar")
        port = launch_gateway(
            jarpath=str(jar), classpath=self._classpath, javaopts=["-Xmx128m"], java_path=self._java, die_on_exit=True
        )
        return JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))

    def _client(self, kind: Any, **settings: str) -> Any:
        given = self._gateway.jvm.java.util.Properties()
        for key, value in settings.items():
            given.put(key.replace("_", "."), f"org.apache.kafka.common.serialization.String{value}")
        given.put("bootstrap.servers", self.address)
        return kind(given)

    def produce(self, topic: str, rows: list[str]) -> None:
        """Each row becomes the value of a record."""
        kafka = self._gateway.jvm.org.apache.kafka.clients.producer
        producer = self._client(kafka.KafkaProducer, key_serializer="Serializer", value_serializer="Serializer")
        sent = [producer.send(kafka.ProducerRecord(topic, row)) for row in rows]
        for each in sent:
            each.get()
        producer.close()

    def consume(self, topic: str) -> list[str]:
        """All values of a topic with one partition."""
        jvm = self._gateway.jvm
        kind = jvm.org.apache.kafka.clients.consumer.KafkaConsumer
        consumer = self._client(kind, key_deserializer="Deserializer", value_deserializer="Deserializer")
        partition = jvm.org.apache.kafka.common.TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seekToBeginning([partition])
        end, values = consumer.endOffsets([partition])[partition], []
        while consumer.position(partition) < end:
            found = consumer.poll(jvm.java.time.Duration.ofSeconds(1))
            values += [record.value() for record in found.records(partition)]
        consumer.close()
        return values

    def _tool(self, name: str, *words: str) -> None:
        command = [self._java, "-Xmx128m", "-cp", self._classpath, name, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode:
            raise RuntimeError(f"{name} failed: {done.stdout}{done.stderr}")
