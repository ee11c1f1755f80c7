"""The leader of a partition: who is in sync, what is committed, what is answered. Expected values are Kafka 4.3.1's."""

import pytest
from kio.schema.errors import ErrorCode
from support.replication.driven_replica import EPOCH, LAG_MS, OTHER, SELF, THIRD, DrivenReplica, a_log, an_assignment

from broker_core.log.leader_epochs import EpochEnd
from broker_core.replication.isr_answer_table import IsrReaction, isr_reaction
from broker_core.replication.replication_values import BrokerStanding, ProposeIsr, SaveLeaderEpoch


def a_leader(log=None, *, isr=(1, 2, 3), min_in_sync=1):
    driven = DrivenReplica(log, min_in_sync=min_in_sync)
    driven.assign(an_assignment(isr=isr))
    return driven


def test_a_new_leader_notes_where_its_epoch_begins_before_it_has_a_record_of_it():
    driven = a_leader(a_log((2, 0), end=7))
    assert driven.found(SaveLeaderEpoch) == [SaveLeaderEpoch(leader_epoch=EPOCH, start_offset=7)]
    assert driven.log.end_of(2) == EpochEnd(leader_epoch=2, end_offset=7)


def test_the_high_watermark_is_the_lowest_end_of_the_in_sync_replicas():
    driven = a_leader()
    driven.append(10)
    assert driven.watermark == 0, "the followers' ends are not known yet"
    driven.fetch(OTHER, 8)
    driven.fetch(THIRD, 5)
    assert driven.watermark == 5
    driven.fetch(THIRD, 9)
    assert driven.watermark == 8


def test_own_records_count_when_they_are_synced_though_followers_have_them():
    driven = a_leader(isr=(1, 2))
    driven.append(3, is_synced=False)
    assert driven.fetch(OTHER, 0).until_offset == 3, "a follower gets them before"
    driven.fetch(OTHER, 3)
    assert driven.watermark == 0
    driven.do(driven.replica.on_synced(3, 0))
    assert driven.watermark == 3


def test_an_append_with_all_acks_is_answered_when_it_is_committed():
    driven = a_leader(isr=(1, 2))
    driven.do(driven.replica.await_replication(77, driven.append(3)))
    driven.do(driven.replica.await_replication(78, driven.append(1)))
    driven.fetch(OTHER, 3)
    assert driven.answers() == [(77, "none")]
    driven.fetch(OTHER, 4)
    assert driven.answers() == [(78, "none")]


def test_fewer_in_sync_than_the_minimum_refuse_appends_with_all_acks_and_stop_the_high_watermark():
    driven = a_leader(isr=(1,), min_in_sync=2)
    assert driven.replica.append_refusal(-1) is ErrorCode.not_enough_replicas
    assert driven.replica.append_refusal(1) is None
    driven.append(3)
    assert driven.watermark == 0, "what is not replicated to enough is not shown, whatever acks it had"
    assert driven.consume(0).until_offset == 0


def test_the_minimum_is_never_more_than_there_are_replicas():
    driven = DrivenReplica(min_in_sync=2)
    driven.assign(an_assignment(isr=(1,), replicas=(1,)))
    assert driven.replica.append_refusal(-1) is None
    driven.append(1)
    assert driven.watermark == 1


def test_an_append_whose_in_sync_set_shrank_meanwhile_is_not_enough_after_append():
    driven = a_leader(isr=(1, 2))
    driven.do(driven.replica.await_replication(77, driven.append(3)))
    driven.do(driven.replica.set_min_in_sync(3, 0))
    assert driven.watermark == 0
    driven.do(driven.replica.set_min_in_sync(2, 0))
    driven.replica.leader.min_in_sync_count = 3  # raised between the watermark's rise and the answer
    driven.replica.leader._has_too_few_in_sync = lambda: False
    driven.fetch(OTHER, 3)
    assert driven.answers() == [(77, "not_enough_replicas_after_append")]


def test_what_waits_is_refused_when_the_leader_is_deposed():
    driven = a_leader(isr=(1, 2))
    driven.do(driven.replica.await_replication(77, driven.append(3)))
    driven.assign(an_assignment(OTHER, epoch=EPOCH + 1, partition_epoch=11))
    assert driven.answers() == [(77, "not_leader_or_follower")]
    assert driven.replica.append_refusal(1) is ErrorCode.not_leader_or_follower


def test_what_waits_goes_on_waiting_when_the_same_broker_leads_the_next_epoch():
    driven = a_leader(isr=(1, 2))
    driven.do(driven.replica.await_replication(77, driven.append(3)))
    driven.assign(an_assignment(epoch=EPOCH + 1, partition_epoch=11, isr=(1, 2)))
    assert driven.answers() == []
    driven.fetch(OTHER, 3, epoch=EPOCH + 1)
    assert driven.answers() == [(77, "none")]


# Fetches


