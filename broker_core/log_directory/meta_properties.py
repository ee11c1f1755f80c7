"""`meta.properties`: which cluster and node a log directory belongs to, in Kafka's format, with a line of ours.

    #
    node.id=1
    version=1
    cluster.id=<22 characters>
    directory.id=<22 characters>
    streamlog.format=1

Kafka ignores the last line, and a file without it was written by a real Kafka: such a directory is only read. The file
is written once, when a directory becomes a log, and never changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from broker_core.metadata.controller import decode_id, encode_id
from broker_core.model.exceptions import DirectoryFormatError

META_PROPERTIES_FILE_NAME: Final = "meta.properties"
FORMAT_VERSION: Final = 1
"""Version of the files that we add to Kafka's own."""
NODE_ID: Final = 1
"""The node id of an embedded log; a broker that serves the directory later uses the same id."""

_FORMAT_KEY: Final = "streamlog.format"
_LINE = re.compile(r"\s*((?:\\.|[^=:\s\\])+)\s*[=:]?\s*(.*)")
_ESCAPE = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The content of the file. `directory_id` is the zero id if an older Kafka wrote none."""

    cluster_id: str
    directory_id: UUID
    node_id: int
    is_ours: bool


def encode_meta_properties(properties: MetaProperties) -> bytes:
    """The content of the file; our line is in it if the directory is OURS."""
    lines = (
        "#",
        f"node.id={properties.node_id}",
        "version=1",
        f"cluster.id={properties.cluster_id}",
        f"directory.id={encode_id(properties.directory_id)}",
        *([f"{_FORMAT_KEY}={FORMAT_VERSION}"] if properties.is_ours else []),
        "",
    )
    return "\n".join(lines).encode("ascii")


def decode_meta_properties(data: bytes, path: str) -> MetaProperties:
    """Raises DirectoryFormatError for a file that is not Kafka's or has an unknown newer version."""
    fields = _java_properties(data.decode("latin-1"))
    version = fields.get("version", "")
    if version not in ("0", "1"):
        raise DirectoryFormatError(f"{path} has version={version or '(nothing)'}; supported are 0 and 1")
    our_format = fields.get(_FORMAT_KEY)
    if our_format is not None and our_format != str(FORMAT_VERSION):
        raise DirectoryFormatError(
            f"{path} has {_FORMAT_KEY}={our_format}, but this version supports {FORMAT_VERSION}: the directory"
            " was written"
            " by a newer version"
        )
    node_id = fields.get("node.id", fields.get("broker.id", ""))
    if not re.fullmatch(r"[0-9]{1,10}", node_id):
        raise DirectoryFormatError(f"{path} has no valid node id: node.id={node_id or '(nothing)'}")
    try:
        directory_id = decode_id(fields["directory.id"]) if "directory.id" in fields else UUID(int=0)
    except ValueError as error:
        raise DirectoryFormatError(f"{path}: directory.id={fields['directory.id']}: {error}") from error
    return MetaProperties(
        cluster_id=fields.get("cluster.id", ""),
        directory_id=directory_id,
        node_id=int(node_id),
        is_ours=our_format is not None,
    )


def _java_properties(text: str) -> Mapping[str, str]:
    """`key=value` or `key: value` lines as java.util.Properties writes them, comments and escapes included."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        if line.lstrip()[:1] in ("", "#", "!"):
            continue
        match = _LINE.fullmatch(line)
        if match is not None:
            key, value = (_ESCAPE.sub(r"\1", part) for part in match.groups())
            fields[key] = value.rstrip()
    return fields
