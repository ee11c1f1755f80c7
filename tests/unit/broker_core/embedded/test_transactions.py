import threading
from dataclasses import replace

import pytest
from support.builders.builders import a_batch
from support.clients.transacting import (
    SetClock,
    begin,
    committed,
    everything,
    init,
    is_settled,
    transactional_batch,
    write,
)

from broker_core.cluster import TransactionalProducer
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.embedded.marker_writer import MarkerWriter
from broker_core.embedded.transactions import transactional_writer
from broker_core.log_directory.internal_topics import TRANSACTION_STATE_PARTITION
from broker_core.model.exceptions import (
    ConcurrentTransactionsError,
    DiskFullError,
    InvalidProducerIdMappingError,
    InvalidRecordError,
    InvalidTopicNameError,
    InvalidTransactionStateError,
    InvalidTransactionTimeoutError,
    PolicyViolationError,
    ProducerFencedError,
    UnknownPartitionError,
    UnknownTopicError,
    UnknownTransactionalIdError,
)
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition
from broker_core.model.limits import (
    MAX_EMBEDDED_TRANSACTION_TIMEOUT_MS,
    NO_TRANSACTION_TIMEOUT_MS,
    TRANSACTIONAL_ID_EXPIRATION_MS,
)
from broker_core.model.transaction_state import TransactionState
from broker_core.record.batch_reader import records_of
from broker_core.storage.os_file_system import OsFileSystem
from broker_core.storage.readable_partition import ReadablePartition
from broker_core.storage.writable_partition import WritablePartition
from broker_core.txn.transaction_coordinator import TransactionCoordinator
from broker_core.txn.transaction_replies import InitReply

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


@pytest.fixture
def clock():
    return SetClock()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log"


@pytest.fixture
def cluster(path, clock):
    with EmbeddedCluster(path, create=True, clock=clock) as opened:
        opened.create_topic("t", partition_count=3, configs={"retention.ms": "-1"})
        yield opened


@pytest.fixture
def other(cluster, path, clock):
    """Another process's way in: it shares nothing with the first but the directory."""
    with EmbeddedCluster(path, clock=clock) as opened:
        yield opened


def state_of(cluster, transactional_id):
    return cluster.describe_transactions([transactional_id])[transactional_id].state


def die_before_the_markers(cluster, monkeypatch, producer, **how):
    """Decides the end as a process does that dies before it has written a marker."""

    class DeadError(Exception):
        pass

    def die(writer, endings):
        raise DeadError

    with monkeypatch.context() as patched:
        patched.setattr(MarkerWriter, "write", die)
        with pytest.raises(DeadError):
            cluster.end_transaction(producer, **how)


# -- the life of a transaction --


def test_committed_records_are_visible_and_aborted_ones_are_not(cluster):
    producer = begin(cluster, "id", T0, T1)
    write(cluster, producer, T0, "a", "b")
    write(cluster, producer, T1, "c")
    assert [committed(cluster, T0), everything(cluster, T0)] == [[], ["a", "b"]]
    cluster.end_transaction(producer, commit=True)
    assert [committed(cluster, T0), committed(cluster, T1)] == [["a", "b"], ["c"]]
    following = begin(cluster, "id", T0)
    write(cluster, following, T0, "d")
    cluster.end_transaction(following, commit=False)
    assert committed(cluster, T0) == ["a", "b"]
    assert everything(cluster, T0) == ["a", "b", "d"]
    assert is_settled(cluster, T0)


def test_a_transactional_id_keeps_its_producer_id_and_gets_an_epoch_per_instance(cluster, other):
    first, second, stranger = init(cluster, "id"), init(other, "id"), init(other, "another")
    assert (first.producer_epoch, second.producer_epoch) == (0, 1)
    assert first.producer_id == second.producer_id != stranger.producer_id


