"""Verification and markers over the network, with a port that keeps what it is asked."""

import pytest
from kio.schema.errors import ErrorCode
from support.nodes.replica_builders import HandClock

from broker_core.broker.cluster.cluster_transactions import ClusterTransactions
from broker_core.broker.cluster_view import PartitionLeadership
from broker_core.broker.timer_queue import TimerQueue
from broker_core.cluster import TransactionalProducer
from broker_core.model.exceptions import BrokerUnavailableError
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition
from broker_core.protocol.api_table import message_types
from broker_core.protocol.message_builder import build
from broker_core.record.control_records import EndTransactionMarker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PRODUCER = TransactionalProducer(transactional_id="x", producer_id=7, producer_epoch=2)
MARKER = EndTransactionMarker(is_commit=True, coordinator_epoch=4)


class Members:
    node_id = 1

    def __init__(self):
        self.coordinator_id, self.leader_id, self.replica_ids = 2, 3, ()

    def coordinator_of(self, topic, key):
        if self.coordinator_id is None:
            raise KeyError(topic)
        return self.coordinator_id

    def leader_of(self, partition):
        return PartitionLeadership(
            leader_id=self.leader_id, leader_epoch=0, replica_ids=self.replica_ids, in_sync_ids=()
        )


class AskedBrokers:
    def __init__(self):
        self.asked = []

    def ask(self, broker_id, message, on_answer, on_error):
        self.asked.append((broker_id, message, on_answer, on_error))


class Scene:
    def __init__(self):
        self.brokers, self.members, self.timers, self.clock = AskedBrokers(), Members(), TimerQueue(), HandClock()
        self.transactions = ClusterTransactions(self.brokers, self.members, self.timers, self.clock)
        self.ready, self.errors = [], []

    def admit(self, *, adds=False):
        self.transactions.admit(
            PRODUCER,
            [T0, T1],
            adds=adds,
            on_ready=self.ready.append,
            on_error=lambda e: self.errors.append(e.error_code),
        )

    def answer(self, *codes, of_all=ErrorCode.none):
        _, message, on_answer, _ = self.brokers.asked[-1]
        (transaction,) = message.transactions
        partitions = [{"partition_index": number, "partition_error_code": code} for number, code in enumerate(codes)]
        results = [
            {
                "transactional_id": transaction.transactional_id,
                "topic_results": [{"name": "t", "results_by_partition": partitions}],
            }
        ]
        values = {"error_code": of_all, "results_by_transaction": results if codes else []}
        on_answer(build(message_types(24, 5).response, values))


@pytest.fixture
def scene():
    return Scene()


@pytest.mark.parametrize(("coordinator_id", "is_elsewhere"), [(2, True), (1, False), (-1, False), (None, False)])
def test_an_id_is_verified_over_the_network_if_another_broker_has_its_coordinator(scene, coordinator_id, is_elsewhere):
    scene.members.coordinator_id = coordinator_id
    assert scene.transactions.has_coordinator_of("x") is is_elsewhere


@pytest.mark.parametrize("adds", [False, True])
def test_the_coordinator_is_asked_for_the_partitions_of_the_append(scene, adds):
    scene.admit(adds=adds)
    ((broker_id, message, _, _),) = scene.brokers.asked
    (asked,) = message.transactions
    assert (broker_id, asked.transactional_id, asked.producer_id, asked.producer_epoch) == (2, "x", 7, 2)
    assert (asked.verify_only, asked.topics[0].name, asked.topics[0].partitions) == (not adds, "t", (0, 1))
    scene.answer(ErrorCode.none, ErrorCode.none)
    assert (scene.ready, scene.errors) == ([frozenset()], [])


def test_partitions_outside_the_transaction_are_told(scene):
    scene.admit()
    scene.answer(ErrorCode.none, ErrorCode.transaction_abortable)
    assert scene.ready == [frozenset({T1})]


def test_an_append_whose_transaction_was_ended_while_it_was_verified_is_not_made(scene):
    # It would follow its marker, and block readers for ever.
    scene.admit()
    scene.transactions.on_marker(T1, 7)
    scene.answer(ErrorCode.none, ErrorCode.none)
    assert (scene.ready, scene.errors) == ([], [ErrorCode.coordinator_not_available])


