import pytest
from support.builders.builders import SOME_TIME_MS, a_batch, a_commit_marker, a_record, a_transactional_batch
from support.files.faulty_file_system import Killed
from support.files.queued_jobs import LoopedThreadJobs
from support.nodes.replica_builders import RefusingFileSystem, ReplicaNode, offsets_read

from broker_core.broker.partition.append_budget import AppendBudget
from broker_core.cluster import PartitionBounds
from broker_core.log.append_request import AppendRequest
from broker_core.log.producer_state import AppendOrigin
from broker_core.model.exceptions import (
    CorruptBatchError,
    InvalidRecordError,
    OffsetOutOfRangeError,
    StorageError,
    StreamlogError,
    UnknownTopicError,
)
from broker_core.model.identifiers import IsolationLevel, OffsetSpec, TopicPartition
from broker_core.model.limits import MAX_APPEND_GROUP_BYTES
from broker_core.storage.readable_partition import ReadablePartition

COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


@pytest.fixture
def node(tmp_path):
    node = ReplicaNode(tmp_path / "log")
    node.create()
    return node


def syncs(node):
    return node.fs.count("sync", "t-0/00000000000000000000.log")


def test_appends_that_queue_up_while_a_job_runs_are_committed_together(node):
    answers = node.append()
    node.jobs.do_next()
    for _ in range(10):
        node.append(into=answers)
    begun = syncs(node)
    assert (len(node.jobs), answers) == (1, [])
    node.jobs.finish()
    assert answers == [(0, 0)]
    node.jobs.run_next()
    assert answers == [(offset, offset) for offset in range(11)]
    assert syncs(node) == begun + 1
    assert len(node.jobs) == 0


def test_a_replica_has_one_job_at_a_time(node):
    for _ in range(5):
        node.append()
        assert len(node.jobs) == 1
    node.create("u")
    before = node.jobs.count
    node.append()
    node.jobs.run_all()
    assert node.jobs.count == before + 1


def test_nothing_is_visible_before_the_job_completes(node):
    replica = node.replica()
    node.append(a_batch(3))
    assert replica.bounds.log_end_offset == 0
    node.jobs.do_next()
    # It is published on the disk, and not yet known here: who reads would learn of it before it is acknowledged.
    assert replica.bounds.log_end_offset == 0
    assert bytes(replica.read(0, max_bytes=1000, isolation=UNCOMMITTED).buffer) == b""
    with pytest.raises(OffsetOutOfRangeError):
        replica.read(1, max_bytes=1000, isolation=UNCOMMITTED)
    node.jobs.finish()
    assert replica.bounds.high_watermark == 3
    assert offsets_read(replica) == [0, 1, 2]


def test_a_read_ends_at_the_loops_bounds_even_if_more_is_published(node):
    replica = node.replica()
    node.append(a_batch(3))
    node.jobs.run_all()
    node.append(a_batch(2))
    node.jobs.do_next()
    fetched = replica.read(0, max_bytes=10_000, isolation=UNCOMMITTED)
    assert (fetched.next_offset, fetched.bounds) == (3, replica.bounds)
    assert replica.find_offset(OffsetSpec.LATEST, UNCOMMITTED)().offset == 3
    assert replica.find_offset(SOME_TIME_MS + 2, UNCOMMITTED)().offset == 2


def test_replies_come_in_the_order_of_the_appends(node):
    damaged = a_batch(1)
    damaged[-1] ^= 1
    answers = node.append(a_batch(2))
    node.append(damaged, into=answers)
    node.append(a_batch(1, base_offset=5), into=answers)
    node.append(a_batch(1), into=answers)
    node.jobs.run_all()
    assert [each if isinstance(each, tuple) else type(each) for each in answers] == [
        (0, 1), CorruptBatchError, InvalidRecordError, (2, 2),
    ]  # fmt: skip


def test_a_produced_batch_with_a_base_offset_is_refused_like_kafka_but_not_a_coordinators(node):
    # A real Kafka 4.3.1 answers INVALID_RECORD (87) for base offsets 5 and -1.
    answers = []
    for base_offset in (5, -1):
        node.append(a_batch(1, base_offset=base_offset), into=answers)
    node.append(a_batch(1, base_offset=5), origin=AppendOrigin.COORDINATOR, into=answers)
    node.jobs.run_all()
    assert [type(each) for each in answers] == [InvalidRecordError, InvalidRecordError, tuple]
    assert answers[0].error_code == 87
    assert answers[2] == (0, 0)