def test_a_new_instance_aborts_the_open_transaction_and_fences_the_old_one(cluster, other):
    old = begin(cluster, "id", T0)
    write(cluster, old, T0, "left")
    new = init(other, "id")
    assert new.producer_epoch > old.producer_epoch
    assert state_of(other, "id") is TransactionState.EMPTY
    assert (committed(other, T0), is_settled(other, T0)) == ([], True)
    for act in (
        lambda: cluster.end_transaction(old, commit=True),
        lambda: cluster.add_partitions_to_transaction(old, [T1]),
        lambda: write(cluster, old, T0, "zombie", base_sequence=1),
    ):
        with pytest.raises(ProducerFencedError):
            act()


def test_ending_again_the_same_way_succeeds_and_the_other_way_is_refused(cluster, other):
    producer = begin(cluster, "id", T0)
    write(cluster, producer, T0, "a")
    cluster.end_transaction(producer, commit=True)
    end_offset = cluster.bounds(T0).log_end_offset
    for process in (cluster, other):
        process.end_transaction(producer, commit=True)
        with pytest.raises(InvalidTransactionStateError, match="committed"):
            process.end_transaction(producer, commit=False)
    assert cluster.bounds(T0).log_end_offset == end_offset


def test_partitions_are_checked_before_the_transaction_is_opened(cluster):
    producer = init(cluster, "id")
    for partitions, error in (
        ([T0, TopicPartition("none", 0)], UnknownTopicError),
        ([T0, TopicPartition("t", 3)], UnknownPartitionError),
        ([T0, TRANSACTION_STATE_PARTITION], InvalidTopicNameError),
    ):
        with pytest.raises(error):
            cluster.add_partitions_to_transaction(producer, partitions)
    assert state_of(cluster, "id") is TransactionState.EMPTY


def test_a_refused_request_creates_no_internal_topic_and_no_directory(cluster, tmp_path):
    stranger = TransactionalProducer(transactional_id="id", producer_id=0, producer_epoch=0)
    with EmbeddedCluster(tmp_path / "absent", create=True) as absent:
        for process in (cluster, absent):
            with pytest.raises(InvalidTransactionTimeoutError):
                process.init_producer("id", timeout_ms=MAX_EMBEDDED_TRANSACTION_TIMEOUT_MS + 1)
            with pytest.raises(UnknownTransactionalIdError):
                process.end_transaction(stranger, commit=True)
            with pytest.raises(UnknownTransactionalIdError):
                process.abort_transaction("id")
            assert process.list_transactions() == ()
            assert process.describe_transactions(["id"]) == {}
        with pytest.raises(UnknownTopicError):
            absent.add_partitions_to_transaction(stranger, [T0])
    assert set(cluster.describe_topics()) == {"t"}
    assert not (tmp_path / "absent").exists()


def test_the_first_transactional_id_creates_the_directory(tmp_path):
    with EmbeddedCluster(tmp_path / "absent", create=True) as absent:
        assert init(absent, "id").producer_epoch == 0
        assert absent.describe_topics()["__transaction_state"].is_internal


# -- several at once --


def test_transactions_that_are_ended_together_are_decided_by_one_append(cluster, other):
    tasks = [begin(cluster, f"task-{number}", T0, T1) for number in range(3)]
    for number, task in enumerate(tasks):
        write(cluster, task, T0, f"a{number}")
        write(cluster, task, T1, f"b{number}")
    driver = begin(other, "driver", T2)
    write(other, driver, T2, "done")
    before = cluster.bounds(TRANSACTION_STATE_PARTITION).log_end_offset
    other.end_transaction(driver, commit=True, together_with=tasks)
    after = cluster.bounds(TRANSACTION_STATE_PARTITION).log_end_offset
    decision = cluster.fetch(TRANSACTION_STATE_PARTITION, before, max_bytes=1)
    completion = cluster.fetch(TRANSACTION_STATE_PARTITION, decision.next_offset, max_bytes=1)
    assert (decision.next_offset, completion.next_offset, after) == (before + 4, before + 8, before + 8)
    assert [committed(cluster, p) for p in (T0, T1, T2)] == [["a0", "a1", "a2"], ["b0", "b1", "b2"], ["done"]]
    # One append of markers a partition: three control batches, one offset each.
    assert cluster.bounds(T0).log_end_offset == 6


