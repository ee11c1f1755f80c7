import pytest

from broker_core.group.consumer.consumer_protocol import decode_assignment, decode_subscription, encode_assignment
from broker_core.model.exceptions import CorruptBatchError

# What kafka-clients 4.3 sends: version 3, topics [t], no user data, owned t [0, 2], generation 5, rack "r".
SUBSCRIPTION = bytes.fromhex("0003 00000001 000174 ffffffff 00000001 000174 00000002 00000000 00000002 00000005 000172")
ASSIGNMENT = bytes.fromhex("0003 00000001 000174 00000002 00000000 00000002 ffffffff")


def test_a_subscription_is_read_in_all_its_versions():
    newest = decode_subscription(SUBSCRIPTION)
    assert (newest.version, newest.topics, newest.owned, newest.rack_id) == (3, {"t"}, {"t": {0, 2}}, "r")
    oldest = decode_subscription(bytes.fromhex("0000 00000001 000174 ffffffff"))
    assert (oldest.topics, oldest.owned, oldest.rack_id) == ({"t"}, {}, None)
    future = decode_subscription(bytes.fromhex("0009") + SUBSCRIPTION[2:] + b"more")
    assert future.owned == newest.owned


def test_an_assignment_is_written_in_the_version_of_the_members_subscription():
    assert encode_assignment({"t": frozenset({2, 0})}, SUBSCRIPTION) == ASSIGNMENT
    assert encode_assignment({}, bytes.fromhex("0001")) == bytes.fromhex("0001 00000000 ffffffff")
    assert encode_assignment({}, bytes.fromhex("0009"))[:2] == b"\x00\x03"


def test_an_assignment_is_read_with_its_user_data():
    assert decode_assignment(ASSIGNMENT).partitions == {"t": {0, 2}}
    assert decode_assignment(b"").partitions == {}
    assert decode_assignment(ASSIGNMENT[:-4] + bytes.fromhex("00000002 0102")).user_data == b"\x01\x02"


@pytest.mark.parametrize("content", [SUBSCRIPTION[:-1], b"", b"\xff\xff", bytes.fromhex("0000 7fffffff")])
def test_invalid_subscription_bytes_are_corrupt(content):
    with pytest.raises(CorruptBatchError):
        decode_subscription(content)
