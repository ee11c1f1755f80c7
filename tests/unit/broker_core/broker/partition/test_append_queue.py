import pytest
from support.builders.builders import (
    SOME_TIME_MS,
    a_batch,
    a_commit_marker,
    a_record,
    a_transactional_batch,
    with_header_field,
)
from support.files.queued_writes import QueuedWrites
from support.nodes.replica_builders import T0, ReplicaNode, offsets_read

from broker_core.broker.partition.append_budget import AppendBudget
from broker_core.log.append_request import AppendRequest
from broker_core.log.producer_state import AppendOrigin
from broker_core.model.exceptions import (
    CorruptBatchError,
    InvalidRecordError,
    OutOfOrderSequenceError,
    StreamlogError,
    UnknownTopicError,
)
from broker_core.model.identifiers import CompressionType, IsolationLevel, TopicPartition
from broker_core.model.limits import MAX_LOOP_APPEND_BYTES
from broker_core.record.batch_header import read_header
from broker_core.storage.readable_partition import ReadablePartition

COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


def a_node(path, **given):
    return ReplicaNode(path, writes=QueuedWrites(), **given)


def warm(node, partition=T0):
    """The first append of a partition is always a job's: from the second on the loop may write."""
    assert node.append(partition=partition) == []
    node.settle()
    return node


@pytest.fixture
def node(tmp_path):
    """With one record in t-0."""
    node = a_node(tmp_path / "log")
    node.create()
    yield warm(node)
    node.settle()
    assert node.replicas.budget.held_bytes == 0
    node.stop()


def writes(node, partition="t-0"):
    return node.fs.count("write", f"{partition}/00000000000000000000.log")


def syncs(node, partition="t-0"):
    return node.fs.count("sync", f"{partition}/00000000000000000000.log")


def seen_apart(node, partition=T0):
    """The end of the log for a reader with a store of its own."""
    store = node.directory.access.open_apart(partition)
    try:
        return store.bounds().log_end_offset
    finally:
        store.close()


def kinds(answers):
    return [each if isinstance(each, tuple) else type(each) for each in answers]


def damaged(batch):
    batch[-1] ^= 1
    return batch


def append_in_one_turn(node, *batches, partition=T0, origin=AppendOrigin.CLIENT):
    answers = []
    for batch in batches:
        node.append(batch, partition=partition, origin=origin, into=answers)
    node.writes.end_turn()
    return answers


# -- groups --


def test_appends_of_one_turn_are_written_at_its_end_and_share_one_sync_and_no_job(node):
    written, synced, jobs = writes(node), syncs(node), node.jobs.count
    answers = []
    for _ in range(3):
        node.append(into=answers)
    assert (writes(node), len(node.writes.syncs)) == (written, 0)
    node.writes.end_turn()
    assert (writes(node), len(node.writes.syncs), answers) == (written + 3, 1, [])
    node.writes.syncs.run_next()
    assert answers == [(1, 1), (2, 2), (3, 3)]
    assert (syncs(node), node.jobs.count) == (synced + 1, jobs)
    assert offsets_read(node.replica()) == [0, 1, 2, 3]


def test_appends_during_a_sync_form_the_next_group(node):
    synced = syncs(node)
    answers = append_in_one_turn(node, a_batch(1))
    for _ in range(5):
        node.append(into=answers)
        node.writes.end_turn()
    assert len(node.writes.syncs) == 1
    node.writes.syncs.run_next()
    assert answers == [(1, 1)]
    node.writes.end_turn()
    assert len(node.writes.syncs) == 1
    node.writes.syncs.run_next()
    assert answers == [(offset, offset) for offset in range(1, 7)]
    assert syncs(node) == synced + 2


def test_partitions_are_synced_concurrently_and_answered_independently(tmp_path):
    node = a_node(tmp_path / "log")
    node.create(partition_count=2)
    partitions = [warm(node, TopicPartition("t", number)) and TopicPartition("t", number) for number in (0, 1)]
    answers = [node.append(partition=partition) for partition in partitions]
    node.writes.end_turn()
    assert len(node.writes.syncs) == 2
    node.writes.syncs.run_next(slot=1)
    assert answers == [[], [(1, 1)]]
    node.writes.syncs.run_next()
    assert answers == [[(1, 1)], [(1, 1)]]
    node.stop()