def test_if_one_transaction_cannot_be_ended_none_is(cluster):
    first, second, third = (begin(cluster, name, T0) for name in ("first", "second", "third"))
    for producer in (first, second, third):
        write(cluster, producer, T0, producer.transactional_id)
    cluster.end_transaction(second, commit=False)
    with pytest.raises(InvalidTransactionStateError, match="'second'"):
        cluster.end_transaction(first, commit=True, together_with=[second, third])
    assert [state_of(cluster, name) for name in ("first", "second", "third")] == [
        TransactionState.ONGOING,
        TransactionState.COMPLETE_ABORT,
        TransactionState.ONGOING,
    ]
    assert committed(cluster, T0) == []


def test_very_many_transactions_fit_in_one_decision(cluster):
    """More than a segment of the log may hold, were it not deflated."""
    partitions = [TopicPartition("t", number) for number in range(1600)]
    producers = [init(cluster, f"a-transactional-id-{number:04d}") for number in range(50)]
    cluster.alter_topic_configs("__transaction_state", {"internal.segment.bytes": str(300_000)})
    log = cluster._own().transactions._log

    def open_all(coordinator):
        plans = [coordinator.plan_add_partitions(producer, partitions, now_ms=1) for producer in producers]
        return CoordinatorResult(records=tuple(record for plan in plans for record in plan.records), reply=None)

    log.change(open_all)
    before = cluster.bounds(TRANSACTION_STATE_PARTITION).log_end_offset
    log.change(lambda coordinator: coordinator.plan_end(producers, commit=True, new_producer_id=lambda: 0, now_ms=2))
    decision = cluster.fetch(TRANSACTION_STATE_PARTITION, before, max_bytes=1)
    assert decision.next_offset == before + 50
    assert len(records_of_all(decision.buffer)) > 300_000 > 10 * len(decision.buffer)


def records_of_all(buffer):
    return b"".join(record.value for record in records_of(buffer, 0))


# -- the next process --


@pytest.mark.parametrize("commit", [True, False])
def test_a_decision_of_a_dead_process_is_completed_by_the_next_process(cluster, other, monkeypatch, commit):
    tasks = [begin(cluster, f"task-{number}", T0, T1) for number in range(2)]
    for task in tasks:
        write(cluster, task, T0, task.transactional_id)
        write(cluster, task, T1, task.transactional_id)
    die_before_the_markers(cluster, monkeypatch, tasks[0], commit=commit, together_with=tasks[1:])
    assert not is_settled_for_a_stranger(other, T0)
    expected = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
    assert {each.state for each in other.list_transactions(prefix="task-")} == {expected}
    values = ["task-0", "task-1"] if commit else []
    assert [committed(other, T0), committed(other, T1)] == [values, values]
    assert is_settled(other, T0) and is_settled(other, T1)


def is_settled_for_a_stranger(cluster, partition):
    """Without the help that a reader gives."""
    bounds = cluster._opened().access.read(partition, ReadablePartition.bounds)
    return bounds.last_stable_offset == bounds.high_watermark


def test_a_decision_cannot_be_rolled_back_by_a_new_instance(cluster, other, monkeypatch):
    producer = begin(cluster, "id", T0)
    write(cluster, producer, T0, "decided")
    die_before_the_markers(cluster, monkeypatch, producer, commit=True)
    init(other, "id")
    assert committed(other, T0) == ["decided"]


def test_abort_by_id_does_not_change_a_decision(cluster, other, monkeypatch):
    producer = begin(cluster, "id", T0)
    write(cluster, producer, T0, "decided")
    die_before_the_markers(cluster, monkeypatch, producer, commit=True)
    assert other.abort_transaction("id") is False
    assert committed(other, T0) == ["decided"]


