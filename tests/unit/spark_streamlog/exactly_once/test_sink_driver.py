"""The protocol without Spark: decided batches are readable whole and once, others never."""

from uuid import UUID

import pytest
from support.brokers.in_memory_cluster import InMemoryCluster
from support.builders.committed_rows import committed_rows
from support.spark.sink_actors import TOPIC, SinkKilled, steps, written
from support.spark.sink_worlds import QUERY_ID, embedded_world, in_memory_world, one_by_one_world, world

from broker_core.model.exceptions import StorageError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.transaction_state import TransactionState
from spark_streamlog.errors import ConditionError
from spark_streamlog.exactly_once import decision as decision_module
from spark_streamlog.exactly_once.commit_protocol import BatchFacts
from spark_streamlog.exactly_once.decision import Decision, last_decision
from spark_streamlog.exactly_once.sink_identity import application_identity, single_write_identity
from spark_streamlog.exactly_once.steps import Step
from spark_streamlog.exactly_once.task_transaction import TaskTransaction

__all__ = ["embedded_world", "world"]


def condition_of(operation, *arguments, **named):
    with pytest.raises(ConditionError) as caught:
        operation(*arguments, **named)
    return caught.value


def open_ids(world):
    return [one.transactional_id for one in world.cluster.list_transactions(states=(TransactionState.ONGOING,))]


# -- a batch --


def test_nothing_is_readable_before_the_decision_and_everything_after_it(world):
    sink = world.sink()
    driver = sink.driver.take_over()
    first = sink.write(["a", "b", "c"], batch=0, driver=driver)
    second = sink.write(["d"], batch=0, driver=driver, task=1)
    assert world.readable() == []
    sink.driver.decide(Decision(batch=0, task_count=2), written(first, second), driver=driver)
    assert world.readable() == ["a", "b", "c", "d"]
    decided = last_decision(world.cluster, sink.identity)
    assert (decided.batch, decided.task_count, decided.is_by(driver)) == (0, 2, True)
    assert open_ids(world) == []


def test_commit_decides_a_batch_and_publishes_a_single_write(world):
    sink = world.sink()
    driver = sink.driver.take_over()
    opened = written(sink.write(["a"], batch=4, driver=driver, task=1, attempt=3))
    facts = BatchFacts(batch=4, task_count=2, input_fingerprint="f")
    sink.driver.commit(facts, opened, driver=driver)
    decided = last_decision(world.cluster, sink.identity)
    assert (decided.batch, decided.task_count, decided.attempts, decided.input_fingerprint) == (4, 2, {1: 3}, "f")
    single = world.sink(single_write_identity(UUID(int=1)))
    driver = single.driver.take_over()
    opened = written(single.write(["b"], batch=None, driver=driver))
    assert world.readable() == ["a"]
    single.driver.commit(BatchFacts(batch=None, task_count=1), opened, driver=driver)
    assert world.readable() == ["a", "b"]
    assert last_decision(world.cluster, single.identity) is None


def test_consecutive_batches_are_committed(world):
    for batch in range(3):
        world.sink().run_batch(batch, [f"{batch}a", f"{batch}b"], [f"{batch}c"])
    assert world.readable() == ["0a", "0b", "0c", "1a", "1b", "1c", "2a", "2b", "2c"]


def test_a_repeated_batch_writes_nothing(world):
    world.sink().run_batch(0, ["a"], ["b"])
    end = world.cluster.bounds(TopicPartition(TOPIC, 0)).log_end_offset
    with steps() as seen:
        world.sink().run_batch(0, ["a"], ["b"])
    assert world.readable() == ["a", "b"]
    assert world.cluster.bounds(TopicPartition(TOPIC, 0)).log_end_offset == end
    assert seen.seen.count(Step.TASK_SKIPS) == 2
    assert Step.ALREADY_DECIDED in seen.seen


