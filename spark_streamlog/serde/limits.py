"""The bounds of the serdes, each with its unit and its reason."""

from __future__ import annotations

MAX_SCHEMA_BYTES = 4 * 1024 * 1024
"""Of a schema's text, a descriptor file or a registry's answer: a thousand times a large schema, and no flood."""

MAX_SCHEMA_NODE_COUNT = 10_000
"""Types in a schema with every name written out: records that use records twice each grow as powers of two."""

MAX_SCHEMA_DEPTH = 100
"""Types within types; Arrow and Spark walk them recursively, and so do we."""

MAX_REASON_CHARACTERS = 200
"""Of the reason why a value could not be read: it may quote the value."""

UNKNOWN_SCHEMA_ID_SECONDS = 60.0
"""How long an id that the registry does not know is not asked for again."""

MAX_UNKNOWN_SCHEMA_IDS = 1_000
"""Ids that one process asks a registry for in vain within that time before it fails: each costs a request."""

MAX_CACHED_SCHEMAS = 1_000
"""Readers of writers' schemas that one process keeps, so that ids without end cannot fill its memory."""

MAX_SCHEMA_REFERENCES = 1_000
"""Schemas that one schema may need from its registry."""

SMALL_PIECE_ROWS = 64
"""Rows that are looked at one by one when a bulk reading of them fails; below it halving costs more than it saves."""

MAX_JSON_BULK_DEPTH = 64
"""Nesting of JSON that the bulk reading judges by itself; deeper values are read one by one."""

MAX_DECIMAL_PRECISION = 38
"""Digits of Spark's decimals."""