def test_abort_by_id_aborts_the_open_transaction_and_fences_its_producer(cluster, other):
    producer = begin(cluster, "id", T0)
    write(cluster, producer, T0, "x")
    assert other.abort_transaction("id") is True
    assert other.abort_transaction("id") is False
    assert (committed(other, T0), is_settled(other, T0)) == ([], True)
    with pytest.raises(ProducerFencedError):
        write(cluster, producer, T0, "y", base_sequence=1)


def test_a_transaction_times_out_but_a_two_phase_one_does_not(cluster, other, clock):
    short = begin(cluster, "short", T0, timeout_ms=1000)
    prepared = begin(cluster, "prepared", T1, is_two_phase=True)
    write(cluster, short, T0, "late")
    write(cluster, prepared, T1, "kept")
    clock.time_ms += 999
    assert state_of(other, "short") is TransactionState.ONGOING
    clock.time_ms += 1
    assert state_of(other, "short") is TransactionState.COMPLETE_ABORT
    with pytest.raises(InvalidTransactionStateError, match="aborted"):
        cluster.end_transaction(short, commit=True)
    clock.time_ms += 10 * MAX_EMBEDDED_TRANSACTION_TIMEOUT_MS
    found = other.describe_transactions(["prepared"])["prepared"]
    assert (found.state, found.timeout_ms) == (TransactionState.ONGOING, NO_TRANSACTION_TIMEOUT_MS)
    cluster.end_transaction(prepared, commit=True)
    assert (committed(other, T0), committed(other, T1)) == ([], ["kept"])


def test_a_late_commit_succeeds_if_the_timeout_was_not_applied(cluster, clock):
    producer = begin(cluster, "id", T0, timeout_ms=1000)
    write(cluster, producer, T0, "late")
    clock.time_ms += 5000
    cluster.end_transaction(producer, commit=True)
    assert committed(cluster, T0) == ["late"]


def test_a_transaction_may_be_open_for_a_day(cluster, other, clock):
    producer = begin(cluster, "job", T0, timeout_ms=MAX_EMBEDDED_TRANSACTION_TIMEOUT_MS)
    write(cluster, producer, T0, "first")
    clock.time_ms += MAX_EMBEDDED_TRANSACTION_TIMEOUT_MS - 1
    assert state_of(other, "job") is TransactionState.ONGOING
    cluster.end_transaction(producer, commit=True)
    assert committed(other, T0) == ["first"]


def test_an_idle_transactional_id_expires(cluster, other, clock):
    init(cluster, "idle")
    begin(cluster, "prepared", T0, is_two_phase=True)
    clock.time_ms += TRANSACTIONAL_ID_EXPIRATION_MS
    assert [each.transactional_id for each in other.list_transactions()] == ["prepared"]
    assert [each.transactional_id for each in cluster.list_transactions()] == ["prepared"]


def test_a_producer_continues_after_another_process_completed_its_end(cluster, other, monkeypatch):
    producer = begin(cluster, "id", T0)
    write(cluster, producer, T0, "first")
    die_before_the_markers(cluster, monkeypatch, producer, commit=True)
    following = replace(producer, producer_epoch=producer.producer_epoch + 1)
    # It knows that an end bumps the epoch, and does not wait: its own first step finishes the end.
    cluster.add_partitions_to_transaction(following, [T0])
    write(cluster, following, T0, "second")
    cluster.end_transaction(following, commit=True)
    assert committed(other, T0) == ["first", "second"]


def test_an_exhausted_epoch_gives_a_new_producer_id(cluster):
    producer = begin(cluster, "id", T0)
    log = cluster._own().transactions._log
    last_epoch = 2**15 - 2

    def age(coordinator):
        [record] = coordinator.plan_add_partitions(producer, [T0, T1], now_ms=1).records
        aged = replace(record, value=replace(record.value, producer_epoch=last_epoch))
        return CoordinatorResult(records=(aged,), reply=None)

    log.change(age)
    old = replace(producer, producer_epoch=last_epoch)
    write(cluster, old, T0, "last of its epoch")
    cluster.end_transaction(old, commit=True)
    found = cluster.describe_transactions(["id"])["id"]
    assert found.producer_id != old.producer_id
    assert found.producer_epoch == 0
    assert committed(cluster, T0) == ["last of its epoch"]