def test_listeners_are_notified_after_the_replies_and_see_the_new_bounds(node):
    replica, told = node.replica(), []
    replica.on_advance(lambda: told.append(("advance", replica.bounds.high_watermark)))
    node.replicas.on_advance(lambda partition: told.append((str(partition), replica.bounds.high_watermark)))
    replica.append(AppendRequest(batches=a_batch(2), on_done=lambda result: told.append("done"), on_error=told.append))
    node.jobs.run_all()
    assert told == ["done", ("advance", 2), ("t-0", 2)]
    node.append(b"no batch")
    node.jobs.run_all()
    assert len(told) == 3


def test_an_append_made_in_a_reply_goes_into_the_next_group(node):
    replica, answers = node.replica(), []
    replica.append(
        AppendRequest(batches=a_batch(1), on_done=lambda _: node.append(into=answers), on_error=answers.append)
    )
    node.jobs.run_next()
    assert answers == []
    node.append(into=answers)
    node.jobs.run_next()
    assert answers == [(1, 1)]
    node.jobs.run_next()
    assert answers == [(1, 1), (2, 2)]


def test_a_failing_reply_callback_does_not_affect_other_replies(node):
    def fail(result):
        raise RuntimeError("the connection is gone")

    node.replica().append(AppendRequest(batches=a_batch(1), on_done=fail, on_error=fail))
    answers = node.append()
    node.jobs.run_all()
    assert answers == [(1, 1)]
    node.append(into=answers)
    node.jobs.run_all()
    assert answers == [(1, 1), (2, 2)]


def test_a_failed_sync_fails_the_whole_group_and_later_groups_succeed(node):
    node.append()
    node.jobs.run_all()
    node.append()
    node.jobs.do_next()
    answers = node.append()
    node.append(into=answers)
    node.jobs.finish()
    node.fs.refuse("sync", ".log")
    node.jobs.run_all()
    assert node.fs.refused == 1
    assert [type(each) for each in answers] == [StorageError, StorageError]
    assert offsets_read(node.replica()) == [0, 1]
    node.append(into=answers)
    node.jobs.run_all()
    assert answers[2] == (2, 2)
    assert offsets_read(node.replica()) == [0, 1, 2]


def test_deletion_refuses_queued_appends_and_a_job_that_completes_later(node):
    replica = node.replica()
    told = []
    replica.on_advance(lambda: told.append(True))
    first = node.append()
    second = node.append()
    node.topics.delete_topic("t", on_reply=lambda topic: None, on_error=first.append)
    node.jobs.run_next(slot=1)  # the deletion overtakes the append
    assert [type(each) for each in second] == [UnknownTopicError]
    node.jobs.run_all()
    assert [type(each) for each in first] == [UnknownTopicError]
    assert told
    with pytest.raises(UnknownTopicError):
        node.replica()
    late = node.append(replica=replica)
    node.jobs.run_all()
    assert [type(each) for each in late] == [UnknownTopicError]


def test_appends_to_a_deleted_topic_never_go_to_a_recreated_one(node):
    replica = node.replica()
    node.delete()
    node.create()
    answers = node.append(replica=replica)
    node.append()
    node.jobs.run_all()
    assert [type(each) for each in answers] == [UnknownTopicError]
    assert node.replica() is not replica
    assert node.replica().bounds.log_end_offset == 1


def test_a_group_that_rolls_reports_it_and_is_read_completely(node):
    node.create("small", internal_segment_bytes="700")
    small = TopicPartition("small", 0)
    answers = [node.append(a_batch(3), partition=small) for _ in range(20)]
    node.jobs.run_all()
    assert [each[0][0] for each in answers] == list(range(0, 60, 3))
    assert offsets_read(node.replica(small)) == list(range(60))
    assert len(node.directory.access.read(small, ReadablePartition.segments)) > 3


def test_bounds_never_go_back_after_late_results(node):
    replica = node.replica()
    node.append(a_batch(5))
    node.jobs.run_all()
    early = replica.bounds
    node.append(a_batch(5))
    node.jobs.run_all()
    replica.delete_records(7, lambda start: None, pytest.fail)
    node.jobs.run_all()
    late = replica.bounds
    replica.learn_bounds(early)
    assert replica.bounds == late
    assert (late.log_start_offset, late.log_end_offset) == (7, 10)


def test_each_bound_that_is_ahead_is_taken(node):
    def bounds(start, stable, high_watermark, end):
        return PartitionBounds(
            log_start_offset=start, last_stable_offset=stable, high_watermark=high_watermark, log_end_offset=end
        )

    replica = node.replica()
    for learnt, known in [
        (bounds(7, 8, 10, 10), bounds(7, 8, 10, 10)),
        (bounds(3, 12, 12, 12), bounds(7, 12, 12, 12)),
        (bounds(8, 9, 13, 13), bounds(8, 12, 13, 13)),
        (bounds(8, 12, 13, 13), bounds(8, 12, 13, 13)),
    ]:
        replica.learn_bounds(learnt)
        assert replica.bounds == known


