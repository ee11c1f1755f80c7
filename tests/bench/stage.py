"""Where benches run: the brokers, the Spark processes and the clients of one run of the harness.

Everything is started when a bench first asks for it and lives until the end of the run, so that what is measured is
warm and the brokers' memory after the runs is that of a broker which has worked.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.broker_process import BenchBroker, new_broker
from bench.broker_profile import profiled
from bench.card import Contender, Scale
from bench.object_storage import ObjectStorage
from bench.process_usage import ProcessWatch, TreeUsage, wait_for_cpu_seconds
from bench.spark_process import BenchSparkProcess
from bench.topic_admin import create_topic, delete_topic
from support.brokers.kafka_tools import JARS

TESTS = Path(__file__).parent.parent
CLIENT, FEEDER = "client", "feeder"


class Stage:
    """Closing it stops what it started and removes its folder."""

    def __init__(self, folder: Path, scale: Scale, *, spark_path: str | None) -> None:
        """`spark_path`: a folder with the PySpark to use; None for the installed one."""
        self.folder = folder
        self.scale = scale
        self._spark_path = spark_path
        self._watch = ProcessWatch()
        self._brokers: dict[Contender, BenchBroker] = {}
        self._own: dict[Contender, str] = {}
        """Labels of brokers of a bench's own, while there are any."""
        self._sparks: dict[str, BenchSparkProcess] = {}
        self._object_storage: ObjectStorage | None = None
        self._storage_labels: set[str] = set()
        self._names = itertools.count()
        self.profile_into: Path | None = None
        """Where a profile of our broker goes while something is measured; such a run is no measurement."""
        self.remembered: dict[object, object] = {}
        """What a bench prepared and others can use again, by a key of theirs."""
        folder.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def measured(
        self, contender: Contender | None = None, *, with_spark: bool = False, is_compiled: bool = False
    ) -> Iterator[None]:
        """What counts in CPU time and memory, of clients and of the contender's processes; and what a profile shows."""
        broker = self._brokers.get(Contender.BROKER)
        if self.profile_into is not None and broker is not None:
            with profiled(broker.pid, self.profile_into):
                yield
        else:
            labels = {CLIENT, FEEDER}
            if contender is not None:
                labels.add(self._own.get(contender, f"{contender} process"))
                if contender.added_delay_ms is not None:
                    labels |= self._storage_labels
            if with_spark:
                labels.add(_spark_label(contender is Contender.KAFKA, is_compiled))
            with self._watch.measured(labels.__contains__):
                yield

    @property
    def last_usage(self) -> dict[str, TreeUsage]:
        return self._watch.last

    def new_name(self, prefix: str) -> str:
        return f"{prefix}-{next(self._names)}"

    # -- brokers --

    def broker(self, contender: Contender) -> BenchBroker:
        """The one that lives through the run."""
        if contender not in self._brokers:
            broker = new_broker(contender, self.folder / self.new_name(contender.replace(" ", "-")))
            broker.on_process = partial(self._watch.add, f"{contender} process")
            broker.start()
            self._brokers[contender] = broker
        return self._brokers[contender]

    @contextmanager
    def own_broker(self, contender: Contender) -> Iterator[BenchBroker]:
        """Not started, for a bench that starts and kills; its folder goes with it."""
        broker = new_broker(contender, self.folder / self.new_name("own"))
        self._own[contender] = label = f"{contender} of the bench's own"
        broker.on_process = partial(self._watch.add, label)
        try:
            yield broker
        finally:
            del self._own[contender]
            self._watch.remove(label)
            broker.kill()
            shutil.rmtree(broker.folder, ignore_errors=True)

    @contextmanager
    def topic(self, contender: Contender, partition_count: int, **config: str) -> Iterator[str]:
        """A new one at the broker, deleted behind the bench."""
        bootstrap = self.broker(contender).bootstrap
        name = self.new_name("bench")
        create_topic(bootstrap, name, partition_count, **config)
        try:
            yield name
        finally:
            delete_topic(bootstrap, name)

    # -- object storage --

    @property
    def object_storage(self) -> ObjectStorage:
        """The one that lives through the run."""
        if self._object_storage is None:
            folder = self.folder / self.new_name("object-storage")
            self._object_storage = ObjectStorage(folder, self.environment(), self._on_storage_process)
        return self._object_storage

    def _on_storage_process(self, name: str, pid: int) -> None:
        self._storage_labels.add(name)
        self._watch.add(name, pid)

    # -- clients: each a process of its own, so that its CPU time and memory can be told --

    def run_java_tool(self, name: str, *arguments: object) -> str:
        """What it said. Raises RuntimeError if it ends badly."""
        options = ["-Xmx512M", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
        command = ["java", *options, "-cp", f"{JARS}/*", f"org.apache.kafka.tools.{name}", *map(str, arguments)]
        return self._run(command)

    def run_program(self, name: str, **arguments: object) -> dict[str, float]:
        """One of the programs beside this file: it is given JSON, and answers with JSON."""
        command = [sys.executable, "-m", f"bench.{name}", json.dumps(arguments)]
        return dict(json.loads(self._run(command).splitlines()[-1]))

    @contextmanager
    def feeder(self, **arguments: object) -> Iterator[subprocess.Popen[str]]:
        """The program that sends rows steadily until something comes to its stdin."""
        command = [sys.executable, "-m", "bench.feeder_program", json.dumps(arguments)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=self.environment()) as process:
            self._watch.add(FEEDER, process.pid)
            try:
                yield process
            finally:
                assert process.stdin is not None
                process.stdin.close()
                process.returncode, cpu_s = wait_for_cpu_seconds(process.pid)
                self._watch.finish(FEEDER, cpu_s)

    def _run(self, command: list[str]) -> str:
        out, err = self.folder / "client.out", self.folder / "client.err"
        with out.open("wb") as to_out, err.open("wb") as to_err:
            process = subprocess.Popen(command, stdout=to_out, stderr=to_err, env=self.environment())
            self._watch.add(CLIENT, process.pid)
            status, cpu_s = wait_for_cpu_seconds(process.pid)
            process.returncode = status
            self._watch.finish(CLIENT, cpu_s)
        if status != 0:
            raise RuntimeError(f"{command[-1]} ended with {status}: {err.read_text(errors='replace')[-2000:]}")
        return out.read_text(errors="replace")

    @staticmethod
    def environment() -> dict[str, str]:
        paths = [str(TESTS), str(TESTS.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}

    # -- Spark --

    def spark(self, contender: Contender, *, is_compiled: bool = False) -> BenchSparkProcess:
        """Ours and the connector of the peer have a process each; both doors of ours share one. `is_compiled`: one with
        conf/compiled_pyspark; the peer has no use for it."""
        is_peer = contender is Contender.KAFKA
        label = _spark_label(is_peer, is_compiled)
        if label not in self._sparks:
            process = BenchSparkProcess(
                self.folder / label.replace(" ", "-"),
                self._spark_path,
                with_connector=is_peer,
                is_compiled=is_compiled and not is_peer,
            )
            self._sparks[label] = process
            self._watch.add(label, process.pid)
        return self._sparks[label]

    def close(self) -> None:
        for process in self._sparks.values():
            process.close()
        for broker in self._brokers.values():
            broker.stop()
        if self._object_storage is not None:
            self._object_storage.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _spark_label(is_peer: bool, is_compiled: bool) -> str:
    return "Spark of the peer" if is_peer else "Spark, compiled" if is_compiled else "Spark"
