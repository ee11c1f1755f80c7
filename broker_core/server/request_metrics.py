"""Counters of requests, with Kafka's meanings: number, duration, size, errors, and the traffic of each topic.

Incoming records are counted when their append was acknowledged without an error, outgoing ones when they are passed to
the connection. Errors are all error codes of an answer, at any level, as in Kafka's `ErrorsPerSec`; an answer without
errors counts once as NONE.
"""

from __future__ import annotations

import struct
from collections import Counter as Tally
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Final, get_args
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload
from prometheus_client import CollectorRegistry, Counter, Histogram

from broker_core.protocol.api_table import ApiKey, api_label
from broker_core.protocol.connection import Request

_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 60.0, 300.0)
_BATCH_LENGTH: Final = struct.Struct(">i")
_BATCH_LENGTH_AT: Final = 8
_BATCH_HEADER_BYTES: Final = 61
_BATCH_COUNT_AT: Final = 57
_BEFORE_LENGTH_BYTES: Final = 12
_NEWEST: Final = "unknown"


class RequestMetrics:
    """A `RequestObserver`. `topic_name` returns the name of a topic id, None if it is unknown."""

    def __init__(self, registry: CollectorRegistry, topic_name: Callable[[UUID], str | None]) -> None:
        self._topic_name = topic_name
        self._requests = Counter("kafka_network_request_count", "Requests.", ["request", "version"], registry=registry)
        self._errors = Counter(
            "kafka_network_request_errors", "Error codes in responses, NONE for success.", ["request", "error"],
            registry=registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "kafka_network_request_total_time_seconds", "Time from a received request to its response.", ["request"],
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self._request_bytes = Counter(
            "kafka_network_request_bytes", "Bytes of requests.", ["request"], registry=registry
        )
        self._answer_bytes = Counter(
            "kafka_network_response_bytes", "Bytes of responses.", ["request"], registry=registry
        )
        self._traffic = {
            name: Counter(f"kafka_server_topic_{name}", text, ["topic"], registry=registry)
            for name, text in (
                ("messages_in", "Appended records."),
                ("bytes_in", "Bytes of appended batches."),
                ("bytes_out", "Bytes of fetched batches."),
                ("bytes_rejected", "Bytes of refused batches."),
                ("produce_requests", "Partitions in produce requests."),
                ("fetch_requests", "Partitions in fetch requests."),
                ("failed_produce_requests", "Partitions in produce requests that failed."),
                ("failed_fetch_requests", "Partitions in fetch requests that failed."),
            )
        }

    def on_answer(self, request: Request, message: ResponsePayload | None, answer_bytes: int, seconds: float) -> None:
        label = api_label(request.api_key)
        self._requests.labels(label, str(request.api_version)).inc()
        self._seconds.labels(label).observe(seconds)
        self._request_bytes.labels(label).inc(request.size_bytes)
        self._answer_bytes.labels(label).inc(answer_bytes)
        for code, count in _error_codes(message).items():
            self._errors.labels(label, code.name.upper()).inc(count)
        if request.message is None:
            return
        if request.api_key == ApiKey.PRODUCE:
            self._on_produce(request.message, message)
        elif request.api_key == ApiKey.FETCH and message is not None:
            self._on_fetch(message)

    def _on_produce(self, asked: Any, answer: Any) -> None:
        refused = {
            (_topic_of(topic), partition.index)
            for topic in (answer.responses if answer is not None else ())
            for partition in topic.partition_responses
            if partition.error_code != ErrorCode.none
        }
        for topic in asked.topic_data:
            key = _topic_of(topic)
            name = self._named(key)
            for partition in topic.partition_data:
                size_bytes = len(partition.records or b"")
                self._count("produce_requests", name)
                if (key, partition.index) in refused:
                    self._count("failed_produce_requests", name)
                    self._count("bytes_rejected", name, size_bytes)
                else:
                    self._count("bytes_in", name, size_bytes)
                    self._count("messages_in", name, sum(_record_counts(partition.records or b"")))

    def _on_fetch(self, answer: Any) -> None:
        for topic in answer.responses:
            name = self._named(_topic_of(topic))
            for partition in topic.partitions:
                self._count("fetch_requests", name)
                if partition.error_code != ErrorCode.none:
                    self._count("failed_fetch_requests", name)
                self._count("bytes_out", name, len(partition.records or b""))

    def _named(self, key: str | UUID | None) -> str:
        if isinstance(key, str):
            return key
        return (self._topic_name(key) if key is not None else None) or _NEWEST

    def _count(self, what: str, topic: str, by: int = 1) -> None:
        self._traffic[what].labels(topic).inc(by)


def _topic_of(topic: Any) -> Any:
    """The name in older versions, the id in newer ones."""
    for name in ("name", "topic", "topic_id"):
        found = getattr(topic, name, None)
        if found is not None:
            return found
    return None


def _record_counts(records: Any) -> Iterator[int]:
    """The record count of each batch. The batches were validated before; stops at an invalid length."""
    view = memoryview(records)
    position = 0
    while position + _BATCH_HEADER_BYTES <= len(view):
        (length,) = _BATCH_LENGTH.unpack_from(view, position + _BATCH_LENGTH_AT)
        (count,) = _BATCH_LENGTH.unpack_from(view, position + _BATCH_COUNT_AT)
        if length <= 0:
            return
        yield max(0, count)
        position += _BEFORE_LENGTH_BYTES + length


def _error_codes(message: Any) -> Tally[ErrorCode]:
    found: Tally[ErrorCode] = Tally()
    if message is not None:
        _gather(message, found)
    del found[ErrorCode.none]
    return found or Tally([ErrorCode.none])


def _gather(message: Any, found: Tally[ErrorCode]) -> None:
    kind: Any = type(message)
    codes, structures, arrays = _places_of_codes(kind)
    for name in codes:
        found[getattr(message, name)] += 1
    for name in structures:
        inner = getattr(message, name)
        if inner is not None:
            _gather(inner, found)
    for name in arrays:
        for element in getattr(message, name) or ():
            _gather(element, found)


@cache
def _places_of_codes(kind: Any) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The names of the fields that are error codes, of structures that may contain some, and of arrays of such."""
    codes: list[str] = []
    structures: list[str] = []
    arrays: list[str] = []
    for field in fields(kind):
        if field.metadata.get("kafka_type") == "error_code":
            codes.append(field.name)
            continue
        inner: Any = _structure_in(field.type)
        if inner is None or not any(_places_of_codes(inner)):
            continue
        (arrays if "tuple" in str(field.type) else structures).append(field.name)
    return tuple(codes), tuple(structures), tuple(arrays)


def _structure_in(type_: Any) -> type[Any] | None:
    if isinstance(type_, type) and is_dataclass(type_):
        return type_
    return next((inner for inner in map(_structure_in, get_args(type_)) if inner is not None), None)