def test_delete_records_is_ordered_with_appends_and_out_of_range_is_refused(node):
    replica, answers = node.replica(), []
    node.append(a_batch(3), into=answers)
    replica.delete_records(-1, answers.append, answers.append)
    node.append(a_batch(2), into=answers)
    replica.delete_records(9, answers.append, answers.append)
    assert node.jobs.run_all() == 4
    assert answers[:3] == [(0, 2), 3, (3, 4)]
    assert isinstance(answers[3], OffsetOutOfRangeError)
    assert replica.error is None
    with pytest.raises(OffsetOutOfRangeError):
        replica.read(2, max_bytes=100, isolation=UNCOMMITTED)
    assert replica.find_offset(OffsetSpec.EARLIEST, UNCOMMITTED)().offset == 3


def test_open_transactions_block_read_committed_readers(node):
    replica = node.replica()
    node.append(a_transactional_batch(2))
    node.append(a_batch(1))
    node.jobs.run_all()
    assert (replica.bounds.last_stable_offset, replica.bounds.high_watermark) == (0, 3)
    assert offsets_read(replica, isolation=COMMITTED) == []
    assert replica.producer_entries()[7].transaction_first_offset == 0
    node.append(a_commit_marker(), origin=AppendOrigin.COORDINATOR)
    node.jobs.run_all()
    assert offsets_read(replica, isolation=COMMITTED) == [0, 1, 2]
    assert replica.producer_entries()[7].transaction_first_offset is None


def test_after_a_start_a_job_reads_the_producer_state(tmp_path):
    node = ReplicaNode(tmp_path / "log")
    node.create()
    node.append(a_batch(2, producer=(9, 1, 0)))
    node.jobs.run_all()
    expected = node.replica().producer_entries()
    node.stop()
    again = ReplicaNode(tmp_path / "log")
    known = []
    for _ in range(2):
        again.replica().when_producers_known(lambda: known.append(again.replica().producer_entries()), known.append)
    assert known == []
    again.jobs.run_all()
    assert known == [expected, expected]
    assert expected[9].last_sequence == 1


def test_offsets_are_found_by_timestamp_and_by_max_timestamp(node):
    replica = node.replica()
    assert replica.find_offset(OffsetSpec.MAX_TIMESTAMP, UNCOMMITTED)() is None
    assert replica.find_offset(SOME_TIME_MS, UNCOMMITTED)() is None
    node.append(a_batch([a_record(0, timestamp_ms=SOME_TIME_MS + at) for at in (0, 900, 100)]))
    node.jobs.run_all()
    assert replica.find_offset(SOME_TIME_MS + 50, UNCOMMITTED)().offset == 1
    assert replica.find_offset(SOME_TIME_MS + 901, UNCOMMITTED)() is None
    found = replica.find_offset(OffsetSpec.MAX_TIMESTAMP, UNCOMMITTED)()
    assert (found.offset, found.timestamp_ms) == (1, SOME_TIME_MS + 900)


def test_the_current_epoch_ends_at_the_log_end_and_others_are_unknown(node):
    replica = node.replica()
    node.append(a_batch(4))
    node.jobs.run_all()
    assert replica.leader_epoch == 0
    assert replica.end_offset_for_epoch(0) == (0, 4)
    assert replica.end_offset_for_epoch(1) == (-1, -1)


def test_a_group_is_bounded_in_bytes_but_has_at_least_one_append(node):
    large = a_batch([a_record(0, value=bytes(700_000))])
    count = MAX_APPEND_GROUP_BYTES // len(large) + 2
    answers = []
    for _ in range(count):
        node.append(large, into=answers)
    node.jobs.run_next()
    assert len(answers) == 1  # the first found the replica idle
    node.jobs.run_next()
    assert len(answers) == 1 + MAX_APPEND_GROUP_BYTES // len(large)
    node.jobs.run_all()
    assert len(answers) == count


def test_appends_beyond_the_memory_budget_wait_and_are_answered_in_order(tmp_path):
    size_bytes = len(a_batch(1))
    budget = AppendBudget(max_writing_bytes=size_bytes, max_queued_bytes=3 * size_bytes)
    node = ReplicaNode(tmp_path / "log", budget=budget)
    node.create(partition_count=3)
    answers = []
    for number in (0, 1, 2):
        node.append(partition=TopicPartition("t", number), into=answers)
    assert len(node.jobs) == 1
    assert budget.is_full
    node.append(a_batch(2), partition=TopicPartition("t", 0), into=answers)
    node.jobs.run_next()
    assert (len(node.jobs), answers) == (1, [(0, 0)])
    node.jobs.run_all()
    assert answers == [(0, 0), (0, 0), (0, 0), (1, 2)]
    assert (budget.held_bytes, budget.is_full) == (0, False)


