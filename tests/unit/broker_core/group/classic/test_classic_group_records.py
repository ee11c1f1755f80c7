import struct
from dataclasses import replace

import pytest
from hypothesis import given, strategies

from broker_core.group.classic.classic_group_records import (
    StoredGroup,
    StoredMember,
    decode_stored_group,
    encode_stored_group,
)
from broker_core.model.exceptions import CorruptBatchError, UnsupportedFormatError

# What a Kafka 4.3.1 stored: a new group, one of a static member, the same group when he had left.
NEW = bytes.fromhex("0003000000000000ffffffff000001a2215ebff200000000")
STATIC = bytes.fromhex(
    "00030008636f6e73756d657200000001000572616e6765002769312d37363965353439652d623333362d343837642d616535342d64386631"
    "6239396135346539000001a2215ecd1900000001002769312d37363965353439652d623333362d343837642d616535342d643866316239"
    "396135346539000269310003636c69000a2f3132372e302e302e3100001388000027100000000d000000000001000174ffffffff0000000"
    "24141"
)
LEFT = bytes.fromhex("00030008636f6e73756d657200000002ffffffff000001a2215ecd6200000000")

MEMBER = StoredMember(
    member_id="i1-769e549e-b336-487d-ae54-d8f1b99a54e9",
    group_instance_id="i1",
    client_id="cli",
    client_host="/127.0.0.1",
    rebalance_timeout_ms=5_000,
    session_timeout_ms=10_000,
    subscription=b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff",
    assignment=b"AA",
)
GROUP = StoredGroup(
    protocol_type="consumer",
    generation_id=1,
    protocol="range",
    leader=MEMBER.member_id,
    state_timestamp_ms=1_795_856_190_745,
    members=(MEMBER,),
)


def by_schema(group, version):
    """The value as GroupMetadataValue.json describes it, written without the code under test."""
    is_flexible = version == 4

    def text(given):
        if is_flexible:
            return b"\0" if given is None else bytes([len(given.encode()) + 1]) + given.encode()
        return struct.pack(">h", -1) if given is None else struct.pack(">h", len(given.encode())) + given.encode()

    def blob(given):
        return (bytes([len(given) + 1]) if is_flexible else struct.pack(">i", len(given))) + given

    out = struct.pack(">h", version) + text(group.protocol_type) + struct.pack(">i", group.generation_id)
    out += text(group.protocol) + text(group.leader)
    out += struct.pack(">q", group.state_timestamp_ms) if version >= 2 else b""
    out += bytes([len(group.members) + 1]) if is_flexible else struct.pack(">i", len(group.members))
    for member in group.members:
        out += text(member.member_id)
        out += text(member.group_instance_id) if version >= 3 else b""
        out += text(member.client_id) + text(member.client_host)
        out += struct.pack(">i", member.rebalance_timeout_ms) if version >= 1 else b""
        out += struct.pack(">i", member.session_timeout_ms) + blob(member.subscription) + blob(member.assignment)
        out += b"\0" if is_flexible else b""
    return out + (b"\0" if is_flexible else b"")


@pytest.mark.parametrize("stored", [NEW, STATIC, LEFT], ids=["new", "static member", "left"])
def test_records_that_kafka_wrote_round_trip_byte_for_byte(stored):
    assert encode_stored_group(decode_stored_group("g", stored)) == stored


def test_records_that_kafka_wrote_are_read():
    assert decode_stored_group("g", STATIC) == GROUP
    assert decode_stored_group("g", NEW) == StoredGroup(state_timestamp_ms=1_795_856_187_378)
    assert decode_stored_group("g", LEFT) == StoredGroup(
        protocol_type="consumer", generation_id=2, state_timestamp_ms=1_795_856_190_818
    )


@pytest.mark.parametrize("version", range(5))
def test_each_version_has_its_fields(version):
    member = replace(MEMBER, group_instance_id="i1" if version >= 3 else None)
    if version < 1:
        member = replace(member, rebalance_timeout_ms=member.session_timeout_ms)
    expected = replace(GROUP, members=(member,), state_timestamp_ms=GROUP.state_timestamp_ms if version >= 2 else -1)
    assert decode_stored_group("g", by_schema(GROUP, version)) == expected


def test_bytes_after_the_fields_are_ignored():
    assert decode_stored_group("g", STATIC + b"later") == GROUP


def test_a_newer_version_is_refused_by_name():
    with pytest.raises(UnsupportedFormatError, match="'g' have version 5, supported are 0 to 4"):
        decode_stored_group("g", b"\0\5" + STATIC[2:])


@pytest.mark.parametrize("version", range(5))
def test_every_truncated_value_is_refused(version):
    whole = by_schema(GROUP, version)
    for size in range(len(whole)):
        with pytest.raises(CorruptBatchError):
            decode_stored_group("g", whole[:size])


def test_a_member_count_beyond_the_bytes_is_refused_before_reading():
    with pytest.raises(CorruptBatchError, match="claims 2147483647 items"):
        decode_stored_group("g", NEW[:-4] + b"\x7f\xff\xff\xff")


texts = strategies.text(max_size=20)
members = strategies.builds(
    StoredMember,
    member_id=texts,
    group_instance_id=strategies.none() | texts,
    client_id=texts,
    client_host=texts,
    rebalance_timeout_ms=strategies.integers(0, 2**31 - 1),
    session_timeout_ms=strategies.integers(0, 2**31 - 1),
    subscription=strategies.binary(max_size=30),
    assignment=strategies.binary(max_size=30),
)
groups = strategies.builds(
    StoredGroup,
    protocol_type=texts,
    generation_id=strategies.integers(0, 2**31 - 1),
    protocol=strategies.none() | texts,
    leader=strategies.none() | texts,
    state_timestamp_ms=strategies.integers(-1, 2**62),
    members=strategies.lists(members, max_size=3).map(tuple),
)


@given(groups)
def test_written_records_round_trip_and_match_the_schema(group):
    written = encode_stored_group(group)
    assert written == by_schema(group, 3)
    assert decode_stored_group("g", written) == group
