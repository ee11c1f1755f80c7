import pytest
from support.quorum.snapshot_times import without_times

from broker_core.model.exceptions import InvalidConfigError
from broker_core.raft.bootstrap_voters import build_bootstrap_snapshot, parse_bootstrap_voters
from broker_core.raft.snapshot_frame import check_snapshot

KAFKAS = bytes.fromhex(
    "00000000000000000000009a00000000020d936f84002000000002000001a22d0d02c0000001a22d0d02c0ffffffffffffffffffffffffffff"
    "000000032a0000000800000003160000000001a22d0d027500001e00000208000000050a000000010000820100000408000000066e00000200"
    "000001be5026abb6c0406881dac9a1aae3ea46020b434f4e54524f4c4c45520a6c6f63616c686f73744a950000000001000000000000000000"
    "0000030000003f0000000002930a50e6002000000000000001a22d0d02d6000001a22d0d02d6ffffffffffffffffffffffffffff000000011a"
    "00000008000000040600000000"
)
"""What `kafka-storage format --standalone` of Kafka 4.3.1 wrote."""


def test_the_first_snapshot_is_kafkas_byte_for_byte_but_for_times():
    voters = parse_bootstrap_voters("1@localhost:19093:vlAmq7bAQGiB2smhquPqRg")
    ours = build_bootstrap_snapshot(voters, listener="CONTROLLER", now_ms=5)
    check_snapshot(ours)
    assert without_times(ours) == without_times(KAFKAS)
    assert ours != KAFKAS


def test_voters_are_in_the_order_of_their_ids():
    voters = parse_bootstrap_voters("3@c:3:MvDxzVmcRsaTz33bUuRU6A, 1@[::1]:1:JEXY6aqzQY-32P5TStzaFg,")
    assert [(each.node_id, each.address.host, each.address.port) for each in voters] == [(1, "::1", 1), (3, "c", 3)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no voters are given"),
        ("1@host:9093", "'1@host:9093' is not id@host:port:directory"),
        ("1@host:99093:JEXY6aqzQY-32P5TStzaFg", "is not id@host:port:directory"),
        ("1@host:9093:short", "is not id@host:port:directory"),
        ("9999999999@host:1:JEXY6aqzQY-32P5TStzaFg", "is not id@host:port:directory"),
        ("1@a:1:JEXY6aqzQY-32P5TStzaFg,1@b:2:MvDxzVmcRsaTz33bUuRU6A", "the id 1 is there twice"),
    ],
)
def test_a_wrong_voter_is_named(text, reason):
    with pytest.raises(InvalidConfigError, match=reason):
        parse_bootstrap_voters(text)
