"""Where Spark reads and writes: a topic in our directory, on object storage, at our broker, or at Kafka through Spark's
own connector.
"""

from __future__ import annotations

from typing import Any

from bench.card import Contender
from bench.object_storage import LOG_URL
from bench.row_values import ReadTally, check_tally, expected_tally
from bench.stage import Stage
from bench.topic_admin import create_topic, delete_topic

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.object_cluster.open_objects import open_objects

PARTITIONS = 4
VALUE_BYTES = 100
CONTENDERS = (Contender.EMBEDDED, Contender.BROKER, Contender.KAFKA)


def new_topic(stage: Stage, contender: Contender) -> str:
    name = stage.new_name("spark")
    if contender is Contender.EMBEDDED:
        with open_embedded(directory(stage), create=True) as cluster:
            cluster.create_topic(name, partition_count=PARTITIONS, configs={"retention.ms": "-1"})
    elif contender.added_delay_ms is not None:
        with open_objects(LOG_URL, stage.object_storage.options(0), create=True) as objects:
            objects.create_topic(name, partition_count=PARTITIONS, configs={"retention.ms": "-1"})
    else:
        create_topic(stage.broker(contender).bootstrap, name, PARTITIONS)
    return name


def drop_topic(stage: Stage, contender: Contender, name: str) -> None:
    if contender is Contender.EMBEDDED:
        with open_embedded(directory(stage)) as cluster:
            cluster.delete_topic(name)
    elif contender.added_delay_ms is not None:
        with open_objects(LOG_URL, stage.object_storage.options(0)) as objects:
            objects.delete_topic(name)
            objects.maintain(grace_ms=0)
    else:
        delete_topic(stage.broker(contender).bootstrap, name)


def directory(stage: Stage) -> str:
    return str(stage.folder / "embedded")


def source(stage: Stage, contender: Contender, topic: str) -> dict[str, Any]:
    return _place(stage, contender, {"subscribe": topic})


def sink(stage: Stage, contender: Contender, topic: str) -> dict[str, Any]:
    return _place(stage, contender, {"topic": topic})


def _place(stage: Stage, contender: Contender, options: dict[str, str]) -> dict[str, Any]:
    if contender is Contender.EMBEDDED:
        return {"format": "streamlog", "options": options, "path": directory(stage)}
    if contender.added_delay_ms is not None:
        options = options | stage.object_storage.options(contender.added_delay_ms)
        return {"format": "streamlog", "options": options, "path": LOG_URL}
    options = options | {"kafka.bootstrap.servers": stage.broker(contender).bootstrap}
    return {"format": "kafka" if contender is Contender.KAFKA else "streamlog", "options": options, "path": ""}


def feeding(stage: Stage, contender: Contender) -> dict[str, Any]:
    """Where the feeder writes."""
    if contender is Contender.EMBEDDED:
        return {"path": directory(stage), "bootstrap": "", "options": {}}
    if contender.added_delay_ms is not None:
        options = stage.object_storage.options(contender.added_delay_ms)
        return {"path": LOG_URL, "bootstrap": "", "options": options}
    return {"path": "", "bootstrap": stage.broker(contender).bootstrap, "options": {}}


def written_topic(stage: Stage, contender: Contender) -> str:
    """One with the numbered rows of the scale, written by Spark once in a run and checked; the same with any delay."""
    contender = Contender.OBJECTS if contender.added_delay_ms is not None else contender
    key = ("written topic", contender)
    if key not in stage.remembered:
        topic = new_topic(stage, contender)
        stage.spark(contender).order("write", place=sink(stage, contender, topic), rows=stage.scale.spark_rows)
        check_rows(stage, contender, topic, stage.scale.spark_rows)
        stage.remembered[key] = topic
    return str(stage.remembered[key])


def check_rows(stage: Stage, contender: Contender, topic: str, rows: int) -> None:
    """Reads the whole topic and holds count, bytes and the sum of the numbers in the values against arithmetic."""
    found = stage.spark(contender).order("count_all", place=source(stage, contender, topic))
    check_tally(ReadTally(**found), expected_tally(rows, VALUE_BYTES), topic)


def checkpoint(stage: Stage) -> str:
    return str(stage.folder / stage.new_name("checkpoint"))
