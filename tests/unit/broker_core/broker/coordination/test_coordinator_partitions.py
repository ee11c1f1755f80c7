"""The coordinators of two brokers of a cluster: of `__consumer_offsets`, of four partitions, each has two."""

import pytest
from kio.schema.errors import ErrorCode
from support.nodes.replicated_nodes import ReplicatedNodes

from broker_core.cluster import GroupOffset, TransactionalProducer
from broker_core.coordinator.key_partition import key_partition
from broker_core.group.classic.classic_messages import JoinProtocol, JoinRequest
from broker_core.group.offsets.offset_messages import CommitRequest, FetchRequest
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition
from broker_core.protocol.api_table import message_types
from broker_core.protocol.message_builder import build
from broker_core.record.control_records import EndTransactionMarker

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
T0 = TopicPartition("t", 0)
# By partition of four: Java's hash of a letter is its number.
GROUPS = ["d", "a", "b", "c"]
PRODUCER = ProducerIdAndEpoch(producer_id=7, producer_epoch=0)


@pytest.fixture
def brokers(tmp_path):
    assert [key_partition(group, 4) for group in GROUPS] == [0, 1, 2, 3]
    brokers = ReplicatedNodes(tmp_path, 2)
    for number in (1, 2):
        brokers[number].coordinate()
    brokers.create("t", replicas=(1, 2))
    return brokers


@pytest.fixture
def led(brokers):
    """Partitions 0 and 1 at broker 1, 2 and 3 at broker 2."""
    brokers.create(OFFSETS, leaders=(1, 1, 2, 2), replicas=(1, 2))
    return brokers


def commit(brokers, node_id, group, offset, *, is_carried=True, producer=None):
    """What it is answered, in a list."""
    node, answers = brokers[node_id], []
    request = CommitRequest(
        group_id=group, generation_id=-1, member_id="", group_instance_id=None, offsets={T0: GroupOffset(offset=offset)}
    )

    def event(coordinator, ticket, now_ms):
        on = coordinator.on_commit_offsets if producer is None else coordinator.on_txn_commit_offsets
        return on(ticket, request, now_ms)

    node.coordinators.groups.of(group).request(
        event,
        lambda reply: answers.append(reply.errors[T0]),
        lambda error: answers.append(error.error_code),
        producer=producer,
    )
    node.settle()
    if is_carried:
        brokers.exchange()
    return answers


def committed(brokers, node_id, group):
    """An offset, or the error; in a list, empty while it is not answered."""
    node, answers = brokers[node_id], []
    request = FetchRequest(group_id=group, partitions=(T0,))
    node.coordinators.groups.of(group).look(
        lambda coordinator: coordinator.fetch_offsets(request).offsets[T0].committed.offset,
        answers.append,
        lambda error: answers.append(error.error_code),
    )
    node.settle()
    return answers


def group_ids(brokers, node_id):
    found = []
    groups = brokers[node_id].coordinators.groups
    groups.look_all(
        lambda coordinator: coordinator.group_ids(), found.extend, lambda error: found.append(error.error_code)
    )
    return sorted(map(str, found))


def test_each_partition_has_its_coordinator_at_its_leader(led):
    for place, group in enumerate(GROUPS):
        leader, other = (1, 2) if place < 2 else (2, 1)
        assert commit(led, other, group, 5) == [ErrorCode.not_coordinator]
        assert commit(led, leader, group, 5) == [ErrorCode.none]
        assert committed(led, other, group) == [ErrorCode.not_coordinator]
        assert committed(led, leader, group) == [5]


def test_what_is_asked_of_all_comes_from_the_coordinators_that_are_here(led):
    for place, group in enumerate(GROUPS):
        commit(led, 1 if place < 2 else 2, group, 5)
    assert [group_ids(led, number) for number in (1, 2)] == [["a", "d"], ["b", "c"]]


def test_a_coordinator_moves_with_its_partition_and_the_others_stay_as_they_are(led):
    for place, group in enumerate(GROUPS):
        commit(led, 1 if place < 2 else 2, group, 5 + place)
    runtimes = {part.partition.partition: part.runtime for part in led[1].coordinators.groups.partitions}
    before = {number: runtimes[number]._load_count for number in (0, 1)}
    led.change(OFFSETS, 1, leader=2)
    led.exchange()
    assert committed(led, 1, "a") == [ErrorCode.not_coordinator]
    assert committed(led, 2, "a") == [6]
    assert committed(led, 1, "d") == [5]
    assert (runtimes[0]._load_count, runtimes[1]._load_count) == (before[0], before[1] + 1)
    assert [group_ids(led, number) for number in (1, 2)] == [["d"], ["a", "b", "c"]]
    assert commit(led, 2, "a", 60) == [ErrorCode.none]
    led.change(OFFSETS, 1, leader=1)
    led.exchange()
    assert committed(led, 1, "a") == [60]


def test_a_coordinator_that_is_given_up_keeps_no_state_and_no_timers(led):
    timers = led[1].timers
    timers.fire(led.clock.ms)
    idle = len(timers)
    joining = join(led, 1, "a")
    led.exchange()
    assert joining == []
    assert len(timers) > idle
    led.change(OFFSETS, 1, leader=2)
    led.clock.ms += 1
    timers.fire(led.clock.ms)
    assert joining == [ErrorCode.not_coordinator]
    assert len(timers) == idle - 1, "without its expiry"
    (runtime,) = [part.runtime for part in led[1].coordinators.groups.partitions if part.partition.partition == 1]
    assert runtime._loaded_state is None


