"""Where a consumer may rather fetch from (KIP-392): Kafka's RackAwareReplicaSelector, and what followers are told."""

import pytest
from support.replication.driven_replica import OTHER, THIRD, DrivenReplica, an_assignment

from broker_core.replication.replication_values import BrokerStanding


@pytest.fixture
def driven():
    """Ten records, committed; the follower OTHER has all of them, THIRD nine."""
    driven = DrivenReplica()
    driven.assign(an_assignment())
    driven.append(10)
    driven.fetch(OTHER, 10, log_start=2)
    driven.fetch(THIRD, 9)
    return driven


def preferred(driven, offset, near=(OTHER, THIRD)):
    return driven.replica.leader.preferred_reader(offset, lambda replica_id: replica_id in near)


def test_the_near_follower_that_is_furthest_is_preferred(driven):
    assert preferred(driven, 5) == OTHER
    assert preferred(driven, 5, near=(THIRD,)) == THIRD
    assert preferred(driven, 5, near=()) is None


def test_its_log_must_have_the_offset(driven):
    assert preferred(driven, 10) == OTHER
    assert preferred(driven, 10, near=(THIRD,)) is None
    assert preferred(driven, 1) == THIRD
    assert preferred(driven, 1, near=(OTHER,)) is None


def test_of_two_that_are_as_far_the_one_that_caught_up_last_is_preferred(driven):
    driven.now_ms = 500
    driven.fetch(THIRD, 10)
    assert preferred(driven, 5) == THIRD


def test_who_is_not_in_sync_is_not_preferred(driven):
    driven.assign(an_assignment(partition_epoch=11, isr=(1, THIRD)))
    assert preferred(driven, 5) == THIRD
    assert preferred(driven, 5, near=(OTHER,)) is None


@pytest.mark.parametrize("standing", [None, BrokerStanding(broker_epoch=102, is_fenced=True)])
def test_who_is_not_alive_is_not_preferred(driven, standing):
    driven.standings[OTHER] = standing
    assert preferred(driven, 5, near=(OTHER,)) is None


def test_nothing_is_known_of_a_follower_before_its_first_fetch():
    driven = DrivenReplica()
    driven.assign(an_assignment())
    assert preferred(driven, 0) is None


def test_a_high_watermark_is_news_until_the_follower_is_told(driven):
    leader = driven.replica.leader
    assert driven.watermark == 9
    assert leader.is_watermark_news(OTHER)
    leader.on_watermark_told(OTHER, 9)
    assert not leader.is_watermark_news(OTHER)
    assert leader.is_watermark_news(THIRD)
    driven.fetch(THIRD, 10)
    assert leader.is_watermark_news(OTHER)


def test_who_is_no_follower_is_told_nothing(driven):
    driven.replica.leader.on_watermark_told(77, 5)
    assert not driven.replica.leader.is_watermark_news(77)
