"""Schemas by id and by subject: the interface of a registry, and the cache in front of it.

A registry is either Confluent's REST interface (`http_registry`) or a JSON file with the same meaning
(`file_registry`). Ids never change their meaning, so they are cached for the life of a process; the latest version of a
subject is requested each time. An unknown id is not requested again for a minute. If a thousand ids were unknown within
one minute, the query fails, because the registry is probably not the one of these values.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

from spark_streamlog.serde.limits import MAX_CACHED_SCHEMAS, MAX_UNKNOWN_SCHEMA_IDS, UNKNOWN_SCHEMA_ID_SECONDS
from spark_streamlog.serde.serde_errors import SchemaRegistryError, UnknownSchemaError

AVRO = "AVRO"
PROTOBUF = "PROTOBUF"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryTarget:
    """The location of a registry: the `urls` of one over HTTP, in the order they are tried, or the `path` of a file.

    `user_info` is `user:password`; it appears in no message.
    """

    urls: tuple[str, ...] = field(default=(), repr=False)
    path: str | None = None
    user_info: str | None = field(default=None, repr=False)
    timeout_seconds: float = 10.0

    def __str__(self) -> str:
        return self.path or ", ".join(shown_url(url) for url in self.urls)


def shown_url(url: str) -> str:
    """The URL for messages: without the user and password that it may contain."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSchema:
    """`references` are the schemas that the text refers to, each after those that it refers to itself."""

    schema_id: int
    schema_type: str
    text: str
    references: tuple[str, ...] = ()


class SchemaRegistry(Protocol):
    """Every method raises UnknownSchemaError if the schema does not exist, else SchemaRegistryError for an error."""

    def schema_by_id(self, schema_id: int) -> RegisteredSchema: ...

    def latest(self, subject: str) -> RegisteredSchema: ...

    def find_id(self, subject: str, text: str, schema_type: str) -> int:
        """The id of a schema that the subject already has."""

    def register(self, subject: str, text: str, schema_type: str) -> int:
        """Returns the id of the schema. If the subject does not have it, it becomes the subject's latest version."""


class CachedRegistry:
    def __init__(self, registry: SchemaRegistry, *, now: Callable[[], float] = time.monotonic) -> None:
        self._registry = registry
        self._now = now
        self._known: dict[int, RegisteredSchema] = {}
        self._unknown: dict[int, tuple[float, str]] = {}

    def schema_by_id(self, schema_id: int) -> RegisteredSchema:
        known = self._known.get(schema_id)
        return known if known is not None else self._ask(schema_id)

    def latest(self, subject: str) -> RegisteredSchema:
        return self._registry.latest(subject)

    def find_id(self, subject: str, text: str, schema_type: str) -> int:
        return self._registry.find_id(subject, text, schema_type)

    def register(self, subject: str, text: str, schema_type: str) -> int:
        return self._registry.register(subject, text, schema_type)

    def _ask(self, schema_id: int) -> RegisteredSchema:
        asked_at, reason = self._unknown.get(schema_id, (-math.inf, ""))
        oldest = self._now() - UNKNOWN_SCHEMA_ID_SECONDS
        if asked_at > oldest:
            raise UnknownSchemaError(reason)
        if len(self._unknown) >= MAX_UNKNOWN_SCHEMA_IDS:
            self._unknown = {known: found for known, found in self._unknown.items() if found[0] > oldest}
        if len(self._unknown) >= MAX_UNKNOWN_SCHEMA_IDS:
            raise SchemaRegistryError(
                f"{MAX_UNKNOWN_SCHEMA_IDS} schema ids were not found within {UNKNOWN_SCHEMA_ID_SECONDS:.0f} seconds, "
                f"so schema id {schema_id} is not looked up: the values may belong to another registry"
            )
        try:
            found = self._registry.schema_by_id(schema_id)
        except UnknownSchemaError as error:
            self._unknown[schema_id] = (self._now(), error.message)
            raise
        if len(self._known) >= MAX_CACHED_SCHEMAS:
            self._known.clear()
        self._unknown.pop(schema_id, None)
        self._known[schema_id] = found
        return found