def test_nothing_is_acknowledged_or_visible_before_the_sync_completes(node):
    replica = node.replica()
    answers = append_in_one_turn(node, a_batch(2))

    def is_unseen():
        return (answers, replica.bounds.log_end_offset, seen_apart(node), offsets_read(replica)) == ([], 1, 1, [0])

    assert is_unseen()
    node.writes.syncs.do_next()
    assert is_unseen()
    node.writes.syncs.finish()
    assert (answers, replica.bounds.high_watermark, seen_apart(node)) == ([(1, 2)], 3, 3)
    assert offsets_read(replica) == [0, 1, 2]


def test_listeners_are_notified_after_the_replies(node):
    replica, told = node.replica(), []
    replica.on_advance(lambda: told.append(replica.bounds.high_watermark))
    replica.append(AppendRequest(batches=a_batch(2), on_done=lambda result: told.append("done"), on_error=told.append))
    node.writes.run_all()
    assert told == ["done", 3]


def test_an_append_made_in_a_reply_goes_into_the_next_group(node):
    answers = []
    node.replica().append(
        AppendRequest(batches=a_batch(1), on_done=lambda _: node.append(into=answers), on_error=answers.append)
    )
    node.writes.end_turn()
    node.writes.syncs.run_next()
    assert answers == []
    node.writes.run_all()
    assert answers == [(2, 2)]


def test_with_flush_policy_os_the_end_of_the_turn_publishes(tmp_path):
    node = a_node(tmp_path / "log")
    node.create(flush_policy="os")
    synced = syncs(warm(node))
    assert append_in_one_turn(node, a_batch(1), a_batch(2)) == [(1, 1), (2, 3)]
    assert (len(node.writes.syncs), syncs(node), seen_apart(node)) == (0, synced, 4)
    assert not node.replicas.budget.held_bytes
    node.stop()
    assert syncs(node) == synced + 1


# -- what is left to a job --


def is_a_jobs(node, *batches, partition=T0, **given):
    """Appends them in one turn; whether a job wrote them, and their answers."""
    written, jobs = writes(node, str(partition)), node.jobs.count
    answers = append_in_one_turn(node, *batches, partition=partition, **given)
    assert (writes(node, str(partition)), len(node.writes.syncs)) == (written, 0)
    assert node.jobs.count == jobs + 1
    node.jobs.run_all()
    return answers


def test_the_first_append_runs_in_a_job_that_reads_the_producer_state(tmp_path):
    node = a_node(tmp_path / "log")
    node.create()
    assert is_a_jobs(node, a_batch(1, producer=(9, 0, 0))) == [(0, 0)]
    assert set(node.replica().producer_entries()) == {9}
    node.stop()


def test_the_first_append_after_recovery_runs_in_a_job_even_if_the_partition_is_open(tmp_path):
    node = a_node(tmp_path / "log")
    node.create()
    node.append(a_batch(1, producer=(9, 0, 0)))
    node.settle()
    node.crash()
    again = a_node(tmp_path / "log")
    again.directory.recover(again.jobs, lambda errors: None)
    again.jobs.run_all()
    again.directory.access.maybe_hold(T0).release()
    assert is_a_jobs(again, a_batch(1, producer=(9, 0, 1))) == [(1, 1)]
    assert again.replica().producer_entries()[9].last_sequence == 1
    append_in_one_turn(again, a_batch(1))
    assert len(again.writes.syncs) == 1
    again.stop()


def of_size(size_bytes):
    """One batch of exactly so many bytes."""
    spare = 200
    short = len(a_batch([a_record(0, value=bytes(size_bytes - spare))]))
    batch = a_batch([a_record(0, value=bytes(size_bytes - spare + size_bytes - short))])
    assert len(batch) == size_bytes
    return batch


