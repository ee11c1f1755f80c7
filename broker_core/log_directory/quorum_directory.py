"""The directory of a node of a quorum: `meta.properties` and `__cluster_metadata-0`, as those of a Kafka node.

The directory's id is made once and kept: the quorum tells replicas apart by it. A directory of another cluster or
another node is refused; and for a voter one that was formatted for a new cluster with other features than
`cluster_bootstrap` gives it.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from broker_core.controller.cluster_bootstrap import NEW_CLUSTER_FEATURES
from broker_core.log_directory.meta_properties import (
    META_PROPERTIES_FILE_NAME,
    MetaProperties,
    decode_meta_properties,
    encode_meta_properties,
)
from broker_core.log_directory.storage_format import BOOTSTRAP_FILE_NAME
from broker_core.metadata.controller import random_id
from broker_core.metadata.metadata_record_codec import decode_metadata_record
from broker_core.metadata.metadata_records import FeatureLevelRecord, MetadataRecord, UserScramCredentialRecord
from broker_core.model.exceptions import DirectoryFormatError
from broker_core.model.topic_name import CLUSTER_METADATA_TOPIC
from broker_core.ports import Entropy, FileSystem
from broker_core.raft.quorum_values import ReplicaIdentity
from broker_core.raft.voter_set import VoterSet
from broker_core.raft.voter_set_history import VoterSetHistory, controls_of_snapshot
from broker_core.record.batch_reader import iter_headers, records_of
from broker_core.storage.checkpoints import read_small_file, write_atomically
from broker_core.storage.quorum_log import QuorumLog

_READ_BYTES: Final = 4 * 1024 * 1024


def open_identity(
    fs: FileSystem, path: str, *, node_id: int, cluster_id: str | None, entropy: Entropy
) -> ReplicaIdentity:
    """Of the node in that directory, which is there. An empty directory becomes the node's; a None cluster takes the
    one that the directory belongs to. Raises DirectoryFormatError."""
    file_path = f"{path}/{META_PROPERTIES_FILE_NAME}"
    data = read_small_file(fs, file_path)
    shown_id = max(node_id, 0)  # meta.properties has no negative ids
    if data is None:
        if cluster_id is None:
            raise DirectoryFormatError(
                f"{path} has no {META_PROPERTIES_FILE_NAME}: give --cluster-id, the same for all nodes of the cluster"
                " (a UUID as 22 characters of base64, as streamlog storage random-uuid prints it)"
            )
        found = MetaProperties(cluster_id=cluster_id, directory_id=random_id(entropy), node_id=shown_id, is_ours=False)
        write_atomically(fs, file_path, encode_meta_properties(found))
    else:
        found = decode_meta_properties(data, file_path)
    wanted_id = found.cluster_id if cluster_id is None else cluster_id
    if (found.cluster_id, found.node_id, found.is_ours) != (wanted_id, shown_id, False):
        raise DirectoryFormatError(
            f"{path} belongs to node {found.node_id} of cluster {found.cluster_id}, not to node {shown_id} of cluster"
            f" {wanted_id}"
        )
    return ReplicaIdentity(node_id=node_id, directory_id=found.directory_id, cluster_id=found.cluster_id)


def read_identity(fs: FileSystem, path: str, *, node_id: int) -> UUID:
    """The id of that node's directory. Raises DirectoryFormatError."""
    file_path = f"{path}/{META_PROPERTIES_FILE_NAME}"
    data = read_small_file(fs, file_path)
    if data is None:
        raise DirectoryFormatError(f"{path} has no {META_PROPERTIES_FILE_NAME}: no controller was formatted there")
    found = decode_meta_properties(data, file_path)
    if found.node_id != node_id:
        raise DirectoryFormatError(f"{path} belongs to node {found.node_id}, not to node {node_id}")
    return found.directory_id


def load_voters(log: QuorumLog, static: VoterSet) -> VoterSetHistory:
    """What the newest snapshot and the log behind it say, committed or not; `static` without any record of it."""
    history = VoterSetHistory(static)
    if log.snapshot_id is not None:
        history.on_snapshot(log.snapshot_id, controls_of_snapshot(log.read_snapshot()))
    offset = log.start_offset
    while offset < log.end_offset:
        records = log.read(offset, until_offset=log.end_offset, max_bytes=_READ_BYTES)
        headers = [header for _, header in iter_headers(records)]
        history.on_batches(records, headers)
        offset = headers[-1].next_offset
    return history


def open_quorum_log(fs: FileSystem, path: str, *, is_voter: bool = True) -> QuorumLog:
    """Made if it is missing. Raises DirectoryFormatError for what a voter of this version cannot run."""
    log = QuorumLog(fs, f"{path}/{CLUSTER_METADATA_TOPIC}-0")
    if is_voter:
        try:
            _require_known_bootstrap(fs, log, path)
        except BaseException:
            log.close()
            raise
    return log


def _require_known_bootstrap(fs: FileSystem, log: QuorumLog, path: str) -> None:
    """A log with records is past its bootstrap, whatever that was."""
    data = read_small_file(fs, f"{path}/{BOOTSTRAP_FILE_NAME}")
    if data is None or log.end_offset > 0:
        return
    wanted = [each for each in _records_of(data) if not isinstance(each, UserScramCredentialRecord)]
    known = {FeatureLevelRecord(name=name, feature_level=level) for name, level in NEW_CLUSTER_FEATURES.items()}
    if set(wanted) != known:
        others = sorted(set(wanted) - known, key=repr) or sorted(known - set(wanted), key=repr)
        raise DirectoryFormatError(
            f"{path}/{BOOTSTRAP_FILE_NAME} asks for a new cluster that this version does not begin, first with "
            f"{_shown(others[0])}: format it without --release-version and --feature"
        )


def first_users(fs: FileSystem, path: str) -> tuple[UserScramCredentialRecord, ...]:
    """Those that a new cluster begins with, if this directory was formatted with some (`first_users`)."""
    data = read_small_file(fs, f"{path}/{BOOTSTRAP_FILE_NAME}") or b""
    return tuple(each for each in _records_of(data) if isinstance(each, UserScramCredentialRecord))


def _records_of(bootstrap: bytes) -> list[MetadataRecord]:
    return [
        decode_metadata_record(record.value or b"")
        for position, header in iter_headers(bootstrap)
        if not header.is_control
        for record in records_of(bootstrap, position)
    ]


def _shown(record: MetadataRecord) -> str:
    if isinstance(record, FeatureLevelRecord):
        return f"the level {record.feature_level} of {record.name}"
    return f"a {type(record).__name__}"
