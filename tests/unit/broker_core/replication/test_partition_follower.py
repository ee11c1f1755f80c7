"""A follower of a partition: what it appends, where it truncates, when it fetches on. Expected values are Kafka
4.3.1's."""

from kio.schema.errors import ErrorCode
from support.replication.driven_replica import (
    BACKOFF_MS,
    EPOCH,
    OTHER,
    DrivenReplica,
    a_log,
    an_assignment,
    batches,
)

from broker_core.log.leader_epochs import EpochEnd
from broker_core.replication.follower_table import FollowerState
from broker_core.replication.replication_values import (
    AdvanceLogStart,
    AppendFetched,
    AskLeaderBounds,
    FetchPosition,
    ReplicaFetchAnswer,
    RestartPartition,
    SyncPartition,
    TruncatePartition,
    WatermarkAdvanced,
)


class Follower(DrivenReplica):
    def __init__(self, log=None, **others):
        super().__init__(log)
        self.assign(an_assignment(OTHER, **others))

    @property
    def state(self):
        return self.replica.follower.state

    def hear(self, **answer):
        position = self.replica.follower._position()
        return self.do(self.replica.on_answer(position, ReplicaFetchAnswer(**answer), self.now_ms))

    def diverge(self, epoch, end_offset):
        return self.hear(diverging=EpochEnd(leader_epoch=epoch, end_offset=end_offset))

    def written(self):
        return self.do(self.replica.on_written(self.now_ms))

    def bounds(self, start, end):
        return self.do(self.replica.on_bounds(EPOCH, log_start_offset=start, log_end_offset=end, now_ms=self.now_ms))


def test_it_fetches_from_its_end_with_the_epoch_of_its_last_record_whatever_is_committed():
    follower = Follower(a_log((2, 0), (4, 3), end=9, watermark=1))
    assert follower.effects == [], "nothing is truncated to the high watermark"
    assert follower.replica.fetch_position() == FetchPosition(
        leader_epoch=EPOCH, fetch_offset=9, last_fetched_epoch=4, log_start_offset=0
    )


def test_it_fetches_nothing_while_there_is_no_leader():
    follower = DrivenReplica()
    follower.assign(an_assignment(-1))
    assert follower.replica.fetch_position() is None


def test_records_are_appended_as_they_are_and_acknowledged_when_they_are_durable():
    follower = Follower()
    records = batches(3, 2)
    (effect,) = follower.hear(records=records, high_watermark=2)
    assert effect == AppendFetched(records=records, from_offset=0, until_offset=5)
    assert follower.replica.fetch_position() is None
    assert follower.watermark == 0
    assert follower.written() == [WatermarkAdvanced(high_watermark=2)]
    assert follower.replica.fetch_position().fetch_offset == 5


def test_the_high_watermark_is_at_most_the_own_end_and_never_falls():
    follower = Follower(a_log((2, 0), end=5, watermark=3))
    follower.hear(high_watermark=9)
    assert follower.watermark == 5
    follower.hear(high_watermark=1)
    assert follower.watermark == 5


def test_an_answer_without_records_leaves_the_last_epoch():
    follower = Follower(a_log((2, 0), end=5))
    follower.hear(high_watermark=5)
    assert follower.replica.fetch_position().last_fetched_epoch == 2


def test_the_log_starts_where_the_leaders_does_before_anything_more_becomes_visible():
    follower = Follower(a_log((2, 0), end=9, watermark=1))
    assert follower.hear(high_watermark=9, log_start_offset=4) == [
        AdvanceLogStart(log_start_offset=4),
        WatermarkAdvanced(high_watermark=9),
    ]


def test_of_the_same_epoch_the_shorter_log_is_kept():
    follower = Follower(a_log((2, 0), end=9))
    assert follower.diverge(2, 6) == [TruncatePartition(end_offset=6)]


def test_records_of_an_epoch_that_the_leader_does_not_know_go_and_the_next_fetch_asks_with_an_older_one():
    """KIP-279: the leader's answer to epoch 3 is the end of its epoch 1, which is not where the logs part."""
    follower = Follower(a_log((1, 0), (2, 4), (3, 6), end=9))
    assert follower.diverge(1, 7) == [TruncatePartition(end_offset=4)]
    follower.written()
    assert follower.replica.fetch_position().last_fetched_epoch == 1


def test_an_epoch_that_the_follower_never_had_ends_where_its_older_one_ends():
    follower = Follower(a_log((1, 0), (3, 6), end=9))
    assert follower.diverge(2, 8) == [TruncatePartition(end_offset=6)]


