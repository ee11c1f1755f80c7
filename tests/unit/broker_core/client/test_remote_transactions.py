import pytest
from kio.schema.errors import ErrorCode
from support.brokers.scripted_broker import CLOSE, NO_TIME, ScriptedBroker, schema_of
from support.nodes.scripted_coordinator import ScriptedCoordinator

from broker_core.cluster import GroupOffset, TransactionalProducer
from broker_core.model.exceptions import (
    InvalidTransactionStateError,
    InvalidTransactionTimeoutError,
    PartlyEndedError,
    ProducerFencedError,
    RequestTimedOutError,
    UnknownTopicError,
    UnknownTransactionalIdError,
)
from broker_core.model.identifiers import TopicPartition
from broker_core.protocol.api_table import ApiKey

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def broker():
    with ScriptedBroker() as scripted:
        scripted.topics["t"] = 2
        yield scripted


@pytest.fixture
def coordinator(broker):
    return ScriptedCoordinator(broker)


@pytest.fixture
def old_client(broker, coordinator):
    """A client of a cluster that knows nothing of transactions version 2."""
    broker.transaction_version = 0
    return broker.client()


@pytest.fixture
def client(broker, coordinator):
    return broker.client()


def begin(client, name, *partitions):
    """A producer; with partitions its transaction is open."""
    made = client.init_producer(name)
    producer = TransactionalProducer(
        transactional_id=name, producer_id=made.producer_id, producer_epoch=made.producer_epoch
    )
    client.add_partitions_to_transaction(producer, partitions)
    return producer


def test_an_idempotent_producer_is_initialized_at_any_broker(client, broker):
    assert client.init_producer().producer_id != client.init_producer().producer_id
    assert broker.asked(ApiKey.FIND_COORDINATOR) == []


def test_a_transaction_runs_from_begin_to_commit(client, coordinator, broker):
    producer = begin(client, "a", T0, T1)
    assert coordinator.entries["a"].partitions == {("t", 0), ("t", 1)}
    client.commit_offsets_in_transaction(producer, "g", {T0: GroupOffset(offset=5, metadata="m")})
    assert coordinator.offsets == {}
    client.end_transaction(producer, commit=True)
    assert coordinator.offsets == {("g", "t", 0): (5, "m")}
    client.end_transaction(producer, commit=True)
    with pytest.raises(InvalidTransactionStateError, match="abort the transaction of 'a'"):
        client.end_transaction(producer, commit=False)
    asked = broker.asked(ApiKey.TXN_OFFSET_COMMIT)[0]
    assert (asked.generation_id, asked.member_id, asked.group_instance_id) == (-1, "", None)


def test_adding_no_partitions_sends_no_request(client, broker):
    producer = TransactionalProducer(transactional_id="a", producer_id=1, producer_epoch=0)
    client.add_partitions_to_transaction(producer, [])
    assert broker.requests == []


def test_ending_waits_until_the_markers_are_written(client, coordinator, broker):
    producer = begin(client, "a", T0)
    coordinator.entries["a"].markers_left = 3
    client.end_transaction(producer, commit=True)
    assert coordinator.entries["a"].markers_left == 0
    assert len(broker.asked(ApiKey.DESCRIBE_TRANSACTIONS)) == 4


def test_missing_markers_are_reported(broker, coordinator):
    client = broker.client(delivery__timeout__ms=600)
    producer = begin(client, "a", T0)
    coordinator.entries["a"].markers_left = 10**6
    with pytest.raises(RequestTimedOutError, match="'a' are decided, but their markers were not written within 600 ms"):
        client.end_transaction(producer, commit=True)


def test_taking_over_an_id_aborts_its_transaction_and_fences_its_producer(client, coordinator):
    old = begin(client, "a", T0)
    new = begin(client, "a")
    assert new.producer_epoch > old.producer_epoch
    assert new.producer_id == old.producer_id
    for call in (
        lambda: client.add_partitions_to_transaction(old, [T0]),
        lambda: client.commit_offsets_in_transaction(old, "g", {T0: GroupOffset(offset=1)}),
        lambda: client.end_transaction(old, commit=True),
    ):
        with pytest.raises(ProducerFencedError):
            call()


