"""Placement over racks: each replica of a partition in another rack while there are any, leaders spread."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.controller.small_cluster import CountingDice

from broker_core.controller.replica_placement import PlaceableBroker, place_replicas
from broker_core.model.exceptions import RequestRefusedError


def brokers(racks, fenced=()):
    """Of broker ids by rack."""
    return [
        PlaceableBroker(broker_id=broker_id, rack=rack, is_fenced=broker_id in fenced)
        for rack, ids in racks.items()
        for broker_id in ids
    ]


SIX = {"a": (1, 2), "b": (3, 4), "c": (5, 6)}
RACK_OF = {broker_id: rack for rack, ids in SIX.items() for broker_id in ids}


@given(seed=st.integers(0, 10**9), factor=st.integers(1, 6))
def test_no_rack_has_a_second_replica_while_another_has_none(seed, factor):
    for replicas in place_replicas(brokers(SIX), partition_count=9, factor=factor, entropy=CountingDice(seed)):
        counts = Counter(RACK_OF[broker_id] for broker_id in replicas)
        assert len(set(replicas)) == factor
        assert max(counts.values()) - min([counts[rack] for rack in SIX]) <= 1


@given(seed=st.integers(0, 10**9))
def test_leaders_and_followers_are_spread_evenly(seed):
    placed = place_replicas(brokers(SIX), partition_count=600, factor=3, entropy=CountingDice(seed))
    assert set(Counter(replicas[0] for replicas in placed).values()) == {100}
    assert all(250 <= count <= 350 for count in Counter(b for replicas in placed for b in replicas).values())


def test_without_racks_all_brokers_are_one():
    placed = place_replicas(brokers({None: (1, 2, 3)}), partition_count=3, factor=3, entropy=CountingDice())
    assert sorted(replicas[0] for replicas in placed) == [1, 2, 3]


def test_a_fenced_broker_is_never_first_and_comes_only_where_live_ones_are_used_up():
    some = brokers({"a": (1,), "b": (2,), "c": (3,)}, fenced=(3,))
    for replicas in place_replicas(some, partition_count=9, factor=3, entropy=CountingDice()):
        assert replicas[0] != 3 and sorted(replicas) == [1, 2, 3]
    one_rack = brokers({"a": (1, 2, 3)}, fenced=(2,))
    placed = place_replicas(one_rack, partition_count=9, factor=2, entropy=CountingDice())
    assert all(2 not in replicas for replicas in placed)


@pytest.mark.parametrize(
    ("some", "factor", "reason"),
    [
        (brokers({"a": (1,)}), 0, "must be positive"),
        (brokers({"a": (1, 2)}, fenced=(1, 2)), 1, "All brokers are currently fenced"),
        (brokers({}), 1, "All brokers are currently fenced"),
        (brokers({"a": (1, 2)}), 3, "only 2 broker"),
    ],
)
def test_a_factor_that_cannot_be_reached_is_refused(some, factor, reason):
    with pytest.raises(RequestRefusedError, match=reason) as refused:
        place_replicas(some, partition_count=1, factor=factor, entropy=CountingDice())
    assert refused.value.error_code.name == "invalid_replication_factor"
