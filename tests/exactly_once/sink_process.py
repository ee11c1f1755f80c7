"""What Spark's Python processes do with the streaming sink, without a JVM: plan, write, commit, abort, each in its own.

They use the data source as Spark does: planning makes a new one, tasks get its writer, commit gets one that was handed
over. Each sends one answer, (kind, value), and ends; the kind "failed" comes with what was raised.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa
from exactly_once.injected import kill_switch
from pyspark import TaskContext, cloudpickle
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from spark_streamlog.data_source import StreamlogDataSource

Row = tuple[str, str, bytes]
"""Topic, key, value."""
SCHEMA = StructType(
    [StructField("topic", StringType()), StructField("key", StringType()), StructField("value", BinaryType())]
)
ARROW_SCHEMA = pa.schema([("topic", pa.string()), ("key", pa.string()), ("value", pa.binary())])
ROWS_PER_APPEND = 3

pa.array(["x"])  # pyarrow imports pandas now, not in each process that is forked from the one that imports this


def plan(connection: Connection, kill_folder: Path, options: Mapping[str, str]) -> None:
    """Answers ("planned", the writer)."""
    kill_switch.install(str(kill_folder))
    try:
        writer = StreamlogDataSource(dict(options)).streamWriter(SCHEMA, False)
    except Exception as error:
        connection.send(("failed", str(error)))
    else:
        connection.send(("planned", cloudpickle.dumps(writer)))


def write(
    connection: Connection,
    kill_folder: Path,
    pickled_writer: bytes,
    context: Mapping[str, Any],
    rows: Sequence[Row],
) -> None:
    """Answers ("written", the message to the driver)."""
    kill_switch.install(str(kill_folder))
    TaskContext(**context)
    writer = cloudpickle.loads(pickled_writer)
    # So small that a task appends several times.
    writer._options = replace(writer._options, producer=replace(writer._options.producer, gather_bytes=1))
    batches = (
        pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in some], schema=ARROW_SCHEMA)
        for some in (rows[first : first + ROWS_PER_APPEND] for first in range(0, len(rows), ROWS_PER_APPEND))
    )
    try:
        message = writer.write(batches)
    except Exception as error:
        connection.send(("failed", str(error)))
    else:
        connection.send(("written", cloudpickle.dumps(message)))


def end(
    connection: Connection,
    kill_folder: Path,
    options: Mapping[str, str],
    messages: Sequence[bytes | None],
    batch: int,
    method: str,
) -> None:
    """`method` is commit or abort. Answers ("ended", None)."""
    kill_switch.install(str(kill_folder))
    source = cloudpickle.loads(cloudpickle.dumps(StreamlogDataSource(dict(options))))
    told = [None if message is None else cloudpickle.loads(message) for message in messages]
    try:
        getattr(source.streamWriter(SCHEMA, False), method)(told, batch)
    except Exception as error:
        connection.send(("failed", str(error)))
    else:
        _finish_maintenance()
        connection.send(("ended", None))


def _finish_maintenance() -> None:
    """Waits for threads that the commit started, as Spark's process stays for a while."""
    for thread in threading.enumerate():
        if thread.name == "streamlog-object-maintenance":
            thread.join()