def test_a_fetch_of_another_leader_epoch_is_refused():
    driven = a_leader()
    assert driven.fetch(OTHER, 0, epoch=EPOCH - 1).error is ErrorCode.fenced_leader_epoch
    assert driven.fetch(OTHER, 0, epoch=EPOCH + 1).error is ErrorCode.unknown_leader_epoch
    assert driven.consume(0, epoch=EPOCH - 1).error is ErrorCode.fenced_leader_epoch
    assert driven.consume(0).error is ErrorCode.none, "a consumer may know of no epoch"


def test_a_fetch_of_a_broker_without_a_replica_is_to_be_tried_again():
    driven = DrivenReplica()
    driven.assign(an_assignment(replicas=(1, 2), isr=(1, 2)))
    assert driven.fetch(THIRD, 0).error is ErrorCode.unknown_leader_epoch
    assert driven.fetch(THIRD, 0, epoch=-1).error is ErrorCode.not_leader_or_follower


def test_a_fetch_of_an_earlier_incarnation_does_not_count():
    driven = a_leader(isr=(1, 2))
    driven.append(3)
    assert driven.fetch(OTHER, 3, broker_epoch=50).error is ErrorCode.not_leader_or_follower
    assert driven.watermark == 0


def test_a_follower_whose_log_differs_is_told_where_and_its_offset_does_not_count():
    driven = a_leader(a_log((2, 0), (4, 6), end=9), isr=(1, 2))
    verdict = driven.fetch(OTHER, 8, last_epoch=2)
    assert verdict.diverging == EpochEnd(leader_epoch=2, end_offset=6)
    assert driven.fetch(OTHER, 8, last_epoch=3).diverging == EpochEnd(leader_epoch=2, end_offset=6)
    assert driven.watermark == 0
    assert driven.fetch(OTHER, 6, last_epoch=2).diverging is None
    assert driven.watermark == 6


def test_an_epoch_that_the_leader_cannot_place_is_out_of_range():
    driven = a_leader(a_log(end=9))
    driven.log.epochs.truncate_from_end(0)
    assert driven.fetch(OTHER, 4, last_epoch=2).error is ErrorCode.offset_out_of_range


@pytest.mark.parametrize("offset", [1, 10])
def test_an_offset_before_the_start_or_behind_the_end_is_out_of_range(offset):
    driven = a_leader(a_log((5, 2), start=2, end=9, watermark=9))
    assert driven.fetch(OTHER, offset).error is ErrorCode.offset_out_of_range
    assert driven.consume(offset).error is ErrorCode.offset_out_of_range


def test_a_consumer_reads_up_to_the_high_watermark_and_waits_between_that_and_the_end():
    driven = a_leader(isr=(1, 2))
    driven.append(9)
    driven.fetch(OTHER, 4)
    assert driven.consume(0).until_offset == 4
    assert driven.consume(6) == driven.consume(6)
    assert (driven.consume(6).error, driven.consume(6).until_offset) == (ErrorCode.none, 6)


def test_the_end_is_not_told_before_the_watermark_reaches_the_start_of_the_epoch():
    driven = a_leader(a_log((2, 0), end=5, watermark=3), isr=(1, 2))
    assert not driven.replica.leader.is_end_known
    driven.fetch(OTHER, 5, last_epoch=2)
    assert driven.replica.leader.is_end_known


# In-sync replicas


def test_a_follower_that_reached_the_watermark_and_the_epoch_start_is_proposed():
    driven = a_leader(a_log((2, 0), end=5, watermark=3), isr=(1, 2))
    driven.fetch(THIRD, 4, last_epoch=2)
    assert driven.found(ProposeIsr) == [], "it is below the start of the epoch"
    driven.fetch(THIRD, 5, last_epoch=2)
    proposal = driven.proposal()
    assert proposal.members == ((1, 101), (2, -1), (3, 103)), "2 has not fetched from this leader yet"
    assert (proposal.leader_epoch, proposal.partition_epoch) == (EPOCH, 10)


@pytest.mark.parametrize(
    "standing",
    [None, BrokerStanding(broker_epoch=103, is_fenced=True), BrokerStanding(broker_epoch=103, is_stopping=True)],
)
def test_a_follower_that_the_controller_would_refuse_is_not_proposed(standing):
    driven = a_leader(isr=(1, 2))
    driven.standings[THIRD] = standing
    driven.fetch(THIRD, 0)
    assert driven.found(ProposeIsr) == []


def test_a_follower_whose_registration_is_not_the_one_that_fetched_is_not_proposed():
    driven = a_leader(isr=(1, 2))
    driven.fetch(THIRD, 0, broker_epoch=104)
    assert driven.found(ProposeIsr) == [], "its registration is not in the metadata log yet"
    driven.standings[THIRD] = BrokerStanding(broker_epoch=104)
    driven.fetch(THIRD, 0, broker_epoch=104)
    assert driven.proposal().ids == {1, 2, 3}


def test_a_proposed_member_is_waited_for_before_it_is_committed():
    driven = a_leader(isr=(1, 2))
    driven.fetch(OTHER, 0)
    driven.fetch(THIRD, 0)
    assert driven.proposal().ids == {1, 2, 3}
    driven.append(4)
    driven.fetch(OTHER, 4)
    assert driven.watermark == 0


