"""Kafka's own metadata records and image, asked: KafkaMetadata.java beside this file, run over Kafka's jars."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from uuid import UUID

from support.brokers.kafka_tools import JARS

from broker_core.metadata.metadata_schemas import RECORD_TYPES, SCHEMAS
from broker_core.model.identifiers import TopicPartition

FOLDER = Path(__file__).parent
ORACLE = FOLDER / "KafkaMetadata.java"
METADATA_PARTITION = TopicPartition("__cluster_metadata", 0)
TYPES = {kind.api_key: kind for kind in RECORD_TYPES}


def asked(lines):
    """The answers of Kafka's classes, one for each line that has one."""
    options = ["-Xmx512M", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    result = subprocess.run(
        ["java", *options, "-cp", f"{JARS}/*", str(ORACLE)],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout.splitlines()


def camel(name):
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def to_json(value, version):
    """The JSON that Kafka's tools print of a record: names in camel case, ids and bytes in base64."""
    found = {}
    for field in SCHEMAS[type(value)].fields:
        given = getattr(value, field.name)
        if field.since > version or (field.tag is not None and given == field.default):
            continue
        is_list = field.is_array and given is not None
        found[camel(field.name)] = (
            [_one_to_json(i, version) for i in given] if is_list else _one_to_json(given, version)
        )
    return found


def _one_to_json(value, version):
    if isinstance(value, UUID):
        return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return to_json(value, version) if type(value) in SCHEMAS else value


def from_json(kind, data, version=None):
    """The record, or the structure, in Kafka's JSON: the other way of `to_json`."""
    values = {} if version is None else {"version": version}
    for field in SCHEMAS[kind].fields:
        if camel(field.name) in data:
            given = data[camel(field.name)]
            is_list = field.is_array and given is not None
            values[field.name] = (
                tuple(_one_from_json(field.kind, i) for i in given) if is_list else _one_from_json(field.kind, given)
            )
    return kind(**values)


def _one_from_json(kind, value):
    if value is None:
        return None
    if kind == "uuid":
        return UUID(bytes=base64.urlsafe_b64decode(value + "=="))
    if kind == "bytes":
        return base64.b64decode(value)
    return from_json(kind, value) if isinstance(kind, type) else value