def test_without_reading_the_decision_a_repeated_batch_would_be_written_twice(world, monkeypatch):
    world.sink().run_batch(0, ["a"], ["b"])
    monkeypatch.setattr(decision_module, "last_decision", lambda *_: None)
    world.sink().run_batch(0, ["a"], ["b"])
    assert world.readable() == ["a", "b", "a", "b"]


def test_a_task_without_rows_opens_no_transaction_and_its_batch_is_decided(world):
    sink = world.sink()
    driver = sink.driver.take_over()
    assert sink.write([], batch=0, driver=driver) is None
    sink.driver.decide(Decision(batch=0, task_count=1), [], driver=driver)
    assert last_decision(world.cluster, sink.identity).batch == 0
    assert world.cluster.describe_topics([TOPIC]) == {}


def test_deciding_twice_is_idempotent(world):
    sink = world.sink()
    driver = sink.driver.take_over()
    opened = written(sink.write(["a"], batch=0, driver=driver))
    for _ in range(3):
        sink.driver.decide(Decision(batch=0), opened, driver=driver)
    sink.driver.abandon(opened, driver=driver)
    assert world.readable() == ["a"]


def test_an_abandoned_batch_shows_nothing_and_can_be_repeated(world):
    sink = world.sink()
    driver = sink.driver.take_over()
    sink.write(["never told of"], batch=0, driver=driver)  # killed: its message did not arrive
    told = sink.write(["a"], batch=0, driver=driver, task=1)
    sink.driver.abandon([told], driver=driver)
    assert world.readable() == []
    assert open_ids(world) == []
    world.sink().run_batch(0, ["a"])
    assert world.readable() == ["a"]


def test_attempts_that_start_after_their_batch_was_abandoned_open_no_transaction(world):
    sink = world.sink()
    driver = sink.driver.take_over()
    sink.driver.abandon([], driver=driver)
    assert condition_of(sink.write, ["a"], batch=0, driver=driver).condition == "STREAMLOG_DRIVER_FENCED"
    assert open_ids(world) == []


@pytest.mark.parametrize("end", ["decide", "abandon", "publish"])
def test_an_attempt_whose_batch_ends_before_its_first_row_leaves_nothing_open(world, end):
    # Both tasks of a job have started, one fails, and the driver abandons the job within milliseconds.
    world.cluster.create_topic(TOPIC)
    sink = world.sink(single_write_identity(UUID(int=1)) if end == "publish" else None)
    driver = sink.driver.take_over()
    late = TaskTransaction(
        world.cluster, sink.identity, task=7, attempt=0, timeout_ms=60_000, now_ms=world.clock.now_ms
    )
    assert late.may_write(None if end == "publish" else 0, driver)
    late.begin()
    what_ends = {"decide": [Decision(batch=0)], "abandon": [], "publish": []}[end]
    getattr(sink.driver, end)(*what_ends, [], driver=driver)
    with pytest.raises(ConditionError, match="STREAMLOG_DRIVER_FENCED"), late.writing():
        late.add_partitions([TopicPartition(TOPIC, 0)])
    assert open_ids(world) == []


# -- attempts --


def test_a_speculative_attempt_does_not_fence_the_finished_one(world):
    sink = world.sink()
    driver = sink.driver.take_over()
    sink.write(["a"], batch=0, driver=driver, attempt=0)
    counts = sink.write(["a"], batch=0, driver=driver, attempt=1)
    sink.driver.decide(Decision(batch=0), [counts], driver=driver)
    assert world.readable() == ["a"]
    assert open_ids(world) == []


def test_a_failed_attempt_aborts_its_transaction(world):
    sink = world.sink()
    driver = sink.driver.take_over()

    def fail(transaction):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        sink.write(["a"], batch=0, driver=driver, after_rows=fail)
    assert open_ids(world) == []


