import pytest
from support.nodes.replica_builders import ReplicaNode

from broker_core.broker.coordination.append_admission import AppendAdmission
from broker_core.broker.coordination.coordinator_runtime import CoordinatorRuntime
from broker_core.broker.coordination.internal_topic import InternalTopic
from broker_core.cluster import TransactionalProducer
from broker_core.log_directory.internal_topics import TRANSACTION_STATE_PARTITION
from broker_core.model.exceptions import ConcurrentTransactionsError, CoordinatorNotAvailableError, ProducerFencedError
from broker_core.model.identifiers import TopicPartition
from broker_core.txn.transaction_coordinator import TransactionCoordinator
from broker_core.txn.transaction_log import transactions_kind

T0 = TopicPartition("t", 0)


class AdmissionNode(ReplicaNode):
    """With a producer of epoch 0 whose transaction, if `is_ending`, is decided and not complete."""

    def __init__(self, path):
        super().__init__(path)
        self.runtime = CoordinatorRuntime(
            transactions_kind(TRANSACTION_STATE_PARTITION, TransactionCoordinator),
            InternalTopic(TRANSACTION_STATE_PARTITION, self.topics, self.replicas),
            self.jobs,
            self.timers,
            self.clock,
        )
        self.runtime.load()
        self.admission = AppendAdmission(self.runtime, self.timers, self.clock)
        self.runtime.on_loaded(self.admission.wake_all)
        self.told = []
        self.change(
            lambda coordinator: coordinator.plan_init_producer(
                "x", timeout_ms=1000, is_two_phase=False, new_producer_id=lambda: 7, now_ms=0
            )
        )

    def change(self, plan):
        self.runtime.change(plan, lambda _: None, self.told.append)
        self.jobs.run_all()

    def add(self, epoch=0):
        producer = TransactionalProducer(transactional_id="x", producer_id=7, producer_epoch=epoch)
        self.admission.add(producer, [T0], lambda: self.told.append("ready"), self.told.append)

    def decide(self):
        self.add()
        producer = TransactionalProducer(transactional_id="x", producer_id=7, producer_epoch=0)
        self.change(
            lambda coordinator: coordinator.plan_end([producer], commit=True, new_producer_id=lambda: 8, now_ms=0)
        )
        self.told.clear()

    def complete(self):
        self.change(lambda coordinator: coordinator.plan_complete(coordinator.ending(), now_ms=0))
        self.admission.wake("x")
        self.jobs.run_all()


@pytest.fixture
def node(tmp_path):
    return AdmissionNode(tmp_path / "log")


def test_a_verified_producer_is_admitted_once_its_state_is_durable(node):
    node.add()
    assert node.told == []
    node.jobs.run_all()
    assert node.told == ["ready"]


def test_a_refused_producer_is_answered_immediately(node):
    node.add(epoch=3)
    assert [type(each) for each in node.told] == [ProducerFencedError]


def test_during_an_end_a_write_waits_for_its_completion(node):
    node.decide()
    node.add(epoch=1)
    node.jobs.run_all()
    assert node.told == []
    node.complete()
    assert node.told == ["ready"]
    node.fire_timers(10_000)
    assert node.told == ["ready"]


def test_the_wait_for_a_completion_is_bounded(node):
    node.decide()
    node.add(epoch=1)
    node.clock.ms += 999
    node.timers.fire(node.clock.ms)
    assert node.told == []
    node.clock.ms += 1
    node.timers.fire(node.clock.ms)
    assert [type(each) for each in node.told] == [ConcurrentTransactionsError]
    node.complete()
    assert len(node.told) == 1, "a request is answered twice"


def test_a_lost_coordinator_answers_every_waiting_request_once(node):
    node.decide()
    node.fs.refuse("sync", "__transaction_state-0/00000000000000000000.log")
    node.runtime.change(
        lambda coordinator: coordinator.plan_complete(coordinator.ending(), now_ms=0), lambda _: None, lambda _: None
    )
    node.add(epoch=1)
    node.jobs.run_all()
    assert node.fs.refused == 1
    node.complete()
    node.fire_timers(10_000)
    assert [type(each) for each in node.told] == [CoordinatorNotAvailableError]
