"""A Spark application that works on orders: a process with a session, which lives through the run.

Orders and answers are lines of JSON; answers have a mark before them, because Java writes to the same stdout.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from support.brokers.kafka_tools import CACHE

ANSWER_MARK = "@answer "
ANSWER_SECONDS = 1800
START_SECONDS = 300
PYSPARK_VERSION = "4.2.0"
PYSPARK_FOLDER = CACHE / f"pyspark-{PYSPARK_VERSION}"
CONNECTOR_FOLDER = CACHE / f"spark-kafka-{PYSPARK_VERSION}"
_CONNECTOR_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>peers</groupId><artifactId>peers</artifactId><version>1</version><packaging>pom</packaging><dependencies>{}
</dependencies></project>"""
_CONNECTOR_JARS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", PYSPARK_VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", PYSPARK_VERSION),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)
TESTS = Path(__file__).parent.parent


def bring_pyspark() -> str:
    """The folder of the PySpark that both sides of a comparison use; by pip, once."""
    if not (PYSPARK_FOLDER / "pyspark").is_dir():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(PYSPARK_FOLDER)]
        subprocess.run([*install, f"pyspark=={PYSPARK_VERSION}"], check=True, stdout=sys.stderr)
    return str(PYSPARK_FOLDER)


def bring_connector() -> None:
    """The jars of Spark's own Kafka connector; by Maven, once."""
    if CONNECTOR_FOLDER.is_dir() and any(CONNECTOR_FOLDER.iterdir()):
        return
    project = CACHE / f"spark-kafka-{PYSPARK_VERSION}-pom"
    project.mkdir(parents=True, exist_ok=True)
    line = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
    (project / "pom.xml").write_text(_CONNECTOR_POM.format("".join(line.format(*jar) for jar in _CONNECTOR_JARS)))
    copy = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={CONNECTOR_FOLDER}"]
    subprocess.run([*copy, "-DexcludeTransitive=true"], cwd=project, check=True, stdout=sys.stderr)


class BenchSparkProcess:
    """Started when made; the first order waits until the session is there."""

    def __init__(self, folder: Path, spark_path: str | None, *, with_connector: bool, is_compiled: bool) -> None:
        folder.mkdir(parents=True)
        jars = ":".join(str(jar) for jar in sorted(CONNECTOR_FOLDER.glob("*.jar"))) if with_connector else ""
        paths = [*filter(None, [spark_path]), str(TESTS), str(TESTS.parent)]
        if is_compiled:
            paths.append(str(TESTS.parent / "conf" / "compiled_pyspark"))
        self._log = folder / "spark.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.spark_program", str(folder), jars],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                env=os.environ
                | {
                    "PYTHONPATH": os.pathsep.join(paths),
                    "PYSPARK_PYTHON": sys.executable,
                    "PYSPARK_DRIVER_PYTHON": sys.executable,
                },
            )
        self._answers: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        self._take_answer(START_SECONDS)

    @property
    def pid(self) -> int:
        return self._process.pid

    def order(self, work: str, **arguments: object) -> dict[str, Any]:
        """What came of it. Raises RuntimeError with Spark's reason."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"work": work, **arguments}) + "\n")
        self._process.stdin.flush()
        return self._take_answer(ANSWER_SECONDS)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(ANSWER_MARK):
                self._answers.put(line.removeprefix(ANSWER_MARK))
        self._answers.put(None)

    def _take_answer(self, seconds: float) -> dict[str, Any]:
        line = self._answers.get(timeout=seconds)
        if line is None:
            raise RuntimeError(f"Spark has ended: {self._log.read_text(errors='replace')[-2000:]}")
        answer = dict(json.loads(line))
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer
