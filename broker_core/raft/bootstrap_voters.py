"""The first voters of a dynamic quorum: how they are written down for people, and the snapshot that holds them.

0@host-0:9093:JEXY6aqzQY-32P5TStzaFg,1@host-1:9093:MvDxzVmcRsaTz33bUuRU6A      id@host:port:directory id

00000000000000000000-0000000000.checkpoint     a snapshot that ends at offset 0, so it has no records:
    control batch   SnapshotHeader, KRaftVersion 1, KRaftVoters
    control batch   SnapshotFooter
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import InvalidConfigError
from broker_core.raft.quorum_control_records import snapshot_footer_batch, snapshot_header_batch
from broker_core.raft.quorum_values import SnapshotId
from broker_core.raft.voter_set import DYNAMIC_KRAFT_VERSION, VoterNode, VoterSet
from broker_core.record.batch_header import read_header

BOOTSTRAP_SNAPSHOT: Final = SnapshotId(end_offset=0, epoch=0)

_VOTER: Final = re.compile(
    r"(?P<id>\d{1,10})@(?P<host>\[[^\]]+\]|[^:\[\]]+):(?P<port>\d{1,5}):(?P<directory>[A-Za-z0-9_-]{22})"
)
_MAX_ID: Final = 2**31 - 1
_MAX_PORT: Final = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapVoter:
    node_id: int
    directory_id: UUID
    address: BrokerAddress


def parse_bootstrap_voters(text: str) -> tuple[BootstrapVoter, ...]:
    """In the order of their ids. Raises InvalidConfigError that names the wrong one."""
    voters: dict[int, BootstrapVoter] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        found = _VOTER.fullmatch(item)
        if found is None or int(found["port"]) > _MAX_PORT or int(found["id"]) > _MAX_ID:
            raise InvalidConfigError(f"{item!r} is not id@host:port:directory with a directory id of 22 characters")
        node_id = int(found["id"])
        if node_id in voters:
            raise InvalidConfigError(f"the id {node_id} is there twice")
        voters[node_id] = BootstrapVoter(
            node_id=node_id,
            directory_id=UUID(bytes=base64.urlsafe_b64decode(found["directory"] + "==")),
            address=BrokerAddress(host=found["host"].strip("[]"), port=int(found["port"])),
        )
    if not voters:
        raise InvalidConfigError("no voters are given")
    return tuple(voters[node_id] for node_id in sorted(voters))


def build_bootstrap_snapshot(voters: Sequence[BootstrapVoter], *, listener: str, now_ms: int) -> bytes:
    """The content of the file. `listener` is the name of the controllers' listener."""
    nodes = [
        VoterNode(node_id=each.node_id, directory_id=each.directory_id, endpoints={listener: each.address})
        for each in voters
    ]
    content = snapshot_header_batch(
        last_contained_ms=now_ms,
        leader_epoch=BOOTSTRAP_SNAPSHOT.epoch,
        timestamp_ms=now_ms,
        dynamic=(DYNAMIC_KRAFT_VERSION, VoterSet.of(nodes)),
    )
    next_offset = read_header(content).next_offset
    return bytes(content + snapshot_footer_batch(base_offset=next_offset, leader_epoch=0, timestamp_ms=now_ms))
