"""A schema registry in one JSON file, for users who run no registry.

    {"schemas": [{"id": 1, "subject": "orders-value", "version": 1, "schemaType": "AVRO", "schema": …}, …],
     "compatibility": "BACKWARD", "subjects": {"orders-value": {"compatibility": "FULL"}}}

`schema` is the text, or for Avro the JSON itself; `schemaType` defaults to AVRO. An id belongs to one text in all
subjects, as in Confluent's registry. The file can be written by hand. To register a schema, a new file is written next
to it under a lock (`<path>.lock`) and renamed, so a reader sees either the old file or the new one. The file is read
again whenever it has changed.

A new version of a subject must be compatible by the level of the subject, or else of the whole file, which defaults to
BACKWARD: see `compatibility_level`. Only Avro schemas can be registered here, so only they are compared. Schemas
written into the file by hand are not checked.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from spark_streamlog.serde.compatibility_level import DEFAULT_LEVEL, CompatibilityLevel, incompatibility_with_versions
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
        """Reads the file. Raises SchemaRegistryError if it cannot be read or is not a registry.

        A missing file is an error unless `may_be_missing`; then only its directory must exist.
        """
        self._read()
        if self._seen is not None:
            return
        if not os.path.isdir(os.path.dirname(os.path.abspath(self._path))):
            raise SchemaRegistryError(
                f"the schema registry {self._path} does not exist, and neither does its directory"
            )
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
        raise self._unknown(f"does not have this schema under {subject!r}")

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
                f"version {others[-1]['version']} is of type {others[-1]['schemaType']}, not {AVRO}"
                if others
                else incompatibility_with_versions(
                    level, text, [(entry["version"], _schema(entry).text) for entry in ascending]
                )
            )
        except InvalidSchemaError as error:
            reason = f"it cannot be compared with the existing versions ({error.message})"
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
            # Registering a schema creates the file; until then it is treated as empty.
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
                f'the schema registry {self._path} is not valid: {error!r}. Expected {{"schemas": [{{"id": 1, '
                '"subject": "…", "version": 1, "schema": …}, …]}'
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
    """Raises ValueError or AttributeError if the level is not valid."""
    whole = document.get("compatibility", DEFAULT_LEVEL.value)
    return CompatibilityLevel(document.get("subjects", {}).get(subject, {}).get("compatibility", whole))


def _schema(entry: dict[str, Any]) -> RegisteredSchema:
    kept = entry["schema"]
    return RegisteredSchema(
        schema_id=entry["id"],
        schema_type=entry.get("schemaType", AVRO),
        # A text that is not JSON is the name of a type, such as "string".
        text=kept if isinstance(kept, str) else json.dumps(kept),
    )


def _meaning_of(entry: dict[str, Any]) -> Any:
    return _meaning(_schema(entry).text, entry.get("schemaType", AVRO))


def _meaning(text: str, schema_type: str) -> Any:
    """Equal for equal schemas: for Avro the parsed JSON, so that spaces and the order of names do not count."""
    if schema_type != AVRO:
        return schema_type, text
    try:
        return schema_type, json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        return schema_type, json.dumps(text)