def test_a_marker_of_another_producer_or_after_the_append_is_no_obstacle(scene):
    scene.admit()
    scene.transactions.on_marker(T1, 8)
    scene.answer(ErrorCode.none, ErrorCode.none)
    scene.transactions.on_marker(T1, 7)
    assert scene.ready == [frozenset()]


@pytest.mark.parametrize(
    ("codes", "of_all", "error"),
    [
        ((ErrorCode.invalid_producer_epoch,) * 2, ErrorCode.none, ErrorCode.invalid_producer_epoch),
        ((ErrorCode.producer_fenced,) * 2, ErrorCode.none, ErrorCode.invalid_producer_epoch),
        ((ErrorCode.invalid_producer_id_mapping,) * 2, ErrorCode.none, ErrorCode.invalid_producer_id_mapping),
        ((ErrorCode.concurrent_transactions,) * 2, ErrorCode.none, ErrorCode.concurrent_transactions),
        ((ErrorCode.not_coordinator,) * 2, ErrorCode.none, ErrorCode.coordinator_not_available),
        (
            (ErrorCode.unknown_topic_or_partition, ErrorCode.operation_not_attempted),
            ErrorCode.none,
            ErrorCode.coordinator_not_available,
        ),
        ((), ErrorCode.cluster_authorization_failed, ErrorCode.coordinator_not_available),
    ],
)
def test_a_refusal_of_the_coordinator_is_that_of_the_append(scene, codes, of_all, error):
    scene.admit()
    scene.answer(*codes, of_all=of_all)
    assert (scene.ready, scene.errors) == ([], [error])


def test_a_coordinator_that_does_not_answer_is_not_available(scene):
    scene.admit()
    _, _, _, on_error = scene.brokers.asked[0]
    on_error(BrokerUnavailableError("gone", address=""))
    assert scene.errors == [ErrorCode.coordinator_not_available]


def test_an_append_that_adds_partitions_waits_a_second_for_the_end_of_the_last_transaction(scene):
    scene.admit(adds=True)
    for _ in range(50):
        scene.answer(ErrorCode.concurrent_transactions, ErrorCode.concurrent_transactions)
        scene.clock.ms += 20
        scene.timers.fire(scene.clock.ms)
        assert scene.errors == []
    assert len(scene.brokers.asked) == 51
    scene.answer(ErrorCode.concurrent_transactions, ErrorCode.concurrent_transactions)
    assert scene.errors == [ErrorCode.concurrent_transactions]


def write(scene, told):
    producer = ProducerIdAndEpoch(producer_id=7, producer_epoch=2)
    scene.transactions.write_marker(
        T0, producer, MARKER, lambda: told.append("done"), lambda e: told.append(e.error_code)
    )


def marker_answer(code):
    partitions = [{"partition_index": 0, "error_code": code}]
    markers = [{"producer_id": 7, "topics": [{"name": "t", "partitions": partitions}]}]
    return build(message_types(27, 1).response, {"markers": markers})


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.none, "done"),
        (ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_or_partition),
        (ErrorCode.invalid_producer_epoch, ErrorCode.invalid_producer_epoch),
        (ErrorCode.not_leader_or_follower, ErrorCode.coordinator_not_available),
    ],
)
def test_a_marker_is_written_by_the_partitions_leader(scene, code, told):
    heard = []
    write(scene, heard)
    ((broker_id, message, on_answer, _),) = scene.brokers.asked
    (asked,) = message.markers
    assert (broker_id, asked.producer_id, asked.producer_epoch, asked.transaction_result) == (3, 7, 2, True)
    assert (asked.coordinator_epoch, asked.topics[0].name, asked.topics[0].partition_indexes) == (4, "t", (0,))
    on_answer(marker_answer(code))
    assert heard == [told]


@pytest.mark.parametrize("leader_id", [-1, 1])
def test_a_marker_waits_while_the_partition_has_no_other_leader(scene, leader_id):
    scene.members.leader_id, heard = leader_id, []
    write(scene, heard)
    assert (heard, scene.brokers.asked) == ([ErrorCode.coordinator_not_available], [])


def test_a_marker_is_tried_again_at_a_broker_that_does_not_know_a_topic_which_is_there(scene):
    # A marker that is skipped leaves the transaction open in that partition.
    scene.members.replica_ids, heard = (3,), []
    write(scene, heard)
    ((_, _, on_answer, _),) = scene.brokers.asked
    on_answer(marker_answer(ErrorCode.unknown_topic_or_partition))
    assert heard == [ErrorCode.coordinator_not_available]
