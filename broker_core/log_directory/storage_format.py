"""Writes what a Kafka node needs in its directories before its first start.

<dir>/bootstrap.checkpoint      the first records of a new cluster: the levels of its features, its first users
<dir>/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint     only for dynamic voters, only where the
                                metadata log is
<dir>/meta.properties           cluster, node and directory: written last, so a format that was interrupted is
                                done again
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from broker_core.log_directory.format_plan import FormatPlan
from broker_core.log_directory.meta_properties import META_PROPERTIES_FILE_NAME, MetaProperties, decode_meta_properties
from broker_core.metadata.controller import encode_id, random_id
from broker_core.metadata.metadata_record_codec import encode_metadata_record
from broker_core.metadata.metadata_records import FeatureLevelRecord, MetadataRecord, UserScramCredentialRecord
from broker_core.metadata.metadata_version import METADATA_VERSION_FEATURE
from broker_core.model.exceptions import DirectoryFormatError
from broker_core.model.topic_name import CLUSTER_METADATA_TOPIC
from broker_core.ports import Entropy, FileSystem
from broker_core.raft.bootstrap_voters import BOOTSTRAP_SNAPSHOT, build_bootstrap_snapshot
from broker_core.raft.quorum_control_records import snapshot_footer_batch, snapshot_header_batch
from broker_core.raft.quorum_files import snapshot_name
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_header import read_header
from broker_core.record.batch_reader import Record
from broker_core.storage.checkpoints import read_small_file, write_atomically

BOOTSTRAP_FILE_NAME: Final = "bootstrap.checkpoint"

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True, kw_only=True)
class FormattedDirectory:
    """`is_new`: it was formatted now, and not before."""

    path: str
    is_metadata_dir: bool
    is_new: bool


def format_directories(
    fs: FileSystem, plan: FormatPlan, *, ignores_formatted: bool, entropy: Entropy, now_ms: int
) -> list[FormattedDirectory]:
    """The metadata directory last. Nothing is written if one of them belongs to another node or cluster, or is
    formatted already and may not be. Raises DirectoryFormatError."""
    paths = (*plan.other_dirs, plan.metadata_dir)
    is_formatted = {path: _is_formatted(fs, path, plan) for path in paths}
    for path in paths:
        if is_formatted[path] and not ignores_formatted:
            raise DirectoryFormatError(
                f"{path} is formatted already; --ignore-formatted leaves it as it is and formats the others"
            )
    _require_no_log(fs, plan, is_formatted[plan.metadata_dir])
    done = []
    for path in paths:
        is_metadata_dir = path == plan.metadata_dir
        if not is_formatted[path]:
            _make(fs, path)
            _format(fs, path, plan, is_metadata_dir=is_metadata_dir, entropy=entropy, now_ms=now_ms)
        done.append(FormattedDirectory(path=path, is_metadata_dir=is_metadata_dir, is_new=not is_formatted[path]))
    return done


def build_bootstrap(
    levels: Mapping[str, int], users: Sequence[UserScramCredentialRecord] = (), *, now_ms: int
) -> bytes:
    """The content of bootstrap.checkpoint: features of level 0 are not in it."""
    content = bytearray(snapshot_header_batch(last_contained_ms=0, leader_epoch=0, timestamp_ms=now_ms))
    records: list[MetadataRecord] = [
        FeatureLevelRecord(name=name, feature_level=level)
        for name, level in levels.items()
        if level > 0 or name == METADATA_VERSION_FEATURE
    ]
    encoded = [encode_metadata_record(each) for each in (*records, *users)]
    stored = [Record(value=value, timestamp_ms=now_ms) for value in encoded]
    batch = build_batch(stored, base_offset=read_header(content).next_offset, leader_epoch=0)
    end = read_header(batch).next_offset
    return bytes(content + batch + snapshot_footer_batch(base_offset=end, leader_epoch=0, timestamp_ms=now_ms))


def _is_formatted(fs: FileSystem, path: str, plan: FormatPlan) -> bool:
    file_path = f"{path}/{META_PROPERTIES_FILE_NAME}"
    data = read_small_file(fs, file_path)
    if data is None:
        return False
    found = decode_meta_properties(data, file_path)
    if (found.cluster_id, found.node_id) != (plan.cluster_id, plan.node_id):
        raise DirectoryFormatError(
            f"{path} belongs to node {found.node_id} of cluster {found.cluster_id}, not to node {plan.node_id} of "
            f"cluster {plan.cluster_id}"
        )
    return True


def _require_no_log(fs: FileSystem, plan: FormatPlan, is_formatted: bool) -> None:
    folder = f"{plan.metadata_dir}/{CLUSTER_METADATA_TOPIC}-0"
    if is_formatted or not fs.exists(folder):
        return
    if any(name.endswith(".log") for name in fs.list_directory(folder)):
        raise DirectoryFormatError(
            f"{folder} has a metadata log, and {plan.metadata_dir} has no {META_PROPERTIES_FILE_NAME}: format an empty "
            "directory"
        )


def _format(
    fs: FileSystem, path: str, plan: FormatPlan, *, is_metadata_dir: bool, entropy: Entropy, now_ms: int
) -> None:
    write_atomically(fs, f"{path}/{BOOTSTRAP_FILE_NAME}", build_bootstrap(plan.levels, plan.users, now_ms=now_ms))
    if is_metadata_dir and plan.voters:
        folder = f"{path}/{CLUSTER_METADATA_TOPIC}-0"
        _make(fs, folder)
        snapshot = build_bootstrap_snapshot(plan.voters, listener=plan.listener, now_ms=now_ms)
        write_atomically(fs, f"{folder}/{snapshot_name(BOOTSTRAP_SNAPSHOT)}", snapshot)
    properties = MetaProperties(
        cluster_id=plan.cluster_id,
        directory_id=plan.directory_id if is_metadata_dir else random_id(entropy),
        node_id=plan.node_id,
        is_ours=False,
    )
    write_atomically(fs, f"{path}/{META_PROPERTIES_FILE_NAME}", _kafkas_properties(properties, now_ms))


def _kafkas_properties(properties: MetaProperties, now_ms: int) -> bytes:
    """In the order in which Kafka writes them."""
    now = datetime.fromtimestamp(now_ms // 1000, UTC)
    lines = (
        "#",
        f"#{_DAYS[now.weekday()]} {_MONTHS[now.month - 1]} {now:%d %H:%M:%S} UTC {now:%Y}",
        f"node.id={properties.node_id}",
        f"directory.id={encode_id(properties.directory_id)}",
        "version=1",
        f"cluster.id={properties.cluster_id}",
        "",
    )
    return "\n".join(lines).encode("ascii")


def _make(fs: FileSystem, path: str) -> None:
    """With its parents, durably."""
    if fs.exists(path):
        return
    parent = path.rpartition("/")[0]
    if parent:
        _make(fs, parent)
    fs.make_directory(path)
    fs.sync_directory(parent or "/")