def test_an_unknown_id_is_distinguished_from_one_with_another_producer(client):
    stranger = TransactionalProducer(transactional_id="nobody", producer_id=1, producer_epoch=0)
    with pytest.raises(UnknownTransactionalIdError, match="'nobody'"):
        client.add_partitions_to_transaction(stranger, [T0])
    begin(client, "a")
    other = TransactionalProducer(transactional_id="a", producer_id=1, producer_epoch=0)
    with pytest.raises(Exception, match="INVALID_PRODUCER_ID_MAPPING"):
        client.add_partitions_to_transaction(other, [T0])


def test_a_timeout_above_the_brokers_maximum_is_refused(client):
    with pytest.raises(InvalidTransactionTimeoutError, match=r"transaction.max.timeout.ms"):
        client.init_producer("a", timeout_ms=10**7)


def test_two_phase_commit_is_requested_only_if_the_broker_supports_it(client, broker):
    client.init_producer("a", is_two_phase=True)
    broker.versions[ApiKey.INIT_PRODUCER_ID] = (0, 5)
    broker.client().init_producer("a", is_two_phase=True)
    first, second = broker.asked(ApiKey.INIT_PRODUCER_ID)
    assert (first.__version__, first.enable2_pc) == (6, True)
    assert second.__version__ == 4


def test_several_transactions_end_with_the_first_one_first(client, coordinator, broker):
    driver, *tasks = (begin(client, name, T0) for name in ("driver", "task-1", "task-2"))
    client.end_transaction(driver, commit=True, together_with=tasks)
    assert [message.transactional_id for message in broker.asked(ApiKey.END_TXN)] == ["driver", "task-1", "task-2"]
    assert {entry.state for entry in coordinator.entries.values()} == {"CompleteCommit"}
    client.end_transaction(driver, commit=True, together_with=tasks)


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (lambda client, task: client.end_transaction(task, commit=False), InvalidTransactionStateError),
        (lambda client, task: begin(client, "task"), ProducerFencedError),
        (lambda client, task: client.abort_transaction("task"), ProducerFencedError),
    ],
)
def test_nothing_is_decided_if_one_of_several_is_unknown(client, coordinator, broker, spoil, kind):
    driver, task = begin(client, "driver", T0), begin(client, "task", T0)
    spoil(client, task)
    broker.requests.clear()
    with pytest.raises(kind, match="'task'"):
        client.end_transaction(driver, commit=True, together_with=[task])
    assert broker.asked(ApiKey.END_TXN) == []
    assert coordinator.entries["driver"].state == "Ongoing"


def test_nothing_is_decided_if_one_of_several_is_not_open(client, coordinator):
    driver, task = begin(client, "driver", T0), begin(client, "task")
    with pytest.raises(InvalidTransactionStateError, match="'task' is not open: its state is Empty"):
        client.end_transaction(driver, commit=True, together_with=[task])
    unknown = TransactionalProducer(transactional_id="nobody", producer_id=1, producer_epoch=0)
    with pytest.raises(UnknownTransactionalIdError, match="'nobody'"):
        client.end_transaction(driver, commit=True, together_with=[unknown])
    assert coordinator.entries["driver"].state == "Ongoing"


def test_aborting_without_an_open_transaction_succeeds_and_fences(client, coordinator):
    driver, task = begin(client, "driver"), begin(client, "task")
    client.end_transaction(driver, commit=False)
    client.end_transaction(driver, commit=False, together_with=[task])
    with pytest.raises(ProducerFencedError):
        client.add_partitions_to_transaction(task, [T0])


def test_each_end_bumps_the_epoch(client, coordinator, broker):
    producer = begin(client, "a", T0)
    client.end_transaction(producer, commit=True)
    assert coordinator.entries["a"].epoch == producer.producer_epoch + 1
    assert [message.__version__ for message in broker.asked(ApiKey.END_TXN)] == [5]
    with pytest.raises(ProducerFencedError):
        client.add_partitions_to_transaction(producer, [T0])


def test_an_older_cluster_keeps_the_epoch(old_client, coordinator, broker):
    producer = begin(old_client, "a", T0)
    old_client.end_transaction(producer, commit=True)
    old_client.end_transaction(producer, commit=True, together_with=[producer])
    assert coordinator.entries["a"].epoch == producer.producer_epoch
    assert {message.__version__ for message in broker.asked(ApiKey.END_TXN)} == {3}
    old_client.add_partitions_to_transaction(producer, [T0])
    idle = begin(old_client, "b")
    old_client.end_transaction(idle, commit=False)
    with pytest.raises(InvalidTransactionStateError):
        old_client.end_transaction(idle, commit=True)