def test_an_epoch_without_records_is_forgotten_by_a_truncation_to_the_end():
    """KAFKA-10706: the own epoch 3 began at the end; else the follower would tell of it for ever."""
    follower = Follower(a_log((1, 0), (3, 9), end=9))
    assert follower.diverge(1, 9) == [TruncatePartition(end_offset=9)]
    follower.written()
    assert follower.replica.fetch_position().last_fetched_epoch == 1


def test_damaged_records_are_fetched_again_after_a_pause():
    follower = Follower()
    records = batches(2)
    assert follower.hear(records=records[:-1] + b"\x01") == []
    assert follower.state is FollowerState.PAUSED
    follower.pass_time(BACKOFF_MS)
    (effect,) = follower.hear(records=records + batches(2, base_offset=2)[:-1])
    assert effect.records == records, "the whole batches before the damage count"


def test_records_of_an_epoch_above_the_leaders_are_not_appended():
    follower = Follower()
    assert follower.hear(records=batches(2, epoch=EPOCH + 1)) == []
    assert follower.state is FollowerState.PAUSED


def test_offsets_may_have_gaps_but_do_not_go_back():
    follower = Follower(a_log((2, 0), end=5))
    (effect,) = follower.hear(records=batches(2, base_offset=8))
    assert (effect.from_offset, effect.until_offset) == (5, 10)
    follower.written()
    assert follower.hear(records=batches(2, base_offset=9)) == []


def test_behind_the_leaders_start_the_log_starts_anew_there():
    follower = Follower(a_log((2, 0), end=5, watermark=5))
    assert follower.hear(error=ErrorCode.offset_out_of_range) == [AskLeaderBounds(leader_epoch=EPOCH)]
    assert follower.bounds(20, 30) == [RestartPartition(start_offset=20)]
    follower.written()
    position = follower.replica.fetch_position()
    assert (position.fetch_offset, position.last_fetched_epoch, position.log_start_offset) == (20, -1, 20)


def test_a_start_inside_the_leaders_first_batch_moves_an_empty_log_to_the_batch():
    follower = Follower(a_log(start=20, end=20, watermark=20))
    (effect,) = follower.hear(records=batches(5, base_offset=18), high_watermark=23, log_start_offset=20)
    assert (effect.restart_offset, effect.from_offset, effect.until_offset) == (18, 18, 23)
    assert AdvanceLogStart(log_start_offset=20) in follower.written()


def test_a_log_whose_records_the_leader_has_all_deleted_starts_anew_though_the_offset_is_in_range():
    """Its end may be inside the leader's first batch, behind which nothing could ever be appended."""
    follower = Follower(a_log((2, 0), end=5))
    assert follower.hear(records=batches(4, base_offset=3), log_start_offset=5) == [RestartPartition(start_offset=5)]


def test_beyond_the_leaders_end_the_log_is_truncated_to_it():
    follower = Follower(a_log((2, 0), end=50))
    follower.hear(error=ErrorCode.offset_out_of_range)
    assert follower.bounds(0, 30) == [TruncatePartition(end_offset=30)]


def test_a_truncation_below_the_own_start_leaves_an_empty_log_there():
    follower = Follower(a_log((2, 40), start=40, end=50, watermark=50))
    follower.hear(error=ErrorCode.offset_out_of_range)
    assert follower.bounds(0, 30) == [RestartPartition(start_offset=30)]


def test_within_the_leaders_range_it_asks_again_after_a_pause():
    follower = Follower(a_log((2, 0), end=5))
    follower.hear(error=ErrorCode.offset_out_of_range)
    assert follower.bounds(0, 30) == []
    assert follower.state is FollowerState.PAUSED


def test_a_leader_of_a_newer_epoch_is_left_alone_until_the_metadata_log_tells():
    follower = Follower()
    follower.hear(error=ErrorCode.fenced_leader_epoch)
    follower.pass_time(100 * BACKOFF_MS)
    assert follower.replica.fetch_position() is None
    follower.assign(an_assignment(3, epoch=EPOCH + 1, partition_epoch=11))
    assert follower.replica.fetch_position().leader_epoch == EPOCH + 1


def test_an_answer_to_an_earlier_position_is_ignored():
    follower = Follower()
    position = follower.replica.fetch_position()
    follower.hear(records=batches(3))
    follower.written()
    assert follower.replica.on_answer(position, ReplicaFetchAnswer(records=batches(3)), 0) == []
    assert follower.log.log_end_offset == 3


def test_a_deposed_leader_syncs_what_it_appended_before_it_fetches_on():
    driven = DrivenReplica()
    driven.assign(an_assignment())
    driven.append(3, is_synced=False)
    driven.assign(an_assignment(OTHER, epoch=EPOCH + 1, partition_epoch=11))
    assert driven.found(SyncPartition) == [SyncPartition()]
    assert driven.replica.fetch_position() is None
    driven.replica.on_written(0)
    assert driven.replica.fetch_position().fetch_offset == 3