def join(brokers, node_id, group):
    request = JoinRequest(
        group_id=group, session_timeout_ms=10_000, rebalance_timeout_ms=60_000, protocol_type="consumer",
        protocols=(JoinProtocol(name="range"),), requires_known_member_id=False,
    )  # fmt: skip
    answers = []
    brokers[node_id].coordinators.groups.of(group).request(
        lambda coordinator, ticket, now_ms: coordinator.on_join(ticket, request, now_ms),
        answers.append,
        lambda error: answers.append(error.error_code),
    )
    brokers[node_id].settle()
    return answers


def test_a_new_coordinator_tells_of_nothing_that_its_followers_may_not_have(led):
    """Broker 1 wrote a second offset that nobody else has heard to be committed: broker 2 has it, and leads. If it was
    lost again, whoever had been told of it would have been told of an offset that was never committed."""
    assert commit(led, 1, "a", 5) == [ErrorCode.none]
    assert commit(led, 1, "a", 6, is_carried=False) == []
    led.fetch(2)
    led.change(OFFSETS, 1, leader=2)
    assert led[2].replica(TopicPartition(OFFSETS, 1)).high_watermark < 2
    asked = committed(led, 2, "a")
    changed = commit(led, 2, "a", 7, is_carried=False)
    assert (asked, changed) == ([], [])
    led.exchange()
    assert (asked, changed) == ([6], [ErrorCode.none])
    assert committed(led, 2, "a") == [7]


def test_requests_do_not_wait_for_ever_for_the_followers_of_a_new_coordinator(led):
    commit(led, 1, "a", 5)
    commit(led, 1, "a", 6, is_carried=False)
    led.fetch(2)
    led.change(OFFSETS, 1, leader=2)
    asked = committed(led, 2, "a")
    led.clock.ms += 1_000
    led[2].timers.fire(led.clock.ms)
    assert asked == committed(led, 2, "a") == [ErrorCode.coordinator_load_in_progress]
    led.exchange()
    assert committed(led, 2, "a") == [6]


def test_requests_that_wait_are_refused_when_the_partition_moves_on(led):
    commit(led, 1, "a", 5)
    commit(led, 1, "a", 6, is_carried=False)
    led.fetch(2)
    led.change(OFFSETS, 1, leader=2)
    asked = committed(led, 2, "a")
    led.change(OFFSETS, 1, leader=1)
    assert asked == [ErrorCode.not_coordinator]


def test_before_a_broker_knows_the_topic_it_is_no_coordinator_and_skips_no_marker(brokers):
    """It may have been created, and have records of the transaction: a marker that is skipped is never written, and
    the offsets are pending for ever."""
    assert committed(brokers, 1, "a") == commit(brokers, 1, "a", 5) == [ErrorCode.not_coordinator]
    assert group_ids(brokers, 1) == []
    told = []
    brokers[1].coordinators.transactions.write_marker(
        TopicPartition(OFFSETS, 1),
        PRODUCER,
        EndTransactionMarker(is_commit=True, coordinator_epoch=0),
        on_done=lambda: told.append("written"),
        on_error=lambda error: told.append(error.error_code),
    )
    assert told == [ErrorCode.not_coordinator]
    assert brokers[1].controller.asked == []


def test_a_transaction_waits_until_its_coordinator_knows_the_topic_of_its_offsets(brokers):
    brokers.create(TRANSACTIONS, leaders=(1, 1, 1, 1), replicas=(1, 2))
    service = brokers[1].coordinators.transactions.of("x")
    producer = begun(brokers, service)
    ended = []
    service.add_partitions(
        producer, [TopicPartition(OFFSETS, 1)], client_version=2, on_done=lambda: None, on_error=pytest.fail
    )
    brokers.exchange()
    service.end(producer, commit=True, client_version=2, on_reply=ended.append, on_error=pytest.fail)
    brokers.exchange()
    assert len(ended) == 1
    assert state(service) == "PrepareCommit"
    brokers.create(OFFSETS, leaders=(1, 1, 2, 2), replicas=(1, 2))
    brokers.clock.ms += 1_000
    brokers[1].timers.fire(brokers.clock.ms)
    brokers.exchange()
    assert state(service) == "CompleteCommit"
    assert brokers[1].replica(TopicPartition(OFFSETS, 1)).producer_entries()[producer.producer_id].producer_epoch == 1


def begun(brokers, service, transactional_id="x"):
    """A producer, initialised by the controller's first block of ids."""
    given = []
    service.init_producer_id(
        transactional_id, timeout_ms=60_000, expected=None, on_reply=given.append, on_error=pytest.fail
    )
    for message, on_answer, _ in brokers[1].controller.asked:
        if hasattr(message, "broker_epoch") and not given:
            on_answer(block_of_ids())
    brokers[1].settle()
    brokers.exchange()
    (instance,) = given
    return TransactionalProducer(
        transactional_id=transactional_id, producer_id=instance.producer_id, producer_epoch=instance.producer_epoch
    )


def block_of_ids():
    return build(message_types(67, 0).response, {"producer_id_start": 1000, "producer_id_len": 1000})


def state(service):
    found = []
    service.value_of("x", found.append, found.append)
    return found[0].state.label


def test_the_epoch_of_a_coordinator_is_that_of_its_partition(brokers):
    brokers.create(TRANSACTIONS, leaders=(1, 1, 1, 1), replicas=(1, 2))
    number = key_partition("x", 4)
    for _ in range(2):
        brokers.change(TRANSACTIONS, number, leader=2)
        brokers.change(TRANSACTIONS, number, leader=1)
    epochs = {}
    for part in brokers[1].coordinators.transactions.partitions:
        part.runtime.look(
            lambda coordinator, part=part: epochs.update({part.partition.partition: coordinator._coordinator_epoch}),
            lambda _: None,
            pytest.fail,
        )
    assert epochs[number] == 4
    assert {epoch for place, epoch in epochs.items() if place != number} == {0}
