"""A replica's roles, as the metadata log has them."""

from kio.schema.errors import ErrorCode
from support.replication.driven_replica import EPOCH, OTHER, THIRD, DrivenReplica, a_log, an_assignment

from broker_core.replication.replication_values import SaveLeaderEpoch


def test_an_older_partition_epoch_is_ignored():
    driven = DrivenReplica()
    driven.assign(an_assignment(OTHER, epoch=EPOCH + 1, partition_epoch=11))
    driven.assign(an_assignment(epoch=EPOCH, partition_epoch=10))
    assert driven.replica.leader is None


def test_what_the_metadata_log_tells_again_changes_nothing():
    driven = DrivenReplica()
    driven.assign(an_assignment(isr=(1, 2)))
    driven.fetch(THIRD, 0)
    proposal = driven.proposal()
    driven.assign(an_assignment(isr=(1, 2)))
    assert driven.replica.leader.in_sync.proposal is proposal


def test_a_leader_follows_and_a_follower_leads():
    driven = DrivenReplica(a_log((2, 0), end=4))
    driven.assign(an_assignment())
    driven.assign(an_assignment(OTHER, epoch=EPOCH + 1, partition_epoch=11))
    assert (driven.replica.leader, driven.replica.fetch_position().leader_epoch) == (None, EPOCH + 1)
    driven.assign(an_assignment(epoch=EPOCH + 2, partition_epoch=12))
    assert driven.replica.fetch_position() is None
    assert driven.found(SaveLeaderEpoch)[-1] == SaveLeaderEpoch(leader_epoch=EPOCH + 2, start_offset=4)


def test_a_leader_that_leads_again_knows_nothing_of_the_followers():
    driven = DrivenReplica()
    driven.assign(an_assignment(isr=(1, 2)))
    driven.append(4)
    driven.fetch(OTHER, 2)
    driven.assign(an_assignment(epoch=EPOCH + 1, partition_epoch=11, isr=(1, 2)))
    driven.append(4)
    assert driven.replica.leader.follower(OTHER).log_end_offset == -1
    assert driven.watermark == 2


def test_another_member_does_not_disturb_a_follower():
    driven = DrivenReplica(a_log(end=4))
    driven.assign(an_assignment(OTHER))
    follower = driven.replica.follower
    driven.assign(an_assignment(OTHER, partition_epoch=11, isr=(2,)))
    assert driven.replica.follower is follower


def test_a_broker_that_is_no_replica_any_more_neither_leads_nor_follows():
    driven = DrivenReplica()
    driven.assign(an_assignment(isr=(1, 2)))
    driven.do(driven.replica.await_replication(77, driven.append(1)))
    driven.assign(an_assignment(OTHER, epoch=EPOCH + 1, partition_epoch=11, replicas=(2, 3), isr=(2, 3)))
    assert (driven.replica.leader, driven.replica.follower) == (None, None)
    assert driven.answers() == [(77, "not_leader_or_follower")]
    assert driven.fetch(OTHER, 0).error is ErrorCode.not_leader_or_follower


def test_after_a_failed_write_a_replica_does_nothing_more():
    driven = DrivenReplica()
    driven.assign(an_assignment(isr=(1, 2)))
    driven.do(driven.replica.await_replication(77, driven.append(1, is_synced=False)))
    driven.do(driven.replica.on_write_failed())
    assert driven.answers() == [(77, "kafka_storage_error")]
    assert driven.replica.append_refusal(1) is ErrorCode.kafka_storage_error
    assert driven.fetch(OTHER, 0).error is ErrorCode.kafka_storage_error
    driven.assign(an_assignment(epoch=EPOCH + 1, partition_epoch=11))
    assert driven.found(SaveLeaderEpoch) == [SaveLeaderEpoch(leader_epoch=EPOCH, start_offset=0)]
