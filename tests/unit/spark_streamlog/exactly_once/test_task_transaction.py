"""One attempt of a task: looks first, opens late, says what became of its transaction."""

import pytest
from support.brokers.in_memory_cluster import InMemoryCluster
from support.spark.sink_actors import TOPIC, SinkKilled, steps
from support.spark.sink_worlds import QUERY_ID, embedded_world, in_memory_world, world

from broker_core.cluster import TransactionalProducer
from broker_core.model.exceptions import ProducerFencedError, StorageError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.transaction_state import TransactionState
from spark_streamlog.errors import ConditionError
from spark_streamlog.exactly_once.sink_identity import query_identity
from spark_streamlog.exactly_once.steps import Step
from spark_streamlog.exactly_once.task_transaction import TaskTransaction, is_open, require_current

__all__ = ["embedded_world", "world"]

PARTITION = TopicPartition(TOPIC, 0)


def a_transaction(world, *, task=3, attempt=1, timeout_ms=60_000):
    return TaskTransaction(
        world.cluster,
        query_identity(QUERY_ID),
        task=task,
        attempt=attempt,
        timeout_ms=timeout_ms,
        now_ms=world.clock.now_ms,
    )


def described(world, transaction):
    found = world.cluster.describe_transactions([transaction.transactional_id])
    return found.get(transaction.transactional_id)


def test_the_transactional_id_contains_task_and_attempt(world):
    assert a_transaction(world).transactional_id == f"{QUERY_ID}-3-1"


def test_may_write_opens_no_transaction(world):
    transaction = a_transaction(world)
    assert transaction.may_write(0, None)
    assert transaction.opened is None
    assert described(world, transaction) is None


def test_the_transaction_opens_with_its_first_partitions_and_the_given_timeout(world):
    world.cluster.create_topic(TOPIC)
    transaction = a_transaction(world)
    producer = transaction.begin()
    assert described(world, transaction).state is TransactionState.EMPTY
    assert transaction.opened is None
    transaction.add_partitions([PARTITION])
    found = described(world, transaction)
    assert (found.state, found.timeout_ms, found.partitions) == (TransactionState.ONGOING, 60_000, (PARTITION,))
    assert is_open(found, producer)
    opened = transaction.opened
    assert (opened.producer, opened.task, opened.attempt) == (producer, 3, 1)
    assert (opened.opened_at_ms, opened.timeout_ms) == (world.clock.now_ms(), 60_000)


def test_a_later_producer_with_the_same_id_is_not_mistaken_for_this_one(world):
    world.cluster.create_topic(TOPIC)
    first, second = a_transaction(world), a_transaction(world)
    producer = first.begin()
    first.add_partitions([PARTITION])
    second.begin()
    second.add_partitions([PARTITION])
    assert not is_open(described(world, first), producer)
    assert not is_open(None, producer)


def test_a_failed_attempt_aborts_its_transaction_and_raises_its_error(world):
    world.cluster.create_topic(TOPIC)
    transaction = a_transaction(world)
    with steps() as seen, pytest.raises(ZeroDivisionError), transaction.writing():
        transaction.begin()
        transaction.add_partitions([PARTITION])
        raise ZeroDivisionError
    assert described(world, transaction).state is TransactionState.COMPLETE_ABORT
    assert seen.seen[-1] is Step.TASK_GAVE_UP


def test_a_killed_attempt_does_not_end_its_transaction(world):
    world.cluster.create_topic(TOPIC)
    transaction = a_transaction(world)
    with pytest.raises(SinkKilled), transaction.writing():
        transaction.begin()
        transaction.add_partitions([PARTITION])
        raise SinkKilled
    assert described(world, transaction).state is TransactionState.ONGOING


def test_the_error_of_the_attempt_is_raised_even_if_the_abort_fails():
    class ClusterOnFullDisk(InMemoryCluster):
        def end_transaction(self, producer, **how):
            raise StorageError("no space left")

    world = in_memory_world()
    world.cluster = ClusterOnFullDisk()
    world.cluster.create_topic(TOPIC)
    transaction = a_transaction(world)
    with pytest.raises(ZeroDivisionError), transaction.writing():
        transaction.begin()
        transaction.add_partitions([PARTITION])
        raise ZeroDivisionError


def test_an_error_before_the_transaction_opens_keeps_its_type(world):
    with pytest.raises(ProducerFencedError), a_transaction(world).writing():
        raise ProducerFencedError("not of this transaction")


def test_a_fenced_attempt_names_the_current_state_and_epoch(world):
    world.cluster.create_topic(TOPIC)
    transaction = a_transaction(world)
    with pytest.raises(ConditionError, match="STREAMLOG_TRANSACTION_FENCED") as caught, transaction.writing():
        transaction.begin()
        transaction.add_partitions([PARTITION])
        a_transaction(world).begin()
        transaction.add_partitions([PARTITION])
    assert "it is Empty with producer epoch 2; the task's producer epoch was 0" in str(caught.value)


def test_a_driver_is_current_until_another_one_takes_over(world):
    identity = query_identity(QUERY_ID)
    driver = world.sink().driver.take_over()
    require_current(world.cluster, identity, driver)
    world.sink().driver.take_over()
    with pytest.raises(ConditionError, match=r"STREAMLOG_DRIVER_FENCED.* now has producer epoch 1"):
        require_current(world.cluster, identity, driver)
    stranger = TransactionalProducer(transactional_id="stranger", producer_id=0, producer_epoch=0)
    with pytest.raises(ConditionError, match="stranger does not exist in the log"):
        require_current(world.cluster, identity, stranger)