def test_a_batch_with_a_fenced_attempt_is_not_decided(world):
    # A stage that is run again counts its attempts from 0 again, and one of the first run may still be under way.
    sink = world.sink()
    driver = sink.driver.take_over()
    finished = sink.write(["a"], batch=0, driver=driver)
    sink.write(["a"], batch=0, driver=driver)
    error = condition_of(sink.driver.decide, Decision(batch=0), [finished], driver=driver)
    assert error.condition == "STREAMLOG_TRANSACTION_FENCED"
    assert f"{QUERY_ID}-0-0" in str(error)
    sink.driver.abandon([finished], driver=driver)
    assert world.readable() == []
    world.sink().run_batch(0, ["a"])
    assert world.readable() == ["a"]


def test_one_lost_transaction_keeps_its_whole_batch_unreadable(world):
    sink = world.sink()
    driver = sink.driver.take_over()
    opened = written(*(sink.write([str(task)], batch=0, driver=driver, task=task) for task in range(4)))
    world.cluster.abort_transaction(opened[2].producer.transactional_id)
    error = condition_of(sink.driver.decide, Decision(batch=0), opened, driver=driver)
    assert error.parameters["transactional_id"] == f"{QUERY_ID}-2-0"
    assert world.readable() == []
    assert last_decision(world.cluster, sink.identity) is None


def test_a_task_fenced_while_writing_reports_it(world):
    sink = world.sink()
    driver = sink.driver.take_over()

    def be_fenced_and_go_on(transaction):
        sink.write(["b"], batch=0, driver=driver)
        transaction.add_partitions([TopicPartition(TOPIC, 0)])

    error = condition_of(sink.write, ["a"], batch=0, driver=driver, after_rows=be_fenced_and_go_on)
    assert error.condition == "STREAMLOG_TRANSACTION_FENCED"


# -- timeouts --


def test_an_expired_transaction_names_the_timeout_option(world):
    sink = world.sink(timeout_ms=60_000)
    driver = sink.driver.take_over()
    opened = written(sink.write(["a"], batch=0, driver=driver))
    world.pass_time(60_000)
    error = condition_of(sink.driver.decide, Decision(batch=0), opened, driver=driver)
    assert error.condition == "STREAMLOG_TRANSACTION_EXPIRED"
    assert "kafka.transaction.timeout.ms" in str(error)
    assert (error.parameters["age_ms"], error.parameters["timeout_ms"]) == (60_000, 60_000)
    assert world.readable() == []


def test_a_task_that_times_out_while_writing_names_the_timeout_option(world):
    sink = world.sink(timeout_ms=60_000)
    driver = sink.driver.take_over()

    def wait_and_go_on(transaction):
        world.pass_time(60_000)
        world.cluster.list_transactions()  # somebody comes by and ends what has timed out
        transaction.add_partitions([TopicPartition(TOPIC, 0)])

    error = condition_of(sink.write, ["a"], batch=0, driver=driver, after_rows=wait_and_go_on)
    assert error.condition == "STREAMLOG_TRANSACTION_EXPIRED"


def test_a_millisecond_before_the_timeout_the_batch_is_decided(world):
    sink = world.sink(timeout_ms=60_000)
    driver = sink.driver.take_over()
    opened = written(sink.write(["a"], batch=0, driver=driver))
    world.pass_time(59_999)
    sink.driver.decide(Decision(batch=0), opened, driver=driver)
    assert world.readable() == ["a"]


def test_a_dead_query_blocks_readers_no_longer_than_its_timeout(world):
    world.cluster.create_topic(TOPIC)
    with steps(kill_at=Step.TASK_FLUSHED), pytest.raises(SinkKilled):
        world.sink(timeout_ms=60_000).run_batch(0, ["a"])
    bounds = world.cluster.bounds(TopicPartition(TOPIC, 0))
    assert bounds.last_stable_offset < bounds.high_watermark
    world.pass_time(60_000)
    assert world.cluster.list_transactions(states=(TransactionState.ONGOING,)) == ()
    bounds = world.cluster.bounds(TopicPartition(TOPIC, 0))
    assert bounds.last_stable_offset == bounds.high_watermark


# -- a disk that is full --


