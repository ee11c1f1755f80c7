"""Records of groups that are not served, as a Kafka leaves them in `__consumer_offsets`."""

import struct

import pytest
from kio.schema.errors import ErrorCode
from support.nodes.group_runner import GroupRunner

from broker_core.group.classic.classic_messages import HeartbeatRequest, JoinRequest, LeaveRequest, SyncRequest
from broker_core.group.coordinator_records import decode_coordinator_record, encode_coordinator_record
from broker_core.group.foreign_groups import ForeignKind
from broker_core.group.group_records import OffsetCommitRecord, OffsetCommitValue
from broker_core.group.offsets.offset_messages import CommitRequest, DeleteOffsetsRequest, FetchRequest
from broker_core.model.exceptions import RequestRefusedError
from broker_core.model.identifiers import TopicPartition

T0 = TopicPartition("t", 0)
# The numbers of Kafka 4.3's record types: see CoordinatorRecordType there.
SHARE, STREAMS, NEWEST_KNOWN, UNKNOWN = (10, 15), (17, 23), 23, 999


def a_key(number, group_id, *more):
    return struct.pack(">h", number) + b"".join(
        struct.pack(">h", len(each)) + each for each in (group_id.encode(), *more)
    )


def offset_of(group_id, *, version=None):
    """The key and value of a commit, maybe as if of another version."""
    value = OffsetCommitValue(offset=5, commit_time_ms=1)
    stored = encode_coordinator_record(OffsetCommitRecord(group_id=group_id, partition=T0, value=value), timestamp_ms=1)
    return stored.key, stored.value if version is None else struct.pack(">h", version) + stored.value[2:]


def loaded(*stored):
    coordinator = GroupRunner().coordinator
    for offset, (key, value) in enumerate(stored):
        record = decode_coordinator_record(key, value)
        if record is not None:
            coordinator.replay(record, record_offset=offset)
    return coordinator


@pytest.mark.parametrize(
    ("number", "kind"),
    [*((each, ForeignKind.SHARE) for each in SHARE), *((each, ForeignKind.STREAMS) for each in STREAMS)],
)
def test_a_group_of_a_kind_that_is_not_served_is_foreign_until_its_last_record_is_gone(number, kind):
    keys = [a_key(number, "g"), a_key(number, "g", b"member")]
    coordinator = loaded(*((key, b"\0\0what only a Kafka reads") for key in keys))
    assert coordinator.foreign_groups.kind_of("g") is kind
    coordinator.replay(decode_coordinator_record(keys[0], None), record_offset=3)
    assert coordinator.foreign_groups.kind_of("g") is kind
    coordinator.replay(decode_coordinator_record(keys[1], None), record_offset=4)
    assert coordinator.foreign_groups.kind_of("g") is None


def test_what_is_asked_of_a_foreign_group_is_refused_by_name():
    coordinator = loaded((a_key(17, "g"), b"\0\0"))
    join = JoinRequest(
        group_id="g", session_timeout_ms=1, rebalance_timeout_ms=1, protocol_type="consumer", protocols=()
    )
    commit = CommitRequest(group_id="g", generation_id=-1, member_id="", group_instance_id=None, offsets={})
    member = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    for refused in (
        lambda: coordinator.on_join(1, join, 0),
        lambda: coordinator.on_sync(1, SyncRequest(**member), 0),
        lambda: coordinator.on_heartbeat(1, HeartbeatRequest(**member), 0),
        lambda: coordinator.on_leave(1, LeaveRequest(group_id="g", members=()), 0),
        lambda: coordinator.on_commit_offsets(1, commit, 0),
        lambda: coordinator.on_txn_commit_offsets(1, commit, 0),
        lambda: coordinator.delete_offsets(1, DeleteOffsetsRequest(group_id="g", partitions=())),
        lambda: coordinator.delete_group(1, "g"),
    ):
        with pytest.raises(RequestRefusedError, match="Group g is a streams group, and such groups are not served"):
            refused()
    described = coordinator.describe("g")
    assert (described.error_code, described.error_message) == (
        ErrorCode.group_id_not_found,
        "Group g is a streams group, and such groups are not served.",
    )


def test_the_offsets_of_a_streams_group_can_be_read_and_never_expire():
    coordinator = loaded(offset_of("g"), (a_key(17, "g"), b"\0\0"), offset_of("other"))
    assert coordinator.fetch_offsets(FetchRequest(group_id="g", partitions=(T0,))).offsets[T0].committed.offset == 5
    expired = coordinator.plan_expire_offsets(10**15).records
    assert {record.group_id for record in expired} == {"other"}
    assert [group.group_id for group in coordinator.list_groups()] == ["other"]


def test_a_group_with_a_record_of_a_newer_version_is_refused_and_the_others_are_served():
    """A partition was not loaded at all because of one group's record. "No offset" would have been worse: a client
    reads all again, or skips to the end."""
    newer_members = (a_key(2, "members"), struct.pack(">h", 99) + b"?")
    newer_consumer = (a_key(3, "consumer"), struct.pack(">h", 1) + b"?")
    coordinator = loaded(offset_of("g", version=99), newer_members, newer_consumer, offset_of("fine"))
    for group_id in ("g", "members", "consumer"):
        with pytest.raises(RequestRefusedError, match=f"Group {group_id} has records of a newer version"):
            coordinator.fetch_offsets(FetchRequest(group_id=group_id, partitions=(T0,)))
    assert coordinator.fetch_offsets(FetchRequest(group_id="fine", partitions=(T0,))).offsets[T0].committed.offset == 5


def test_a_type_that_kafka_does_not_know_either_is_skipped_and_a_known_one_without_a_group_is_damage():
    assert decode_coordinator_record(a_key(UNKNOWN, "g"), b"") is None
    assert decode_coordinator_record(a_key(NEWEST_KNOWN + 1, "g"), b"") is None