def test_a_producer_with_a_rotated_id_is_recognized(client, coordinator, broker):
    driver, task = begin(client, "driver", T0), begin(client, "task", T0)
    entry = coordinator.entries["task"]
    entry.producer_id, entry.epoch, entry.state = 999, 0, "CompleteCommit"
    done = schema_of(ApiKey.END_TXN, 5).EndTxnResponse(throttle_time=NO_TIME, error_code=ErrorCode.none)
    broker.script(ApiKey.END_TXN, coordinator.end, done)
    for epoch, is_known in ((32_766, True), (32_765, True), (5, False)):
        last = TransactionalProducer(transactional_id="task", producer_id=task.producer_id, producer_epoch=epoch)
        if is_known:
            client.end_transaction(driver, commit=True, together_with=[last])
        else:
            with pytest.raises(ProducerFencedError):
                client.end_transaction(driver, commit=True, together_with=[last])


def test_a_failure_after_the_decision_is_reported_after_the_others_ended(client, coordinator, broker):
    driver, *tasks = (begin(client, name, T0) for name in ("driver", "task-1", "task-2"))

    def end_and_lose(request):
        answer = coordinator.end(request)
        coordinator.entries["task-1"].epoch += 2
        return answer

    broker.script(ApiKey.END_TXN, end_and_lose, coordinator.end)
    with pytest.raises(PartlyEndedError, match=r"'driver' was committed, but those of 'task-1' could not") as caught:
        client.end_transaction(driver, commit=True, together_with=tasks)
    assert caught.value.transactional_ids == ("task-1",)
    assert coordinator.entries["task-2"].state == "CompleteCommit"


def test_a_lost_response_to_an_end_is_retried(client, coordinator, broker):
    producer = begin(client, "a", T0)

    def end_and_hang_up(request):
        coordinator.end(request)
        return CLOSE

    broker.script(ApiKey.END_TXN, end_and_hang_up, coordinator.end)
    client.end_transaction(producer, commit=True)
    assert len(broker.asked(ApiKey.END_TXN)) == 2


@pytest.mark.parametrize("code", ["not_coordinator", "coordinator_load_in_progress", "concurrent_transactions"])
def test_requests_to_a_moved_loading_or_busy_coordinator_are_retried(client, coordinator, broker, code):
    producer = begin(client, "a", T0)
    busy = schema_of(ApiKey.END_TXN, 5).EndTxnResponse(throttle_time=NO_TIME, error_code=ErrorCode[code])
    broker.script(ApiKey.END_TXN, busy, busy, coordinator.end)
    looked_up = len(broker.asked(ApiKey.FIND_COORDINATOR))
    client.end_transaction(producer, commit=True)
    assert (len(broker.asked(ApiKey.FIND_COORDINATOR)) > looked_up) == (code == "not_coordinator")


def test_an_unknown_partition_is_refused_immediately(client, coordinator, broker):
    producer = begin(client, "a")
    schema = schema_of(ApiKey.ADD_PARTITIONS_TO_TXN, 3)

    def refuse(request):
        result = schema.AddPartitionsToTxnPartitionResult(
            partition_index=0, partition_error_code=ErrorCode.unknown_topic_or_partition
        )
        topic = schema.AddPartitionsToTxnTopicResult(name="nope", results_by_partition=(result,))
        return schema.AddPartitionsToTxnResponse(throttle_time=NO_TIME, results_by_topic_v3_and_below=(topic,))

    broker.script(ApiKey.ADD_PARTITIONS_TO_TXN, refuse)
    with pytest.raises(UnknownTopicError, match="'nope'"):
        client.add_partitions_to_transaction(producer, [TopicPartition("nope", 0)])


def test_abort_by_id_ends_only_an_open_transaction(client, coordinator):
    begin(client, "a", T0)
    assert client.abort_transaction("a") is True
    assert client.abort_transaction("a") is False
    with pytest.raises(UnknownTransactionalIdError, match="'nobody'"):
        client.abort_transaction("nobody")