def test_a_group_above_the_limit_runs_in_a_job_and_one_at_the_limit_on_the_loop(node):
    half = MAX_LOOP_APPEND_BYTES // 2
    answers = append_in_one_turn(node, of_size(half), of_size(MAX_LOOP_APPEND_BYTES - half))
    assert len(node.writes.syncs) == 1
    node.writes.run_all()
    assert answers == [(1, 1), (2, 2)]
    assert is_a_jobs(node, of_size(half), of_size(MAX_LOOP_APPEND_BYTES - half + 1)) == [(3, 3), (4, 4)]
    assert offsets_read(node.replica()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("codec", [CompressionType.GZIP, CompressionType.ZSTD])
def test_a_compressed_batch_runs_in_a_job(node, codec):
    assert is_a_jobs(node, a_batch(2), a_batch(3, compression=codec)) == [(1, 2), (3, 5)]
    assert offsets_read(node.replica()) == list(range(6))


def test_a_topic_with_a_codec_runs_in_a_job_and_an_uncompressed_one_on_the_loop(tmp_path):
    node = a_node(tmp_path / "log")
    node.create(compression_type="lz4")
    node.create("plain", compression_type="uncompressed")
    assert is_a_jobs(warm(node), a_batch(3)) == [(1, 3)]
    assert offsets_read(node.replica()) == [0, 1, 2, 3]
    plain = TopicPartition("plain", 0)
    answers = append_in_one_turn(warm(node, plain), a_batch(3), partition=plain)
    assert len(node.writes.syncs) == 1
    node.writes.run_all()
    assert answers == [(1, 3)]
    node.stop()


def test_changed_settings_apply_immediately(node):
    node.alter(compression_type="lz4")
    assert is_a_jobs(node, a_batch(1)) == [(1, 1)]
    node.alter(compression_type="producer", max_message_bytes="200")
    # The partition is reopened with them, which is a job's.
    assert kinds(is_a_jobs(node, a_batch(1), of_size(300)))[0] == (2, 2)
    answers = append_in_one_turn(node, of_size(300), a_batch(1))
    node.writes.run_all()
    assert (answers[0].error_code, answers[1]) == (10, (3, 3))


def test_during_maintenance_appends_run_in_a_job_without_blocking_the_loop(node):
    found = []

    def maintain(store):
        found.append(append_in_one_turn(node, a_batch(1)))
        found.append((len(node.writes.syncs), len(node.jobs)))

    node.directory.access.write(T0, maintain)
    assert found == [[], (0, 1)]
    node.jobs.run_all()
    assert found[0] == [(1, 1)]


def test_at_a_segment_roll_a_job_continues_the_group_in_order(tmp_path):
    node = a_node(tmp_path / "log")
    node.create(internal_segment_bytes=str(4 * len(a_batch(3))))
    warm(node)
    jobs = node.jobs.count
    answers = append_in_one_turn(node, *[a_batch(3, producer=(5, 0, 3 * slot)) for slot in range(8)])
    assert (len(node.writes.syncs), node.jobs.count) == (1, jobs)
    node.writes.syncs.run_next()
    before_the_roll = len(answers)
    assert 0 < before_the_roll < 8
    node.writes.end_turn()
    assert (len(node.writes.syncs), node.jobs.count) == (0, jobs + 1)
    assert len(answers) == before_the_roll
    node.jobs.run_next()
    assert answers == [(first, first + 2) for first in range(1, 25, 3)]
    assert offsets_read(node.replica()) == list(range(25))
    assert len(node.directory.access.read(T0, ReadablePartition.segments)) == 3
    assert node.directory.access.read(T0, ReadablePartition.verify) == []
    assert node.replica().producer_entries()[5].last_sequence == 23
    node.stop()


@pytest.mark.parametrize("kind", ["LogAppendTime", "CreateTime"])
def test_an_append_passed_to_a_job_is_validated_unchanged(tmp_path, kind):
    """The loop's plan had put times into it by then: the job refused a batch with log append time, or with another
    checksum than the header that was read of it."""
    node = a_node(tmp_path / "log")
    node.create(internal_segment_bytes=str(len(a_batch(1)) + 10), message_timestamp_type=kind)
    warm(node)
    answers = []
    for _ in range(2):
        batch = with_header_field(a_batch(1), 35, ">q", 5)  # its largest timestamp, which is put right
        node.append(batch, header=read_header(batch), into=answers)
        node.settle()
    assert answers == [(1, 1), (2, 2)]
    assert node.directory.access.read(T0, ReadablePartition.verify) == []
    node.stop()


def test_a_refusal_is_answered_before_a_later_append_that_rolls(tmp_path):
    node = a_node(tmp_path / "log")
    node.create(internal_segment_bytes=str(len(a_batch(1)) + 10))
    answers = append_in_one_turn(warm(node), a_batch(1, base_offset=5), damaged(a_batch(1)), a_batch(1))
    assert kinds(answers) == [InvalidRecordError, CorruptBatchError]
    node.settle()
    assert answers[2] == (1, 1)
    assert not node.replicas.budget.held_bytes
    node.stop()


def test_a_topic_that_was_deleted_or_recreated_is_never_written(node):
    replica = node.replica()
    deleting = []
    node.topics.delete_topic("t", on_reply=deleting.append, on_error=pytest.fail)
    node.jobs.do_next()  # the topic is gone, and the loop has not heard of it yet
    answers = append_in_one_turn(node, a_batch(1))
    assert (answers, len(node.writes.syncs)) == ([], 0)
    node.settle()
    assert len(deleting) == 1
    node.create()
    node.append(replica=replica, into=answers)
    node.settle()
    assert kinds(answers) == [UnknownTopicError, UnknownTopicError]
    assert node.replica().bounds.log_end_offset == 0
    warm(node)
    node.append(replica=replica, into=answers)
    node.writes.end_turn()
    assert len(node.writes.syncs) == 0
    node.settle()
    assert kinds(answers)[2:] == [UnknownTopicError]
    assert node.replica().bounds.log_end_offset == 1


# -- what becomes of each --


def test_a_refused_append_fails_alone_among_good_ones(node):
    answers = append_in_one_turn(
        node,
        a_batch(2),
        damaged(a_batch(1)),
        a_batch(1, base_offset=5),
        a_batch(1, producer=(7, 0, 0)),
        a_batch(1, producer=(7, 0, 9)),
        a_batch(1),
    )
    assert answers == []
    node.writes.run_all()
    assert kinds(answers) == [
        (1, 2), CorruptBatchError, InvalidRecordError, (3, 3), OutOfOrderSequenceError, (4, 4),
    ]  # fmt: skip
    assert offsets_read(node.replica()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("batch", [b"", b"no batch", bytes(22), bytes(61)])
def test_an_append_without_a_batch_is_refused_and_delays_no_other(node, batch):
    answers = append_in_one_turn(node, batch, a_batch(1))
    node.settle()
    assert isinstance(answers[0], StreamlogError)
    assert answers[1:] == [(1, 1)]


def test_a_turn_of_only_refusals_needs_no_sync(node):
    synced = syncs(node)
    answers = append_in_one_turn(node, damaged(a_batch(1)), a_batch(1, base_offset=1))
    assert kinds(answers) == [CorruptBatchError, InvalidRecordError]
    assert (len(node.writes.syncs), syncs(node), node.replicas.budget.held_bytes) == (0, synced, 0)


def test_a_retry_is_answered_with_its_offset_without_a_sync(node):
    batch = a_batch(2, producer=(7, 0, 0))
    answers = append_in_one_turn(node, batch, batch)
    assert answers == []
    node.writes.run_all()
    assert answers == [(1, 2), (1, 2)]
    assert append_in_one_turn(node, batch) == [(1, 2)]
    assert offsets_read(node.replica()) == [0, 1, 2]


def test_a_retry_during_the_sync_of_the_first_try_is_answered_after_it(node):
    batch = a_batch(2, producer=(7, 0, 0))
    answers = append_in_one_turn(node, batch)
    node.append(batch, into=answers)
    node.writes.end_turn()
    assert answers == []
    node.writes.run_all()
    assert answers == [(1, 2), (1, 2)]
    assert node.replica().bounds.log_end_offset == 3


def test_transactions_block_read_committed_readers_and_markers_may_share_their_sync(node):
    replica = node.replica()
    append_in_one_turn(node, a_transactional_batch(2), a_batch(1))
    node.writes.run_all()
    assert offsets_read(replica, isolation=COMMITTED) == [0]
    assert replica.producer_entries()[7].transaction_first_offset == 1
    answers = append_in_one_turn(node, a_transactional_batch(1, base_sequence=2))
    node.append(a_commit_marker(), origin=AppendOrigin.COORDINATOR, into=answers)
    node.writes.run_all()
    assert answers == [(4, 4), (5, 5)]
    assert offsets_read(replica, isolation=COMMITTED) == [0, 1, 2, 3, 4]
    assert replica.producer_entries()[7].transaction_first_offset is None


def test_producer_state_is_current_as_of_the_last_group(node):
    append_in_one_turn(node, a_batch(1, producer=(1, 0, 0)), a_batch(2, producer=(2, 0, 0)))
    assert node.replica().producer_entries() == {}
    node.writes.run_all()
    assert {number: each.last_sequence for number, each in node.replica().producer_entries().items()} == {1: 0, 2: 1}


# -- in turn with others --


def test_other_changes_keep_their_order_among_appends(node):
    replica, told = node.replica(), []
    node.append(a_batch(2), into=told)
    replica.delete_records(-1, lambda start: told.append(f"from {start}"), told.append)
    node.append(a_batch(1), into=told)
    replica.flush(lambda _: told.append("flushed"), told.append)
    node.append(a_batch(1), into=told)
    node.settle()
    assert told == [(1, 2), "from 3", (3, 3), "flushed", (4, 4)]
    assert offsets_read(replica) == [3, 4]


def test_a_change_during_a_sync_waits_only_for_the_current_group(node):
    told = append_in_one_turn(node, a_batch(2))
    node.replica().delete_records(-1, told.append, told.append)
    node.append(a_batch(1), into=told)
    assert len(node.jobs) == 0
    node.writes.syncs.run_next()
    assert told == [(1, 2)]
    node.settle()
    assert told == [(1, 2), 3, (3, 3)]


def test_a_flush_covers_appends_made_with_flush_policy_os(tmp_path):
    node = a_node(tmp_path / "log")
    node.create(flush_policy="os")
    synced = syncs(warm(node))
    told = []
    node.append(into=told)
    node.replica().flush(lambda _: told.append("flushed"), told.append)
    node.settle()
    assert told == [(1, 1), "flushed"]
    assert syncs(node) == synced + 1
    assert not node.replica().is_dirty
    append_in_one_turn(node, a_batch(1))
    assert node.replica().is_dirty
    node.stop()


def test_a_stop_waits_for_the_current_sync_and_queued_appends(tmp_path):
    node = a_node(tmp_path / "log")
    node.create()
    answers = append_in_one_turn(warm(node), a_batch(1))
    node.append(a_batch(2), into=answers)
    assert answers == []
    node.stop()
    assert answers == [(1, 1), (2, 3)]
    again = a_node(tmp_path / "log")
    assert again.directory.was_clean
    assert offsets_read(again.replica()) == [0, 1, 2, 3]
    again.crash()


def a_node_of_little_memory(path, *, partition_count, queued_count):
    """It writes one batch of one record at a time, and holds so many."""
    size_bytes = len(a_batch(1))
    budget = AppendBudget(max_writing_bytes=size_bytes, max_queued_bytes=queued_count * size_bytes)
    node = a_node(path, budget=budget)
    node.create(partition_count=partition_count)
    partitions = [TopicPartition("t", number) for number in range(partition_count)]
    for partition in partitions:
        warm(node, partition)
    return node, budget, partitions


def test_appends_beyond_the_memory_budget_wait_and_are_answered_in_order(tmp_path):
    node, budget, partitions = a_node_of_little_memory(tmp_path / "log", partition_count=3, queued_count=3)
    answers = []
    for partition in partitions:
        node.append(partition=partition, into=answers)
    assert budget.is_full
    node.writes.end_turn()
    assert len(node.writes.syncs) == 1
    node.writes.syncs.run_next()
    assert (answers, len(node.writes.syncs)) == ([(1, 1)], 1)
    node.append(a_batch(2), into=answers)
    node.settle()
    assert answers == [(1, 1), (1, 1), (1, 1), (2, 3)]
    assert (budget.held_bytes, budget.is_full) == (0, False)
    node.stop()


def test_memory_released_by_refusals_goes_to_the_next_waiting_appends(tmp_path):
    node, budget, partitions = a_node_of_little_memory(tmp_path / "log", partition_count=2, queued_count=9)
    answers = []
    node.append(partition=partitions[0], into=answers)
    node.append(damaged(a_batch(1)), partition=partitions[1], into=answers)
    node.append(partition=partitions[1], into=answers)
    node.settle()
    assert kinds(answers) == [(1, 1), CorruptBatchError, (1, 1)]
    assert budget.held_bytes == 0
    node.stop()


def test_log_append_time_is_the_time_of_the_turn(tmp_path):
    node = a_node(tmp_path / "log")
    node.create(message_timestamp_type="LogAppendTime")
    warm(node)
    node.clock.ms = SOME_TIME_MS + 77
    times = []
    node.replica().append(
        AppendRequest(
            batches=a_batch(2), on_done=lambda result: times.append(result.log_append_time_ms), on_error=times.append
        )
    )
    node.writes.run_all()
    assert times == [SOME_TIME_MS + 77]
    node.stop()
