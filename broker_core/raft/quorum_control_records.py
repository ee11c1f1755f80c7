"""The quorum's control records: leader changes, the voters, and what frames a snapshot. Messages are kio's.

    epoch of static voters     leader change
    epoch of dynamic voters    leader change; with kraft.version and voters in the same batch if the log has none
                               yet, or if the leader's endpoints are not those in it
    change of the voters       voters
    snapshot                   header; with kraft.version and voters in the same batch if they are dynamic · … · footer

key    int16 version 0, int16 type
value  a message, which begins with its own version

type   2                3                 4                 5               6
       leader change    snapshot header   snapshot footer   kraft.version   voters
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from importlib import import_module
from typing import Any, Final

from kio.schema.types import BrokerId
from kio.static.primitive import i16, i32, i64

from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import CorruptBatchError, MalformedMessageError, UnsupportedFormatError
from broker_core.protocol.message_builder import build
from broker_core.protocol.message_reader import decode
from broker_core.protocol.message_writer import encode
from broker_core.raft.voter_set import VoterNode, VoterSet
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record
from broker_core.record.control_records import ControlType, control_type

_KEY: Final = struct.Struct(">hh")
_VERSION: Final = struct.Struct(">h")

_MESSAGES: Final = {
    ControlType.LEADER_CHANGE: ("leader_change_message", "LeaderChangeMessage", 1),
    ControlType.SNAPSHOT_HEADER: ("snapshot_header_record", "SnapshotHeaderRecord", 0),
    ControlType.SNAPSHOT_FOOTER: ("snapshot_footer_record", "SnapshotFooterRecord", 0),
    ControlType.KRAFT_VERSION: ("k_raft_version_record", "KRaftVersionRecord", 0),
    ControlType.KRAFT_VOTERS: ("voters_record", "VotersRecord", 0),
}
"""Module and class of kio, and the highest version."""


def read_control_record(record: Record) -> tuple[ControlType, Any]:
    """Its type and its message. Raises UnsupportedFormatError for a type or version that is not known, and
    CorruptBatchError for bytes that are none."""
    kind = control_type(record.key)
    if kind not in _MESSAGES:
        raise UnsupportedFormatError(f"control record at offset {record.offset} of a type that no quorum writes")
    value = memoryview(record.value or b"")
    if len(value) < _VERSION.size:
        raise CorruptBatchError(f"control record at offset {record.offset} has a value of {len(value)} bytes")
    message_type = _message_type(kind, _VERSION.unpack_from(value)[0])
    try:
        message, end = decode(message_type, value)
    except MalformedMessageError as error:
        raise CorruptBatchError(f"control record at offset {record.offset}: {error.message}") from error
    if end != len(value):
        raise CorruptBatchError(f"control record at offset {record.offset}: {len(value) - end} bytes are left")
    return kind, message


def control_record(kind: ControlType, message: Any, *, timestamp_ms: int) -> Record:
    """A record of that type, for a control batch."""
    value = b"".join(bytes(part) for part in encode(message))
    return Record(key=_KEY.pack(0, kind), value=value, timestamp_ms=timestamp_ms)


def leader_change_batch(
    *,
    leader_id: int,
    voters: Iterable[int],
    granting_voters: Iterable[int],
    timestamp_ms: int,
    dynamic: tuple[int, VoterSet] | None = None,
) -> bytearray:
    """The first batch of an epoch, at offset 0 until it is placed. Leader changes in version 0, as Kafka 4.3 writes
    them. `dynamic`: the kraft.version and the voters to repeat."""
    from kio.schema.leader_change_message.v0.data import LeaderChangeMessage, Voter

    message = LeaderChangeMessage(
        version=i16(0),
        leader_id=BrokerId(leader_id),
        voters=tuple(Voter(voter_id=i32(node_id)) for node_id in voters),
        granting_voters=tuple(Voter(voter_id=i32(node_id)) for node_id in granting_voters),
    )
    record = control_record(ControlType.LEADER_CHANGE, message, timestamp_ms=timestamp_ms)
    return build_batch([record, *_dynamic_records(dynamic, timestamp_ms)], is_control=True)


def voters_batch(voters: VoterSet, *, timestamp_ms: int, kraft_version: int | None = None) -> bytearray:
    """A change of the voters, at offset 0 until it is placed; of kraft.version too, if one is given."""
    if kraft_version is not None:
        return build_batch(_dynamic_records((kraft_version, voters), timestamp_ms), is_control=True)
    record = control_record(ControlType.KRAFT_VOTERS, voters_message(voters), timestamp_ms=timestamp_ms)
    return build_batch([record], is_control=True)


def snapshot_header_batch(
    *, last_contained_ms: int, leader_epoch: int, timestamp_ms: int, dynamic: tuple[int, VoterSet] | None = None
) -> bytearray:
    """The first batch of a snapshot. `dynamic`: kraft.version and voters at its end, None for kraft.version 0."""
    from kio.schema.snapshot_header_record.v0.data import SnapshotHeaderRecord

    message = SnapshotHeaderRecord(version=i16(0), last_contained_log_timestamp=i64(last_contained_ms))
    record = control_record(ControlType.SNAPSHOT_HEADER, message, timestamp_ms=timestamp_ms)
    records = [record, *_dynamic_records(dynamic, timestamp_ms)]
    return build_batch(records, leader_epoch=leader_epoch, is_control=True)


def _dynamic_records(dynamic: tuple[int, VoterSet] | None, timestamp_ms: int) -> list[Record]:
    from kio.schema.k_raft_version_record.v0.data import KRaftVersionRecord

    if dynamic is None:
        return []
    version, voters = dynamic
    messages = (
        (ControlType.KRAFT_VERSION, build(KRaftVersionRecord, {"k_raft_version": version})),
        (ControlType.KRAFT_VOTERS, voters_message(voters)),
    )
    return [control_record(kind, message, timestamp_ms=timestamp_ms) for kind, message in messages]


def voters_message(voters: VoterSet) -> Any:
    """The content of a voters record."""
    from kio.schema.voters_record.v0.data import VotersRecord

    return build(VotersRecord, {"voters": [_voter_values(node) for node in voters.nodes.values()]})


def _voter_values(node: VoterNode) -> dict[str, object]:
    lowest, highest = node.kraft_versions
    return {
        "voter_id": node.node_id,
        "voter_directory_id": node.directory_id,
        "endpoints": [
            {"name": name, "host": address.host, "port": address.port} for name, address in node.endpoints.items()
        ],
        "k_raft_version_feature": {"min_supported_version": lowest, "max_supported_version": highest},
    }


def voters_of(message: Any) -> VoterSet:
    """What a voters record says."""
    return VoterSet.of(
        [
            VoterNode(
                node_id=int(each.voter_id),
                directory_id=each.voter_directory_id,
                endpoints={
                    str(place.name): BrokerAddress(host=str(place.host), port=int(place.port))
                    for place in each.endpoints
                },
                kraft_versions=(
                    int(each.k_raft_version_feature.min_supported_version),
                    int(each.k_raft_version_feature.max_supported_version),
                ),
            )
            for each in message.voters
        ]
    )


def snapshot_footer_batch(*, base_offset: int, leader_epoch: int, timestamp_ms: int) -> bytearray:
    """The last batch of a snapshot."""
    from kio.schema.snapshot_footer_record.v0.data import SnapshotFooterRecord

    record = control_record(
        ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=i16(0)), timestamp_ms=timestamp_ms
    )
    return build_batch([record], base_offset=base_offset, leader_epoch=leader_epoch, is_control=True)


def _message_type(kind: ControlType, version: int) -> Any:
    folder, name, highest = _MESSAGES[kind]
    if not 0 <= version <= highest:
        raise UnsupportedFormatError(f"{name} in version {version}, known are 0 to {highest}")
    found: Any = getattr(import_module(f"kio.schema.{folder}.v{version}.data"), name)
    return found