def test_a_partition_is_offline_while_it_cannot_be_opened(tmp_path):
    node = ReplicaNode(tmp_path / "log")
    node.create(partition_count=2)
    node.append()
    node.jobs.run_all()
    replica = node.replica()
    node.stop()
    path = tmp_path / "log" / "t-0" / "00000000000000000000.log"
    whole = path.read_bytes()
    path.write_bytes(whole[:10])

    node = ReplicaNode(tmp_path / "log")
    replica = node.replica()
    answers = node.append()
    node.jobs.run_all()
    assert isinstance(answers[0], StorageError)
    assert answers[0].error_code == 56
    with pytest.raises(StorageError, match="t-0 is offline"):
        node.replica()
    assert node.replicas.is_offline(replica.topic_partition)
    path.write_bytes(whole)
    node.fire_timers()
    assert node.replica() is replica
    node.append(into=answers)
    node.jobs.run_all()
    assert answers[1] == (1, 1)


def test_a_bug_in_a_job_is_an_unknown_error_for_the_client_and_the_replica_stays_online(node):
    answers = []

    def fail(store):
        raise ZeroDivisionError("a bug")

    node.replica().change(fail, answers.append, answers.append)
    node.append(into=answers)
    node.jobs.run_all()
    assert type(answers[0]) is StreamlogError
    assert answers[1] == (0, 0)


def test_changed_settings_apply_to_the_next_append(node):
    replica = node.replica()
    node.append(a_batch([a_record(0, value=bytes(500))]))
    node.jobs.run_all()
    node.alter(max_message_bytes="200")
    assert replica.config.max_message_bytes == 200
    answers = node.append(a_batch([a_record(0, value=bytes(500))]))
    node.jobs.run_all()
    assert answers[0].error_code == 10
    assert offsets_read(replica) == [0]


def test_a_kill_at_any_file_operation_of_a_group_keeps_acknowledged_records(tmp_path):
    for call in range(200):
        path = tmp_path / str(call)
        node = ReplicaNode(path)
        node.create(internal_segment_bytes="500")
        acknowledged = node.append(a_batch(3))
        node.jobs.run_all()
        node.append(a_batch(2), into=acknowledged)
        node.jobs.do_next()
        for _ in range(3):
            node.append(a_batch(2), into=acknowledged)
        node.jobs.finish()
        node.fs.die_after(call)
        try:
            node.jobs.run_all()
            died = False
        except Killed:
            died = True
        node.crash()
        again = ReplicaNode(path, fs=RefusingFileSystem())
        errors = []
        again.directory.recover(again.jobs, errors.append)
        again.jobs.run_all()
        assert errors == [{}]
        replica = again.replica()
        found = offsets_read(replica)
        assert found == list(range(replica.bounds.log_end_offset))
        assert len(found) >= max(last for _, last in acknowledged) + 1
        again.append()
        again.jobs.run_all()
        assert replica.bounds.log_end_offset == len(found) + 1
        again.crash()
        if not died:
            assert call > 10
            return


def test_threads_and_readers_agree(tmp_path):
    jobs = LoopedThreadJobs(3)
    node = ReplicaNode(tmp_path / "log")
    node.create(partition_count=2, internal_segment_bytes="2000")
    node.stop()
    node = ReplicaNode(tmp_path / "log", jobs=jobs)
    answers = {number: [] for number in range(2)}
    seen = dict.fromkeys(range(2), 0)
    for round_number in range(200):
        number = round_number % 2
        partition = TopicPartition("t", number)
        node.append(a_batch(2), partition=partition, into=answers[number])
        replica = node.replica(partition)
        bounds = replica.bounds
        assert bounds.high_watermark >= seen[number]
        seen[number] = bounds.high_watermark
        if bounds.high_watermark:
            fetched = replica.read(bounds.high_watermark - 2, max_bytes=1, isolation=UNCOMMITTED)
            assert fetched.next_offset == bounds.high_watermark
        if round_number % 20 == 19:
            jobs.run_until(lambda: all(len(each) == len(answers[0]) for each in answers.values()) and answers[1])
    jobs.run_until(lambda: sum(map(len, answers.values())) == 200)
    assert all(each == [(2 * slot, 2 * slot + 1) for slot in range(100)] for each in answers.values())
    jobs.stop()
    node.crash()