# -- appends --


def test_an_append_outside_of_its_transaction_is_refused(cluster, other):
    producer = begin(cluster, "id", T0)
    other.describe_transactions(["id"])
    for wrong, partition, error in (
        (producer, T1, InvalidTransactionStateError),
        (replace(producer, producer_id=10**6), T0, InvalidProducerIdMappingError),
        (replace(producer, producer_epoch=1), T0, ProducerFencedError),
    ):
        for process in (cluster, other):
            with pytest.raises(error):
                write(process, wrong, partition, "x")
    assert [cluster.bounds(p).log_end_offset for p in (T0, T1)] == [0, 0]


def test_an_append_before_or_after_the_transaction_is_refused(cluster):
    producer = init(cluster, "id")
    with pytest.raises(InvalidTransactionStateError, match="none open"):
        write(cluster, producer, T0, "too early")
    cluster.add_partitions_to_transaction(producer, [T0])
    write(cluster, producer, T0, "in time")
    cluster.end_transaction(producer, commit=True)
    with pytest.raises(ProducerFencedError):
        write(cluster, producer, T0, "too late", base_sequence=1)
    assert everything(cluster, T0) == ["in time"]


def test_without_any_transaction_ever_a_transactional_append_is_refused(cluster):
    with pytest.raises(InvalidProducerIdMappingError):
        cluster.append(T0, a_batch(producer=(0, 0, 0), is_transactional=True))


def test_a_retry_of_an_append_gets_its_offsets_as_long_as_the_transaction_is_open(cluster):
    producer = begin(cluster, "id", T0)
    first, again = write(cluster, producer, T0, "a"), write(cluster, producer, T0, "a")
    assert (again.base_offset, again.is_duplicate) == (first.base_offset, True)


def test_the_batch_header_decides_whether_an_append_is_transactional(cluster):
    producer = begin(cluster, "id", T0)
    mixed = transactional_batch(producer, ["in"]) + a_batch(1, producer=(producer.producer_id, 0, 1))
    with pytest.raises(InvalidRecordError, match="several producers"):
        cluster.append(T0, mixed)
    hidden = a_batch(1, producer=(5, 0, 1)) + transactional_batch(producer, ["in"])
    with pytest.raises(InvalidRecordError, match="several producers"):
        cluster.append(T0, hidden)
    assert transactional_writer(bytearray(b"short")) is None
    assert transactional_writer(a_batch(1, producer=(5, 2, 1))) is None
    assert transactional_writer(transactional_batch(producer, ["in"])) == ProducerIdAndEpoch(
        producer_id=producer.producer_id, producer_epoch=0
    )


class MeddlingWrites(OsFileSystem):
    """Calls `meddle` at the next write to a file whose path ends as told, before it."""

    def __init__(self):
        self.ending, self.meddle, self.hits = None, None, 0

    def open(self, path, *, writable, create=False):
        file = super().open(path, writable=writable, create=create)
        return _MeddlingFile(self, file) if writable else file

    def on_write(self, path):
        if self.ending is not None and path.endswith(self.ending):
            self.ending, meddle = None, self.meddle
            self.hits += 1
            meddle()


class _MeddlingFile:
    def __init__(self, fs, file):
        self._fs, self._file = fs, file

    def __getattr__(self, name):
        return getattr(self._file, name)

    def write_at(self, position, data):
        self._fs.on_write(self._file.path)
        self._file.write_at(position, data)


