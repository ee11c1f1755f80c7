"""Encodes the committed offsets of a consumer group as an object: JSON, with a checksum before it.

`writer` is random in each version, so that no two versions have the same bytes and etag, and a writer whose write was
refused can see whether its own earlier attempt succeeded. A group without offsets was deleted: the object stays,
because stores have no conditional delete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from broker_core.cluster import GroupOffset
from broker_core.model.exceptions import CorruptObjectError, ObjectLogFormatError
from broker_core.object_log.json_fields import JsonFault, checked_number, checked_uuid, decode_checked, encode_checked
from broker_core.object_log.object_names import group_path

FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupObject:
    """One version of a group's object. Offsets by topic id and partition."""

    group_id: str
    writer: str
    offsets: Mapping[tuple[UUID, int], GroupOffset] = field(default_factory=dict)


def encode_group(group: GroupObject) -> bytes:
    rows = [
        [str(topic_id), partition, one.offset, one.leader_epoch, one.commit_time_ms, one.metadata]
        for (topic_id, partition), one in sorted(group.offsets.items())
    ]
    document = {"format": FORMAT, "id": group.group_id, "writer": group.writer, "offsets": rows}
    return encode_checked("group", document)


def decode_group(data: bytes | memoryview, *, path: str, url: str = "") -> GroupObject:
    """Raises CorruptObjectError, and ObjectLogFormatError for a group of a newer version."""
    try:
        fields = decode_checked("group", data)
        if fields.number("format") != FORMAT:
            raise JsonFault("the format is not 1", is_newer=True)
        group = GroupObject(
            group_id=fields.text("id"),
            writer=fields.text("writer"),
            offsets=dict(_decode_row(row) for row in fields.items("offsets")),
        )
        fields.end()
        if group_path(group.group_id) != path:
            raise JsonFault(f"it belongs to group {group.group_id!r}")
    except JsonFault as fault:
        kind = ObjectLogFormatError if fault.is_newer else CorruptObjectError
        advice = " It was written by a newer version of streamlog." if fault.is_newer else ""
        raise kind(f"{url}/{path} cannot be read as a group: {fault}.{advice}", object=path, url=url) from None
    return group


def _decode_row(row: object) -> tuple[tuple[UUID, int], GroupOffset]:
    if not isinstance(row, list) or len(row) != 6 or not isinstance(row[5], str):
        raise JsonFault("an offset is not a topic, four numbers and a string")
    place = (checked_uuid(row[0], "the topic of an offset"), checked_number(row[1], "the partition of an offset"))
    return place, GroupOffset(
        offset=checked_number(row[2], "an offset"),
        leader_epoch=checked_number(row[3], "the epoch of an offset", least=-1),
        commit_time_ms=checked_number(row[4], "the time of an offset", least=-1),
        metadata=row[5],
    )
