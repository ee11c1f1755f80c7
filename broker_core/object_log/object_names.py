"""Names of the objects of a log, relative to its prefix.

    streamlog.json                            format and id of the log; created once
    commits/00000000000000000042              one commit; created once, number n + 1 only after n. Never removed
    checkpoints/00000000000000000100          the image at that commit
    checkpoints/latest                        text: the number of a recent checkpoint; a hint
    data/001764460800000-<32 hex digits>      record batches; the first number is its creation time, in ms since 1970
    groups/<group>                            committed offsets of one consumer group

A writer that has slept for a year still finds that its next number exists, because commits stay. A data object's time
decides whether it may still be committed (`log_image`). Group ids are escaped with `=XX`, because stores and their
clients disagree about `%`. An id that is too long for a file name is replaced by a hash; the object has the whole id.
"""

from __future__ import annotations

import hashlib
import re
import string
from typing import Final

LOG_OBJECT: Final = "streamlog.json"
COMMIT_PREFIX: Final = "commits/"
CHECKPOINT_PREFIX: Final = "checkpoints/"
LATEST_CHECKPOINT: Final = "checkpoints/latest"
DATA_PREFIX: Final = "data/"
GROUP_PREFIX: Final = "groups/"

_NUMBER_DIGITS: Final = 20
_TIME_DIGITS: Final = 15
_GROUP: Final = f"{GROUP_PREFIX}g-"
_MAX_GROUP_NAME_CHARACTERS: Final = 200
_DATA_OBJECT: Final = re.compile(r"data/(?P<begun_ms>[0-9]{15})-[0-9a-f]{32}")
_NUMBERED: Final = re.compile(r"(?:commits|checkpoints)/(?P<number>[0-9]{20})")
_PLAIN: Final = frozenset((string.ascii_letters + string.digits + "._-").encode())


def commit_path(number: int) -> str:
    return f"{COMMIT_PREFIX}{number:0{_NUMBER_DIGITS}d}"


def checkpoint_path(number: int) -> str:
    return f"{CHECKPOINT_PREFIX}{number:0{_NUMBER_DIGITS}d}"


def number_of(path: str) -> int | None:
    """The number of a commit or a checkpoint; None for any other name."""
    found = _NUMBERED.fullmatch(path)
    return int(found["number"]) if found else None


def data_path(begun_ms: int, unique: bytes) -> str:
    """Name of a new data object. `unique`: 16 random bytes."""
    assert len(unique) == 16 and begun_ms >= 0, f"{len(unique)} random bytes, {begun_ms} ms"
    return f"{DATA_PREFIX}{begun_ms:0{_TIME_DIGITS}d}-{unique.hex()}"


def data_horizon_path(horizon_ms: int) -> str:
    """The name above all data objects that were begun before `horizon_ms`."""
    return f"{DATA_PREFIX}{horizon_ms:0{_TIME_DIGITS}d}"


def begun_ms_of(path: str) -> int | None:
    """The creation time of a data object, in ms since 1970; None for a foreign name."""
    found = _DATA_OBJECT.fullmatch(path)
    return int(found["begun_ms"]) if found else None


def group_path(group_id: str) -> str:
    escaped = "".join(chr(byte) if byte in _PLAIN else f"={byte:02X}" for byte in group_id.encode())
    if len(escaped) > _MAX_GROUP_NAME_CHARACTERS:
        escaped = f"=={hashlib.sha256(group_id.encode()).hexdigest()}"
    # A prefix, so that no id becomes a special name of a file system.
    return f"{_GROUP}{escaped}"


def is_group(path: str) -> bool:
    """False for a foreign object, such as what a file browser leaves in a folder."""
    return path.startswith(_GROUP) and "/" not in path[len(_GROUP) :]
