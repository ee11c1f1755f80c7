"""The bounds of serde/, each with its unit and its reason."""

from __future__ import annotations

MAX_SCHEMA_BYTES = 4 * 1024 * 1024
"""For a schema's text, a descriptor file or a registry's answer: a thousand times the size of a large schema."""

MAX_SCHEMA_NODE_COUNT = 10_000
"""Types in a schema, counting a named type at each use: records that use records twice each grow as powers of two."""

MAX_SCHEMA_DEPTH = 100
"""Nesting of types; Arrow, Spark and this code walk them recursively."""

MAX_REASON_CHARACTERS = 200
"""For the reason why a value could not be read, which may quote the value."""

UNKNOWN_SCHEMA_ID_SECONDS = 60.0
"""The time during which an id that the registry does not know is not requested again."""

MAX_UNKNOWN_SCHEMA_IDS = 1_000
"""Unknown ids that one process may request within that time before it fails: each costs a request."""

MAX_CACHED_SCHEMAS = 1_000
"""Reading functions for writers' schemas that one process caches: any number of ids must not fill its memory."""

MAX_SCHEMA_REFERENCES = 1_000
"""Schemas that one schema may refer to, directly or indirectly."""

SMALL_PIECE_ROWS = 64
"""Rows that are decoded one by one if a bulk step fails; below this count further halving costs more than it saves."""

MAX_JSON_BULK_DEPTH = 64
"""Nesting of JSON that the bulk reader decides; deeper values are read one by one."""

MAX_DECIMAL_PRECISION = 38
"""The most digits of Spark's decimals."""