class FailingCluster(InMemoryCluster):
    """Raises in the call named `failing`; the end of a transaction is decided before that, as in a directory."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.failing = ""

    def end_transaction(self, producer, *, commit, together_with=()):
        super().end_transaction(producer, commit=commit, together_with=together_with)
        self.fail("commit" if commit else "abort")

    def init_producer(self, *arguments, **named):
        self.fail("init")
        return super().init_producer(*arguments, **named)

    def fail(self, name):
        if name == self.failing:
            raise StorageError("no space left")


@pytest.fixture
def failing_world():
    made = in_memory_world()
    made.cluster = FailingCluster(now_ms=made.clock.now_ms)
    return made


def test_an_error_when_writing_the_markers_of_a_decided_batch_is_only_a_warning(failing_world, caplog):
    sink = failing_world.sink()
    driver = sink.driver.take_over()
    opened = written(sink.write(["a"], batch=0, driver=driver))
    failing_world.cluster.failing = "commit"
    sink.driver.decide(Decision(batch=0), opened, driver=driver)
    assert "is decided, but not all of it is readable yet: no space left" in caplog.text
    assert failing_world.readable() == ["a"]


def test_a_decided_transaction_that_could_not_be_ended_is_not_aborted_as_a_leftover(caplog):
    """At brokers, where the tasks' transactions are ended one by one behind the decision."""
    world = one_by_one_world()
    sink = world.sink()
    driver = sink.driver.take_over()
    opened = written(*(sink.write([str(task)], batch=0, driver=driver, task=task) for task in range(3)))
    lost = sink.write(["lost"], batch=0, driver=driver, task=0, attempt=1)
    ends = []

    def fail_once():
        ends.append(len(ends))
        if len(ends) == 1:
            raise StorageError("the broker is gone")

    world.cluster.between_ends = fail_once
    sink.driver.decide(Decision(batch=0, task_count=3), opened, driver=driver)
    assert ends
    assert "is decided, but not all of it is readable yet: the broker is gone" in caplog.text
    assert lost.producer.transactional_id not in open_ids(world)
    world.sink().driver.take_over()
    assert world.readable() == ["0", "1", "2"]
    assert open_ids(world) == []


def test_an_error_before_the_decision_fails_the_batch(failing_world):
    sink = failing_world.sink()
    driver = sink.driver.take_over()
    opened = written(sink.write(["a"], batch=0, driver=driver))
    failing_world.cluster.failing = "init"
    with pytest.raises(StorageError):
        sink.driver.decide(Decision(batch=0), opened, driver=None)
    assert failing_world.readable() == []


def test_an_error_when_ending_leftovers_does_not_fail_a_decided_batch(failing_world, caplog):
    sink = failing_world.sink()
    driver = sink.driver.take_over()
    sink.write(["a"], batch=0, driver=driver, attempt=0)
    counts = written(sink.write(["a"], batch=0, driver=driver, attempt=1))
    failing_world.cluster.failing = "abort"
    sink.driver.decide(Decision(batch=0), counts, driver=driver)
    assert "its other open transactions stay open until they time out: no space left" in caplog.text


def test_an_error_after_publishing_does_not_fail_the_write(failing_world, caplog):
    sink = failing_world.sink(single_write_identity(UUID(int=1)))
    driver = sink.driver.take_over()
    opened = written(sink.write(["a"], batch=None, driver=driver))
    failing_world.cluster.failing = "init"
    sink.driver.publish(opened, driver=driver)
    assert failing_world.readable() == ["a"]
    assert "no space left" in caplog.text


# -- leftovers --


def test_the_next_run_ends_the_open_transactions_of_a_dead_one_when_planning(world):
    with steps(kill_at=Step.COMMITTING), pytest.raises(SinkKilled):
        world.sink().run_batch(0, ["a"], ["b"])
    assert len(open_ids(world)) == 2
    with steps() as seen:
        world.sink().driver.take_over()
    assert open_ids(world) == []
    assert seen.seen.count(Step.LEFTOVER_ENDED) == 2