def test_records_of_an_append_admitted_before_the_abort_precede_its_marker(cluster, path, clock):
    """Order of events: the append is judged and holds the partition's lock; the abort is decided and its marker waits
    for the lock; the append writes."""
    fs = MeddlingWrites()
    with EmbeddedCluster(path, clock=clock, file_system=fs) as slow:
        producer = begin(slow, "id", T0)
        write(slow, producer, T0, "first")
        aborting = threading.Thread(target=cluster.abort_transaction, args=("id",))

        def meddle():
            aborting.start()
            while state_in_the_log(cluster) is not TransactionState.PREPARE_ABORT:
                aborting.join(0.002)

        fs.ending, fs.meddle = "t-0/00000000000000000000.log", meddle
        write(slow, producer, T0, "second", base_sequence=1)
        aborting.join(10)
        assert not aborting.is_alive()
    assert fs.hits == 1
    assert everything(cluster, T0) == ["first", "second"]
    assert (committed(cluster, T0), is_settled(cluster, T0)) == ([], True)


def state_in_the_log(cluster):
    state = cluster._own().transactions._log.state
    state.refresh()
    return state.look(lambda coordinator: coordinator.describe(["id"]))["id"].state


def test_a_zombie_append_between_decision_and_marker_is_refused(cluster, other, monkeypatch):
    producer = begin(cluster, "id", T0, T1)
    write(cluster, producer, T0, "first")
    tried = []
    write_markers = MarkerWriter.write

    def zombie_first(writer, endings):
        for partition, sequence in ((T0, 1), (T1, 0)):
            with pytest.raises(ProducerFencedError):
                write(cluster, producer, partition, "zombie", base_sequence=sequence)
            tried.append(partition)
        return write_markers(writer, endings)

    monkeypatch.setattr(MarkerWriter, "write", zombie_first)
    other.abort_transaction("id")
    assert tried == [T0, T1]
    assert everything(cluster, T0) == ["first"]
    # The partition that was added and never written has its marker, and with it the epoch that fences the zombie.
    assert cluster.bounds(T1).log_end_offset == 1


# -- an error --


def test_a_failed_marker_write_is_reported_and_completed_later(cluster, other, monkeypatch):
    producer = begin(cluster, "id", T0, T1)
    write(cluster, producer, T0, "a")
    write(cluster, producer, T1, "b")
    written = MarkerWriter._write_to

    def full(writer, partition, endings):
        if partition == T0:
            raise DiskFullError("the disk is full")
        return written(writer, partition, endings)

    with monkeypatch.context() as patched:
        patched.setattr(MarkerWriter, "_write_to", full)
        with pytest.raises(DiskFullError) as caught:
            cluster.end_transaction(producer, commit=True)
        assert "is decided" in caught.value.__notes__[0]
        # It is no error of those who come by, and does not keep them from their own business.
        assert init(other, "stranger").producer_epoch == 0
        assert state_of(other, "id") is TransactionState.PREPARE_COMMIT
        assert committed(other, T1) == ["b"]
    assert state_of(other, "id") is TransactionState.COMPLETE_COMMIT
    assert committed(other, T0) == ["a"]
    cluster.end_transaction(producer, commit=True)


def test_a_topic_deleted_during_a_transaction_is_skipped(cluster, other):
    cluster.create_topic("gone")
    gone = TopicPartition("gone", 0)
    producer = begin(cluster, "id", T0, gone)
    write(cluster, producer, T0, "kept")
    write(cluster, producer, gone, "lost")
    other.delete_topic("gone")
    cluster.end_transaction(producer, commit=True)
    assert committed(cluster, T0) == ["kept"]
    assert state_of(other, "id") is TransactionState.COMPLETE_COMMIT


def test_a_topic_recreated_during_a_transaction_gets_its_marker(cluster, other):
    cluster.create_topic("again")
    again = TopicPartition("again", 0)
    producer = begin(cluster, "id", again)
    write(cluster, producer, again, "lost")
    other.delete_topic("again")
    other.create_topic("again")
    write(cluster, producer, again, "kept", base_sequence=1)
    cluster.end_transaction(producer, commit=True)
    assert (committed(other, again), is_settled(other, again)) == (["kept"], True)


def test_the_transaction_log_cannot_be_deleted_while_a_transaction_is_open(cluster, other, monkeypatch):
    producer = begin(cluster, "id", T0)
    write(cluster, producer, T0, "a")
    with pytest.raises(PolicyViolationError, match="for example 'id': commit or abort them first"):
        other.delete_topic("__transaction_state")
    die_before_the_markers(cluster, monkeypatch, producer, commit=True)
    other.delete_topic("__transaction_state")
    assert (committed(other, T0), other.list_transactions()) == (["a"], ())


