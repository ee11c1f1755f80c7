"""A schema registry in one JSON file, for those who have none running.

    {"schemas": [{"id": 1, "subject": "orders-value", "version": 1, "schemaType": "AVRO", "schema": …}, …],
     "compatibility": "BACKWARD", "subjects": {"orders-value": {"compatibility": "FULL"}}}

`schema` is the text, or for Avro the JSON itself; `schemaType` is AVRO where it is missing. An id belongs to one text,
whatever the subject, as in Confluent's registry. The file can be written by hand; registering writes it anew beside
itself under a lock (`<path>.lock`) and moves it into place, so that a reader sees the old one or the new one. It is
read again whenever it has changed.

A new version of a subject has to be compatible as its level asks, or else that of the whole file, which is BACKWARD
where the file says nothing: see `compatibility_level`. Only Avro is registered here, so only Avro is compared. What is
written into the file by hand is taken as it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from spark_streamlog.serde.compatibility_level import DEFAULT_LEVEL, CompatibilityLevel, broken_promise
from spark_streamlog.serde.limits import MAX_SCHEMA_BYTES
from spark_streamlog.serde.schema_registry import AVRO, RegisteredSchema
from spark_streamlog.serde.serde_errors import InvalidSchemaError, SchemaRegistryError, UnknownSchemaError

MAX_FILE_BYTES = 64 * MAX_SCHEMA_BYTES


class FileRegistry:
    def __init__(self, path: str) -> None:
        self._path = path
        self._document: dict[str, Any] = {"schemas": []}
        self._seen: tuple[int, ...] | None = None

    def check(self, *, may_be_missing: bool) -> None:
        """Reads it. Raises SchemaRegistryError where it cannot be read, is none, or does not exist and has to: one that
        is made later needs its folder."""
        self._read()
        if self._seen is not None:
            return
        if not os.path.isdir(os.path.dirname(os.path.abspath(self._path))):
            raise SchemaRegistryError(f"the schema registry {self._path} does not exist, nor does its folder")
        if not may_be_missing:
            raise SchemaRegistryError(f"the schema registry {self._path} does not exist")

    def schema_by_id(self, schema_id: int) -> RegisteredSchema:
        for entry in self._read():
            if entry["id"] == schema_id:
                return _schema(entry)
        raise self._unknown(f"has no schema id {schema_id}")

    def latest(self, subject: str) -> RegisteredSchema:
        versions = [entry for entry in self._read() if entry["subject"] == subject]
        if not versions:
            raise self._unknown(f"has no subject {subject!r}")
        return _schema(max(versions, key=lambda entry: entry["version"]))

    def find_id(self, subject: str, text: str, schema_type: str) -> int:
        wanted = _meaning(text, schema_type)
        for entry in self._read():
            if entry["subject"] == subject and _meaning_of(entry) == wanted:
                return int(entry["id"])
        raise self._unknown(f"does not have that schema under {subject!r}")

    def register(self, subject: str, text: str, schema_type: str) -> int:
        with self._locked():
            entries = self._read()
            wanted = _meaning(text, schema_type)
            same = [entry for entry in entries if _meaning_of(entry) == wanted]
            for entry in same:
                if entry["subject"] == subject:
                    return int(entry["id"])
            if schema_type == AVRO:
                self._require_compatible(subject, text, [e for e in entries if e["subject"] == subject])
            schema_id = same[0]["id"] if same else max((entry["id"] for entry in entries), default=0) + 1
            version = max((e["version"] for e in entries if e["subject"] == subject), default=0) + 1
            kept = json.loads(text) if schema_type == AVRO else text
            added = {"id": schema_id, "subject": subject, "version": version, "schemaType": schema_type, "schema": kept}
            self._write({**self._document, "schemas": [*entries, added]})
            return int(schema_id)

    def _require_compatible(self, subject: str, text: str, versions: list[dict[str, Any]]) -> None:
        level = _level_of(self._document, subject)
        if level is CompatibilityLevel.NONE or not versions:
            return
        ascending = sorted(versions, key=lambda entry: entry["version"])
        others = [entry for entry in ascending if entry.get("schemaType", AVRO) != AVRO]
        try:
            reason = (
                f"version {others[-1]['version']} is {others[-1]['schemaType']} and no {AVRO}"
                if others
                else broken_promise(level, text, [(entry["version"], _schema(entry).text) for entry in ascending])
            )
        except InvalidSchemaError as error:
            reason = f"it cannot be compared with the versions there ({error.message})"
        if reason is not None:
            raise SchemaRegistryError(
                f"the schema registry {self._path} refuses a new schema for the subject {subject!r}, whose level is "
                f"{level.value}: {reason}. Change the schema, write under another subject, or set another level in the "
                f'file: "subjects": {{"{subject}": {{"compatibility": "NONE"}}}}'
            )

    def _read(self) -> list[dict[str, Any]]:
        try:
            with open(self._path, "rb") as file:
                found = os.fstat(file.fileno())
                seen = (found.st_ino, found.st_mtime_ns, found.st_size)
                if seen != self._seen:
                    self._document = self._checked(file.read(MAX_FILE_BYTES + 1))
                    self._seen = seen
        except FileNotFoundError:
            # Registering makes it; until then there is nothing in it.
            self._document, self._seen = {"schemas": []}, None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise SchemaRegistryError(f"the schema registry {self._path} cannot be read: {reason}") from None
        return list(self._document["schemas"])

    def _unknown(self, what: str) -> UnknownSchemaError:
        remark = ": the file does not exist" if self._seen is None else ""
        return UnknownSchemaError(f"the schema registry {self._path} {what}{remark}")

    def _checked(self, content: bytes) -> dict[str, Any]:
        if len(content) > MAX_FILE_BYTES:
            raise SchemaRegistryError(f"the schema registry {self._path} has more than {MAX_FILE_BYTES} bytes")
        try:
            document = json.loads(content)
            for entry in document["schemas"]:
                if not isinstance(entry["subject"], str) or not isinstance(entry["schema"], str | dict | list):
                    raise TypeError(f"an entry is {str(entry)[:80]}")
                for name in ("id", "version"):
                    if not isinstance(entry[name], int) or isinstance(entry[name], bool):
                        raise TypeError(f"{name} is {entry[name]!r}")
            for subject in ("", *document.get("subjects", {})):
                _level_of(document, subject)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise SchemaRegistryError(
                f"the schema registry {self._path} is none: {error!r}. Expected "
                '{"schemas": [{"id": 1, "subject": "…", "version": 1, "schema": …}, …]}'
            ) from None
        return dict(document)

    def _write(self, document: dict[str, Any]) -> None:
        beside = f"{self._path}.{os.getpid()}.new"
        try:
            with open(beside, "w", encoding="utf-8") as file:
                json.dump(document, file, indent=1, ensure_ascii=False)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self._path)
        except OSError as error:
            raise SchemaRegistryError(f"the schema registry {self._path} cannot be written: {error}") from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        import fcntl

        try:
            lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise SchemaRegistryError(f"the schema registry {self._path} cannot be locked: {error}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _level_of(document: dict[str, Any], subject: str) -> CompatibilityLevel:
    """Raises ValueError and AttributeError for what is none."""
    whole = document.get("compatibility", DEFAULT_LEVEL.value)
    return CompatibilityLevel(document.get("subjects", {}).get(subject, {}).get("compatibility", whole))


def _schema(entry: dict[str, Any]) -> RegisteredSchema:
    kept = entry["schema"]
    return RegisteredSchema(
        schema_id=entry["id"],
        schema_type=entry.get("schemaType", AVRO),
        # A text that is not JSON in itself names a type, as "string" does.
        text=kept if isinstance(kept, str) else json.dumps(kept),
    )


def _meaning_of(entry: dict[str, Any]) -> Any:
    return _meaning(_schema(entry).text, entry.get("schemaType", AVRO))


def _meaning(text: str, schema_type: str) -> Any:
    """Equal for the same schema: Avro's JSON without its spaces and order of names."""
    if schema_type != AVRO:
        return schema_type, text
    try:
        return schema_type, json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        return schema_type, json.dumps(text)
