"""PySpark 4.2.0 with Spark's own Kafka connector, in a process of its own: the tests may run beside a newer PySpark.

`python spark_kafka_process.py` takes lines of JSON, {"do": a method of ConnectorSession, "with": its arguments}, and
answers each with {"value": …} or {"an error": the traceback}. `SparkKafka` is the side of the tests.

PySpark comes by pip and the connector's jars by Maven, once, into $STREAMLOG_PEERS.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

SPARK_VERSION, PY4J_VERSION = "4.2.0", "0.10.9.9"
ROOT = Path(__file__).parents[3]
SECONDS = 240
# What a query sees of a record, in text.
_COLUMNS = (
    "CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value", "topic", "partition", "offset",
    "unix_millis(timestamp) AS timestamp",
)  # fmt: skip
_HEADERS = "transform(headers, h -> struct(h.key, CAST(h.value AS STRING) AS value)) AS headers"
_ROW = "topic STRING, partition INT, key STRING, value STRING, headers ARRAY<STRUCT<key: STRING, value: STRING>>"
_TO_WRITE = {
    "key": "CAST(key AS BINARY) AS key", "value": "CAST(value AS BINARY) AS value",
    "headers": "transform(headers, h -> struct(h.key, CAST(h.value AS BINARY) AS value)) AS headers",
}  # fmt: skip


class ConnectorSession:
    """Runs in the process; `format` is kafka or streamlog."""

    def __init__(self, jars: str, folder: str) -> None:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").appName("the connector's tests")
        settings = {
            "spark.driver.extraClassPath": jars, "spark.driver.memory": "1g", "spark.ui.enabled": "false",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC", "spark.sql.warehouse.dir": f"{folder}/warehouse",
            # Failures are found by their first attempt.
            "spark.task.maxFailures": "1",
        }  # fmt: skip
        for name, value in settings.items():
            builder = builder.config(name, value)
        self._spark = builder.getOrCreate()
        self._spark.sparkContext.setLogLevel("ERROR")
        self._running: dict[str, Any] = {}

    def version(self) -> str:
        return str(self._spark.version)

    def read(self, format: str, options: dict[str, Any]) -> list[dict[str, Any]]:
        """The records of a batch."""
        return self._rows(_shown(self._spark.read.format(format).options(**options).load()))

    def partition_count(self, options: dict[str, Any]) -> int:
        return int(self._spark.read.format("kafka").options(**options).load().rdd.getNumPartitions())

    def write(self, format: str, options: dict[str, Any], records: list[dict[str, Any]]) -> None:
        """As a batch; only the columns that the first record has."""
        frame = self._spark.createDataFrame(records, _ROW).selectExpr(*_columns_to_write(records[0]))
        frame.write.format(format).options(**options).mode("append").save()

    def files(self, folder: str) -> list[dict[str, Any]]:
        """What `stream_to_files` has written."""
        return self._rows(self._spark.read.json(folder)) if any(Path(folder).glob("*.json")) else []

    def stream_to_files(self, options: dict[str, Any], folder: str, name: str = "") -> list[int]:
        """From Kafka into files, all that is there; how many records each micro-batch had. With a name it goes on until
        it is stopped."""
        frame = _shown(self._spark.readStream.format("kafka").options(**options).load())
        writer = frame.writeStream.format("json").option("checkpointLocation", f"{folder}.checkpoint")
        if not name:
            return self._to_the_end(writer.trigger(availableNow=True).start(folder))
        self._running[name] = writer.trigger(processingTime="100 milliseconds").start(folder)
        return []

    def copy(
        self, source: str, reading: dict[str, Any], sink: str, writing: dict[str, Any], checkpoint: str
    ) -> list[int]:
        """A stream from topic to topic, all that is there."""
        frame = self._spark.readStream.format(source).options(**reading, includeHeaders="true").load()
        records = frame.select("key", "value", "partition", "headers")
        writer = records.writeStream.format(sink).options(**writing).option("checkpointLocation", checkpoint)
        return self._to_the_end(writer.trigger(availableNow=True).start())

    def catch_up(self, name: str) -> None:
        self._running[name].processAllAvailable()

    def stop(self, name: str) -> list[int]:
        query = self._running.pop(name)
        query.stop()
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]

    def _to_the_end(self, query: Any) -> list[int]:
        query.awaitTermination()
        return [progress.numInputRows for progress in query.recentProgress]

    def _rows(self, frame: Any) -> list[dict[str, Any]]:
        return [row.asDict(recursive=True) for row in frame.collect()]


def _shown(frame: Any) -> Any:
    return frame.selectExpr(*_COLUMNS, *([_HEADERS] if "headers" in frame.columns else []))


def _columns_to_write(record: dict[str, Any]) -> list[str]:
    return [_TO_WRITE.get(name, name) for name in ("topic", "partition", "key", "value", "headers") if name in record]


class SparkKafka:
    """The process, from the side of the tests: `spark.read(format="kafka", options={…})`."""

    def __init__(self, python_path: Path, jars: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        paths = (ROOT / "tests" / "warm_workers", python_path, ROOT)
        environment = {
            **os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_HOME": str(python_path / "pyspark"),
        }  # fmt: skip
        self._log = (folder / "spark.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, __file__, jars, str(folder)], env=environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self._log, text=True, cwd=folder,
        )  # fmt: skip
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def __getattr__(self, name: str) -> Any:
        def ask(**given: Any) -> Any:
            self._process.stdin.write(json.dumps({"do": name, "with": given}) + "\n")
            self._process.stdin.flush()
            answer = json.loads(self._answers.get(timeout=SECONDS))
            if "error" in answer:
                raise ProcessFailed(answer["error"])
            return answer["value"]

        return ask

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(60)
        self._log.close()

    def _listen(self) -> None:
        for line in self._process.stdout:
            if line.startswith("{"):
                self._answers.put(line)


class ProcessFailed(Exception):
    """What went wrong in the process, with its traceback."""


def main(jars: str, folder: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed is no answer
    session = None
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            session = session or ConnectorSession(jars, folder)
            answer = {"value": getattr(session, asked["do"])(**asked["with"])}
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