def test_without_planning_the_decision_ends_the_open_transactions_of_a_dead_run(world):
    sink = world.sink()
    sink.write(["a"], batch=0, driver=None, task=5)
    sink.run_batch(0, ["a"], knows_query=False)
    assert world.readable() == ["a"]
    assert open_ids(world) == []


# -- two drivers --


class OvertakenCluster:
    """Another cluster, where somebody else acts before the next list of transactions is made."""

    def __init__(self, cluster, act):
        self._cluster, self._act = cluster, act
        self.was_overtaken = False

    def __getattr__(self, name):
        return getattr(self._cluster, name)

    def list_transactions(self, **how):
        if not self.was_overtaken:
            self.was_overtaken = True
            self._act()
        return self._cluster.list_transactions(**how)


@pytest.mark.parametrize("call", ["take_over", "decide", "decide again", "publish", "abandon"])
def test_a_driver_fenced_before_it_ends_leftovers_leaves_them_to_the_newer_one(world, call):
    """What it lists are the transactions of the newer driver's tasks, under the very names of its own."""
    identity = single_write_identity(UUID(int=1)) if call == "publish" else None
    older, newer = world.sink(identity), world.sink(identity)
    batch = None if call == "publish" else 1
    newer_opened = []

    def overtake():
        driver = newer.driver.take_over()
        newer_opened.extend(written(newer.write(["newer"], batch=batch, driver=driver, task=9)))

    cluster = OvertakenCluster(world.cluster, overtake)
    if call == "decide again":
        world.sink().run_batch(0, ["older"])
    driver = None if call == "take_over" else older.driver.take_over()
    opened = written(older.write(["older"], batch=None if call == "publish" else 0, driver=driver)) if driver else []
    older.cluster = cluster
    match call:
        case "take_over":
            older.driver.take_over()
        case "decide" | "decide again":
            older.driver.decide(Decision(batch=0), opened, driver=driver)
        case "publish":
            older.driver.publish(opened, driver=driver)
        case "abandon":
            older.driver.abandon(opened, driver=driver)
    assert cluster.was_overtaken
    assert newer_opened[0].producer.transactional_id in open_ids(world)


def test_the_newer_driver_fences_the_older_one(world):
    older, newer = world.sink(), world.sink()
    old_driver = older.driver.take_over()
    old_opened = written(older.write(["a"], batch=0, driver=old_driver))
    new_driver = newer.driver.take_over()
    new_opened = written(newer.write(["a"], batch=0, driver=new_driver))
    error = condition_of(older.driver.decide, Decision(batch=0), old_opened, driver=old_driver)
    assert error.condition == "STREAMLOG_DRIVER_FENCED"
    older.driver.abandon(old_opened, driver=old_driver)
    assert condition_of(older.write, ["a"], batch=0, driver=old_driver).condition == "STREAMLOG_DRIVER_FENCED"
    newer.driver.decide(Decision(batch=0), new_opened, driver=new_driver)
    assert world.readable() == ["a"]


def test_a_late_older_driver_does_not_claim_the_batch(world):
    sink = world.sink()
    old_driver = sink.driver.take_over()
    opened = written(sink.write(["a"], batch=0, driver=old_driver))
    world.sink().run_batch(0, ["a"])
    error = condition_of(sink.driver.decide, Decision(batch=0), opened, driver=old_driver)
    assert error.condition == "STREAMLOG_DRIVER_FENCED"
    assert world.readable() == ["a"]


def test_if_planning_does_not_know_the_query_the_first_decision_wins(world):
    first, second = world.sink(), world.sink()
    first_opened = written(first.write(["a"], batch=0, driver=None, attempt=0))
    second_opened = written(second.write(["a"], batch=0, driver=None, attempt=1))
    first.driver.decide(Decision(batch=0), first_opened, driver=None)
    third_opened = written(second.write(["a"], batch=1, driver=None, attempt=1))
    error = condition_of(second.driver.decide, Decision(batch=0), third_opened, driver=None)
    assert error.condition == "STREAMLOG_DRIVER_FENCED"
    assert "another driver decided batch 0" in str(error)
    assert second_opened
    assert world.readable() == ["a"]
    assert open_ids(world) == []