def test_a_caught_up_follower_that_may_join_is_waited_for_so_that_it_can():
    driven = a_leader(isr=(1,))
    driven.fetch(OTHER, 0)
    driven.answer(driven.proposal(), error=ErrorCode.ineligible_replica)
    driven.append(4)
    assert driven.watermark == 0
    driven.standings[OTHER] = BrokerStanding(broker_epoch=102, is_fenced=True)
    driven.do(driven.replica.on_standings(0))
    assert driven.watermark == 4


def test_members_that_lag_for_too_long_are_proposed_to_leave_and_count_until_they_left():
    driven = a_leader()
    driven.append(4)
    driven.fetch(OTHER, 4)
    driven.pass_time(LAG_MS)
    assert driven.found(ProposeIsr) == []
    driven.now_ms += LAG_MS
    driven.fetch(OTHER, 4)
    driven.pass_time(0)
    proposal = driven.proposal()
    assert proposal.ids == {1, 2}
    assert driven.watermark == 0
    driven.answer(proposal)
    assert driven.watermark == 4


def test_a_follower_that_fetches_what_was_the_end_before_is_caught_up_however_fast_the_leader_appends():
    driven = a_leader(isr=(1, 2))
    for _ in range(10):
        end = driven.append(5)
        driven.fetch(OTHER, end - 5)
        driven.pass_time(LAG_MS // 2)
    assert driven.found(ProposeIsr) == []


def test_one_proposal_is_under_way_at_a_time():
    driven = a_leader(isr=(1,))
    driven.fetch(OTHER, 0)
    driven.fetch(THIRD, 0)
    proposal = driven.proposal()
    assert proposal.ids == {1, 2}
    driven.answer(proposal)
    driven.fetch(THIRD, 0)
    assert (driven.proposal().ids, driven.replica.leader.partition_epoch) == ({1, 2, 3}, 11)


def test_the_answer_of_an_earlier_leadership_says_nothing():
    driven = a_leader(isr=(1, 2, 3))
    driven.append(1)
    driven.pass_time(2 * LAG_MS)
    proposal = driven.proposal()
    driven.assign(an_assignment(epoch=EPOCH + 2, partition_epoch=12))
    driven.answer(proposal)
    assert driven.replica.leader.in_sync.committed == {1, 2, 3}


def test_the_metadata_log_may_be_faster_than_the_answer_or_slower():
    driven = a_leader(isr=(1,))
    driven.fetch(OTHER, 0)
    proposal = driven.proposal()
    driven.assign(an_assignment(partition_epoch=11, isr=(1, 2)))
    driven.answer(proposal, isr=(1,), partition_epoch=10)
    assert driven.replica.leader.in_sync.committed == {1, 2}
    driven.fetch(THIRD, 0)
    driven.answer(driven.proposal())
    driven.assign(an_assignment(partition_epoch=11, isr=(1, 2)))
    assert driven.replica.leader.in_sync.committed == {1, 2, 3}


def reaction_to(error):
    driven = a_leader(isr=(1,))
    driven.fetch(OTHER, 0)
    proposal = driven.proposal()
    driven.answer(proposal, error=error)
    in_sync, again = driven.replica.leader.in_sync, driven.found(ProposeIsr)
    return {
        (True, False, 0): IsrReaction.APPLY, (False, False, 0): IsrReaction.REVERT,
        (False, True, 0): IsrReaction.AWAIT_METADATA, (False, True, 1): IsrReaction.RETRY,
    }[in_sync.committed == {1, 2}, in_sync.proposal is proposal, len(again)]  # fmt: skip


def test_every_error_of_the_controller_has_the_reaction_of_the_table():
    seen = {error: reaction_to(error) for error in ErrorCode}
    assert seen == {error: isr_reaction(error) for error in ErrorCode}
    assert seen[ErrorCode.ineligible_replica] is IsrReaction.REVERT
    for error in (ErrorCode.not_controller, ErrorCode.unknown_server_error, ErrorCode.stale_broker_epoch):
        assert seen[error] is IsrReaction.RETRY


def test_records_are_deleted_everywhere_when_every_living_replica_starts_behind_them():
    driven = a_leader(a_log((2, 0), end=5, watermark=5))
    driven.do(driven.replica.advance_log_start(4))
    driven.fetch(OTHER, 5, last_epoch=2, log_start=4)
    driven.fetch(THIRD, 5, last_epoch=2, log_start=1)
    assert driven.replica.leader.low_watermark() == 1
    driven.standings[THIRD] = BrokerStanding(broker_epoch=103, is_fenced=True)
    assert driven.replica.leader.low_watermark() == 4


def test_records_that_are_not_committed_cannot_be_deleted():
    driven = a_leader(isr=(1, 2))
    driven.append(4)
    assert driven.replica.advance_log_start(2) == []
    assert driven.log.log_start_offset == 0


def test_the_own_broker_epoch_is_that_of_the_metadata_log():
    driven = a_leader(isr=(SELF,))
    driven.fetch(OTHER, 0)
    assert dict(driven.proposal().members)[SELF] == 101
