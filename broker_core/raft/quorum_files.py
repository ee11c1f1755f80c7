"""Names and small files of a `__cluster_metadata-0` folder, as Kafka has them.

00000000000000000274-0000000003.checkpoint   a snapshot: of all records below offset 274, the last of epoch 3
*.checkpoint.part                            a snapshot that is being fetched
quorum-state                                 JSON: which epoch, and who leads it
"""

from __future__ import annotations

import json
import re
from typing import Final

from broker_core.model.exceptions import CorruptDataError
from broker_core.raft.quorum_values import NO_NODE, ElectionState, SnapshotId

QUORUM_STATE_FILE_NAME: Final = "quorum-state"
PART: Final = ".part"

_SNAPSHOT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_NO_DIRECTORY: Final = "AAAAAAAAAAAAAAAAAAAAAA"
_MAX_INT32: Final = 2**31 - 1


def snapshot_name(snapshot_id: SnapshotId) -> str:
    return f"{snapshot_id.end_offset:020d}-{snapshot_id.epoch:010d}.checkpoint"


def parse_snapshot_name(name: str) -> SnapshotId | None:
    """None for the name of another file, also of one that is not whole."""
    found = _SNAPSHOT.fullmatch(name)
    return None if found is None else SnapshotId(end_offset=int(found[1]), epoch=int(found[2]))


def encode_quorum_state(election: ElectionState) -> bytes:
    """Version 1, which needs no list of voters. An observer never votes."""
    state = {
        "leaderId": election.leader_id,
        "leaderEpoch": election.leader_epoch,
        "votedId": NO_NODE,
        "votedDirectoryId": _NO_DIRECTORY,
        "data_version": 1,
    }
    return json.dumps(state, separators=(",", ":")).encode()


def decode_quorum_state(data: bytes) -> ElectionState:
    """Versions 0 and 1. Raises CorruptDataError."""
    try:
        state = json.loads(data)
        version, leader_id, leader_epoch = (state[name] for name in ("data_version", "leaderId", "leaderEpoch"))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptDataError(f"{QUORUM_STATE_FILE_NAME} of {len(data)} bytes is not what Kafka writes") from error
    is_valid = all(isinstance(number, int) and -1 <= number <= _MAX_INT32 for number in (leader_id, leader_epoch))
    if version not in (0, 1) or not is_valid:
        raise CorruptDataError(f"{QUORUM_STATE_FILE_NAME}: version {version}, leader {leader_id} in {leader_epoch}")
    return ElectionState(leader_epoch=max(leader_epoch, 0), leader_id=leader_id)