def test_an_older_query_run_from_a_restored_checkpoint_is_refused(world):
    for batch in range(3):
        world.sink().run_batch(batch, [str(batch)])
    assert condition_of(world.sink().run_batch, 1, ["other"]).condition == "STREAMLOG_BATCH_NOT_NEXT"
    assert world.readable() == ["0", "1", "2"]
    assert open_ids(world) == []


def test_a_copied_checkpoint_with_another_input_is_refused(world):
    world.sink().run_batch(0, ["a"], input_fingerprint="aaaa")
    error = condition_of(world.sink().run_batch, 0, ["b"], input_fingerprint="bbbb")
    assert error.condition == "STREAMLOG_BATCH_NOT_NEXT"


# -- applications and single writes --


def test_a_version_is_written_once_and_an_older_one_never(world):
    sink = world.sink(application_identity("orders", topic=TOPIC))
    sink.run_batch(5, ["five"])
    sink.run_batch(5, ["again"])
    sink.run_batch(4, ["four"])
    sink.run_batch(7, ["seven"])
    assert world.readable() == ["five", "seven"]


def test_an_application_does_not_touch_the_transactions_of_one_with_a_similar_name(world):
    other = world.sink(application_identity("a-1", topic=TOPIC))
    driver = other.driver.take_over()
    opened = written(other.write(["other"], batch=0, driver=driver))
    world.sink(application_identity("a", topic=TOPIC)).run_batch(0, ["a"])
    other.driver.decide(Decision(batch=0), opened, driver=driver)
    assert sorted(world.readable()) == ["a", "other"]


def test_a_single_write_is_completely_readable_when_it_is_published(world):
    sink = world.sink(single_write_identity(UUID(int=1)))
    driver = sink.driver.take_over()
    opened = written(*(sink.write([str(task)], batch=None, driver=driver, task=task) for task in range(3)))
    assert world.readable() == []
    sink.driver.publish(opened, driver=driver)
    assert world.readable() == ["0", "1", "2"]
    sink.driver.publish(opened, driver=driver)
    assert world.readable() == ["0", "1", "2"]


def test_a_single_write_is_not_readable_if_one_transaction_is_lost(world):
    sink = world.sink(single_write_identity(UUID(int=1)))
    driver = sink.driver.take_over()
    opened = written(*(sink.write([str(task)], batch=None, driver=driver, task=task) for task in range(3)))
    world.cluster.abort_transaction(opened[1].producer.transactional_id)
    assert condition_of(sink.driver.publish, opened, driver=driver).condition == "STREAMLOG_TRANSACTION_FENCED"
    sink.driver.abandon(opened, driver=driver)
    assert world.readable() == []
    assert open_ids(world) == []


@pytest.mark.parametrize("end", ["publish", "abandon"])
def test_an_attempt_that_starts_after_a_single_write_ended_opens_no_transaction(world, end):
    sink = world.sink(single_write_identity(UUID(int=1)))
    driver = sink.driver.take_over()
    getattr(sink.driver, end)([], driver=driver)
    assert condition_of(sink.write, ["late"], batch=None, driver=driver).condition == "STREAMLOG_DRIVER_FENCED"
    assert open_ids(world) == []


def test_rows_of_a_task_keep_their_order_across_rounds_and_batches(world):
    world.cluster.create_topic(TOPIC, partition_count=2)
    for batch in range(3):
        world.sink().run_batch(batch, [f"{batch}{number}" for number in range(9)])
    for partition in range(2):
        values = [row["value"] for row in committed_rows(world.cluster, TOPIC) if row["partition"] == partition]
        assert values == sorted(values)