def test_a_transaction_that_begins_while_its_log_is_deleted_is_not_lost(cluster, other, monkeypatch):
    # The log went between the look at it and its deletion: nothing of the transaction could ever be ended, and readers
    # of committed records waited for it.
    planning, deleting, refused = threading.Event(), threading.Event(), []
    plan_add_partitions = TransactionCoordinator.plan_add_partitions

    def plan_slowly(*arguments, **more):
        planning.set()
        deleting.wait(0.5)
        return plan_add_partitions(*arguments, **more)

    def delete():
        try:
            other.delete_topic("__transaction_state")
        except PolicyViolationError as error:
            refused.append(error)
        deleting.set()

    producer = init(cluster, "id")
    monkeypatch.setattr(TransactionCoordinator, "plan_add_partitions", plan_slowly)
    beginning = threading.Thread(target=cluster.add_partitions_to_transaction, args=(producer, [T0]))
    beginning.start()
    assert planning.wait(20)
    deletion = threading.Thread(target=delete)
    deletion.start()
    beginning.join(20)
    deletion.join(20)
    assert refused
    write(cluster, producer, T0, "kept")
    cluster.end_transaction(producer, commit=True)
    assert (committed(other, T0), is_settled(other, T0)) == (["kept"], True)


def test_after_deleting_the_transaction_log_its_producers_are_unknown(cluster, other):
    producer = begin(cluster, "id", T0)
    cluster.end_transaction(producer, commit=False)
    other.delete_topic("__transaction_state")
    following = replace(producer, producer_epoch=producer.producer_epoch + 1)
    with pytest.raises(InvalidProducerIdMappingError):
        write(cluster, following, T0, "b")
    with pytest.raises(UnknownTransactionalIdError):
        cluster.end_transaction(following, commit=True)
    assert cluster.list_transactions() == ()
    fresh = begin(other, "id", T1)
    assert fresh.producer_id != producer.producer_id
    write(cluster, fresh, T1, "c")
    cluster.end_transaction(fresh, commit=True)
    assert committed(cluster, T1) == ["c"]


def test_an_error_while_expiring_other_transactions_fails_no_caller(cluster, other, clock, caplog, monkeypatch):
    begin(cluster, "late", T0, timeout_ms=1)
    clock.time_ms += 1
    hits = []

    def refuse(store, batches, **how):
        hits.append(store)
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(WritablePartition, "append_control", refuse)
        assert state_of(other, "late") is TransactionState.ONGOING
    assert hits
    assert "could not complete the transactions of other producers" in caplog.text
    assert state_of(other, "late") is TransactionState.COMPLETE_ABORT


def test_an_id_that_is_taken_over_repeatedly_raises_with_advice(cluster, monkeypatch):
    never = CoordinatorResult(reply=InitReply(producer=None))
    monkeypatch.setattr(TransactionCoordinator, "plan_init_producer", lambda *_, **__: never)
    with pytest.raises(ConcurrentTransactionsError, match="its own id"):
        cluster.init_producer("id")


def test_threads_and_processes_with_different_ids_are_independent(cluster, other):
    errors = []

    def work(process, name):
        try:
            for number in range(8):
                producer = begin(process, name, T0, T1)
                for partition in (T0, T1):
                    write(process, producer, partition, f"{name}-{number}")
                process.end_transaction(producer, commit=number % 3 != 2)
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=work, args=((cluster, other)[n % 2], f"worker-{n}"), daemon=True) for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert errors == []
    for partition in (T0, T1):
        seen = committed(cluster, partition)
        expected = {f"worker-{n}-{number}" for n in range(4) for number in range(8) if number % 3 != 2}
        assert (len(seen), set(seen)) == (len(expected), expected)
        assert is_settled(cluster, partition)
