"""Kafka's small text files, written whole and atomically.

    offset checkpoint         "0\\n<count>\\n<topic> <partition> <offset>\\n..."     log start and others
    leader-epoch-checkpoint   see `log.leader_epochs`
    partition.metadata        "version: 0\\ntopic_id: <base64url of the uuid, no padding>"

A write goes to `<name>.tmp`, is synced and renamed over the old file; then the directory is synced. After a crash the
file is the old or the new one, whole. The next write overwrites a leftover `.tmp`, and readers ignore it. A write that
fails removes its `.tmp`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from uuid import UUID

from broker_core.model.exceptions import DirectoryFormatError, UnknownPartitionError
from broker_core.model.identifiers import TopicPartition
from broker_core.ports import File, FileSystem

LEADER_EPOCH_FILE_NAME = "leader-epoch-checkpoint"
WATERMARK_FILE_NAME = "replication-offset-checkpoint"
"""Kafka's file: the high watermark of each partition of a directory, as it was some time ago."""
LOG_START_OFFSET_FILE_NAME = "log-start-offset-checkpoint"
PARTITION_METADATA_FILE_NAME = "partition.metadata"

_VERSION = "0"
_COUNT_LINE = re.compile(r"[0-9]{1,10}")
_OFFSET_LINE = re.compile(r"[^ ]+ [0-9]{1,10} -?[0-9]{1,19}")
MAX_SMALL_FILE_BYTES = 256 * 1024 * 1024
"""Indexes and snapshots are far smaller; of a larger file only so many bytes are read."""


def open_replacement(fs: FileSystem, path: str, *, owner: UUID | None = None) -> File:
    """Opens the file, empty, for writing from its start.

    `owner`: the topic that must own the folder, for callers without a lock. A folder may be deleted and recreated for
    another topic under the same path, so its owner is checked after the file is open and before it is changed: an open
    file stays in its folder. Raises UnknownPartitionError.
    """
    file = fs.open(path, writable=True, create=True)
    try:
        if owner is not None:
            require_owner(fs, path.rpartition("/")[0], owner)
        file.truncate(0)
    except BaseException:
        file.close()
        raise
    return file


def write_synced(fs: FileSystem, path: str, content: bytes | bytearray, *, owner: UUID | None = None) -> None:
    """Creates the file or overwrites it in place. Its content, but not its name, is durable when it returns."""
    file = open_replacement(fs, path, owner=owner)
    try:
        file.write_at(0, content)
        file.sync()
    finally:
        file.close()


def write_atomically(fs: FileSystem, path: str, data: bytes) -> None:
    """Replaces the file at `path`; durable when it returns."""
    put_in_place(fs, path, data)
    fs.sync_directory(path.rpartition("/")[0])


def put_in_place(fs: FileSystem, path: str, data: bytes) -> None:
    """The same for several files in a directory that the caller syncs once: until then each is the old or the new one,
    whole."""
    temporary_path = path + ".tmp"
    try:
        write_synced(fs, temporary_path, data)
        fs.rename(temporary_path, path)
    except OSError:
        with suppress(OSError):
            fs.remove(temporary_path)
        raise


def read_small_file(fs: FileSystem, path: str) -> bytes | None:
    """The content of a small file; None when it does not exist."""
    try:
        file = fs.open(path, writable=False)
    except FileNotFoundError:
        return None
    try:
        return file.read_at(0, min(file.size_bytes(), MAX_SMALL_FILE_BYTES))
    finally:
        file.close()


def write_offset_checkpoint(fs: FileSystem, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Writes Kafka's offset checkpoint."""
    lines = [f"{partition.topic} {partition.partition} {offset}" for partition, offset in sorted(offsets.items())]
    write_atomically(fs, path, _joined(lines))


def read_offset_checkpoint(fs: FileSystem, path: str) -> dict[TopicPartition, int]:
    """Empty when there is no file. Raises DirectoryFormatError that names the wrong line."""
    offsets: dict[TopicPartition, int] = {}
    for line in _lines_of(fs, path):
        if _OFFSET_LINE.fullmatch(line) is None:
            raise DirectoryFormatError(f"{path}: malformed line {line!r}, expected '<topic> <partition> <offset>'")
        topic, partition, offset = line.split(" ")
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    return offsets


def write_partition_metadata(fs: FileSystem, directory: str, topic_id: UUID) -> None:
    """Writes the folder's partition.metadata."""
    write_atomically(fs, f"{directory}/{PARTITION_METADATA_FILE_NAME}", _partition_metadata(topic_id))


def read_partition_metadata(fs: FileSystem, directory: str, *, expected_id: UUID | None = None) -> UUID | None:
    """The topic id that the folder belongs to; None when there is no such file. `expected_id`: the most likely id,
    which is recognized without parsing the file."""
    path = f"{directory}/{PARTITION_METADATA_FILE_NAME}"
    data = read_small_file(fs, path)
    if data is None:
        return None
    if expected_id is not None and data == _partition_metadata(expected_id):
        return expected_id
    fields = dict(line.split(": ", 1) for line in data.decode("utf-8", "replace").splitlines() if ": " in line)
    encoded_id = fields.get("topic_id", "")
    try:
        if fields.get("version") != "0":
            raise ValueError(f"version {fields.get('version')!r}")
        return UUID(bytes=base64.urlsafe_b64decode(encoded_id + "=" * (-len(encoded_id) % 4)))
    except ValueError as error:
        raise DirectoryFormatError(f"{path} is not Kafka's partition.metadata version 0: {error}") from error


def require_owner(fs: FileSystem, directory: str, topic_id: UUID) -> None:
    """Raises UnknownPartitionError when the folder does not belong, or no longer belongs, to the topic."""
    if read_partition_metadata(fs, directory, expected_id=topic_id) != topic_id:
        raise UnknownPartitionError(
            f"{directory} does not belong to topic id {topic_id}: the topic was deleted meanwhile"
        )


@lru_cache(maxsize=64)
def _partition_metadata(topic_id: UUID) -> bytes:
    encoded_id = base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()
    return f"version: 0\ntopic_id: {encoded_id}".encode()


def _joined(lines: Sequence[str]) -> bytes:
    return "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode()


def _lines_of(fs: FileSystem, path: str) -> list[str]:
    data = read_small_file(fs, path)
    if data is None:
        return []
    lines = data.decode("utf-8", "replace").split("\n")
    if lines[0] != _VERSION:
        raise DirectoryFormatError(f"{path}: checkpoint version {lines[0]!r} is not supported, only {_VERSION} is")
    if len(lines) < 2 or not _COUNT_LINE.fullmatch(lines[1]) or len(lines) < 2 + int(lines[1]):
        raise DirectoryFormatError(f"{path}: has fewer lines than its header says")
    return lines[2 : 2 + int(lines[1])]
