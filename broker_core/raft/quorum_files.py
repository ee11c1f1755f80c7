"""Names and small files of a `__cluster_metadata-0` folder, as Kafka has them.

00000000000000000274-0000000003.checkpoint   a snapshot: of all records below offset 274, the last of epoch 3
*.checkpoint.part                            a snapshot that is being fetched
quorum-state                                 JSON: the epoch, its leader, and the vote of this node
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection
from typing import Final
from uuid import UUID

from broker_core.model.exceptions import CorruptDataError
from broker_core.raft.quorum_values import ElectionState, SnapshotId

QUORUM_STATE_FILE_NAME: Final = "quorum-state"
PART: Final = ".part"

_SNAPSHOT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_NO_DIRECTORY: Final = UUID(int=0)
_MAX_INT32: Final = 2**31 - 1


def snapshot_name(snapshot_id: SnapshotId) -> str:
    return f"{snapshot_id.end_offset:020d}-{snapshot_id.epoch:010d}.checkpoint"


def parse_snapshot_name(name: str) -> SnapshotId | None:
    """None for the name of another file, also of one that is not whole."""
    found = _SNAPSHOT.fullmatch(name)
    return None if found is None else SnapshotId(end_offset=int(found[1]), epoch=int(found[2]))


def encode_quorum_state(election: ElectionState, *, static_voters: Collection[int] | None = None) -> bytes:
    """Version 0 for a quorum of static voters, as kraft.version 0 has it; else version 1, which needs no list."""
    start = {
        "leaderId": election.leader_id,
        "leaderEpoch": election.leader_epoch,
        "votedId": election.voted_id,
    }
    state: dict[str, object]
    if static_voters is not None:
        voters = [{"voterId": node_id} for node_id in sorted(static_voters)]
        state = {"clusterId": "", **start, "appliedOffset": 0, "currentVoters": voters, "data_version": 0}
    else:
        directory = _uuid_text(election.voted_directory_id or _NO_DIRECTORY)
        state = {**start, "votedDirectoryId": directory, "data_version": 1}
    return json.dumps(state, separators=(",", ":")).encode()


def decode_quorum_state(data: bytes) -> ElectionState:
    """Versions 0 and 1. Raises CorruptDataError."""
    try:
        state = json.loads(data)
        version = state["data_version"]
        numbers = [state[name] for name in ("leaderId", "leaderEpoch", "votedId")]
        directory = _parse_uuid(state["votedDirectoryId"]) if version == 1 else _NO_DIRECTORY
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptDataError(f"{QUORUM_STATE_FILE_NAME} of {len(data)} bytes is not what Kafka writes") from error
    leader_id, leader_epoch, voted_id = numbers
    if version not in (0, 1) or not all(isinstance(each, int) and -1 <= each <= _MAX_INT32 for each in numbers):
        raise CorruptDataError(f"{QUORUM_STATE_FILE_NAME}: version {version}, leader {leader_id} in {leader_epoch}")
    return ElectionState(
        leader_epoch=max(leader_epoch, 0),
        leader_id=leader_id,
        voted_id=voted_id,
        voted_directory_id=None if directory == _NO_DIRECTORY else directory,
    )


def _uuid_text(uuid: UUID) -> str:
    return base64.urlsafe_b64encode(uuid.bytes).rstrip(b"=").decode()


def _parse_uuid(text: str) -> UUID:
    return UUID(bytes=base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
