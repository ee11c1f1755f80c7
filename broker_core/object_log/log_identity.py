"""The two small objects to start from: the identity of the log, and the number of a recent checkpoint.

streamlog.json        {"crc32c":"…","log":{"format":1,"id":"<uuid>"}}
checkpoints/latest    {"crc32c":"…","latest":{"format":1,"id":"<uuid>","number":100}}, replaced by each writer of a
                      checkpoint: a hint, which may be stale, and is ignored if it cannot be read
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from broker_core.model.exceptions import CorruptObjectError, ObjectLogFormatError
from broker_core.object_log.json_fields import JsonFault, decode_checked, encode_checked
from broker_core.object_log.object_names import LOG_OBJECT

FORMAT: Final = 1


def encode_identity(log_id: UUID) -> bytes:
    return encode_checked("log", {"format": FORMAT, "id": str(log_id)})


def decode_identity(data: bytes | memoryview, *, url: str) -> UUID:
    """Raises CorruptObjectError, and ObjectLogFormatError for a log of a newer version."""
    try:
        fields = decode_checked("log", data)
        if fields.number("format") != FORMAT:
            raise JsonFault("the format is not 1", is_newer=True)
        log_id = fields.uuid("id")
        fields.end()
    except JsonFault as fault:
        kind = ObjectLogFormatError if fault.is_newer else CorruptObjectError
        advice = " It was written by a newer version of streamlog." if fault.is_newer else ""
        raise kind(
            f"{url}/{LOG_OBJECT} cannot be read as the identity of a log: {fault}.{advice}", object=LOG_OBJECT
        ) from None
    return log_id


def encode_latest(log_id: UUID, number: int) -> bytes:
    return encode_checked("latest", {"format": FORMAT, "id": str(log_id), "number": number})


def decode_latest(data: bytes | memoryview) -> tuple[UUID, int] | None:
    """(log id, number of a checkpoint); None if it cannot be read."""
    try:
        fields = decode_checked("latest", data)
        if fields.number("format") != FORMAT:
            return None
        found = fields.uuid("id"), fields.number("number", least=1)
        fields.end()
    except JsonFault:
        return None
    return found
