"""The file of `partitions reassign`, in the form of kafka-reassign-partitions:

{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 3]}, ...]}

`log_dirs` may be there with "any" for each replica: brokers choose the directory.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from broker_core.cli.error_sentence import UsageError
from broker_core.model.identifiers import TopicPartition

_FIELDS: Final = frozenset({"topic", "partition", "replicas", "log_dirs"})


def read_reassignments(path: Path) -> dict[TopicPartition, tuple[int, ...]]:
    """Raises UsageError that says what is wrong and where, OSError for a file that cannot be read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("partitions"), list):
        raise UsageError(f'{path} has no list "partitions"')
    if document.get("version", 1) != 1:
        raise UsageError(f"{path} has version {document['version']!r}; supported is 1")
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for index, entry in enumerate(document["partitions"]):
        where = f"{path}: partitions[{index}]"
        partition, replicas = _entry(entry, where)
        if partition in found:
            raise UsageError(f"{where}: {partition} is there twice")
        found[partition] = replicas
    if not found:
        raise UsageError(f"{path} names no partition")
    return found


def check_replicas(replicas: tuple[int, ...], where: str) -> tuple[int, ...]:
    """Raises UsageError for no replica, or one that is there twice."""
    if not replicas:
        raise UsageError(f"{where}: no replicas are given")
    for replica in replicas:
        if replicas.count(replica) > 1:
            raise UsageError(f"{where}: broker {replica} is there twice")
    return replicas


def _entry(entry: Any, where: str) -> tuple[TopicPartition, tuple[int, ...]]:
    if not isinstance(entry, dict):
        raise UsageError(f"{where} is not an object")
    unknown = sorted(entry.keys() - _FIELDS)
    if unknown:
        raise UsageError(f"{where} has unknown fields: {', '.join(unknown)}")
    topic, number, replicas = (entry.get(name) for name in ("topic", "partition", "replicas"))
    if not isinstance(topic, str) or not topic:
        raise UsageError(f'{where}: "topic" is not a name')
    if not isinstance(number, int) or not _is_id(number):
        raise UsageError(f'{where}: "partition" is not a number')
    if not isinstance(replicas, list) or not all(map(_is_id, replicas)):
        raise UsageError(f'{where}: "replicas" is not a list of broker ids')
    directories = entry.get("log_dirs", [])
    if not isinstance(directories, list) or any(each != "any" for each in directories):
        raise UsageError(f'{where}: "log_dirs" may only say "any": replicas are not moved between directories here')
    return TopicPartition(topic, number), check_replicas(tuple(replicas), where)


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
