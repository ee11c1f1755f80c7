import pytest
from golden_data import unpack
from support.clients.transacting import SetClock, begin, init, write

from broker_core.cluster import GroupOffset
from broker_core.coordinator.stored_records import events_of
from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.embedded.internal_records import offsets_in, partitions_of, transactions_in
from broker_core.log_directory.internal_topics import CONSUMER_OFFSETS_PARTITION, TRANSACTION_STATE_PARTITION
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_name import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC

T0 = TopicPartition("t", 0)


@pytest.fixture
def cluster(tmp_path):
    with EmbeddedCluster(tmp_path / "log", create=True, clock=SetClock()) as opened:
        opened.create_topic("t")
        yield opened


def replayed_one_by_one(cluster, partition, state):
    """Every record of the log, in order: what a log that is followed from its first record adds up to."""
    machine, offset = state.kind.begin(), 0
    while offset < cluster.bounds(partition).high_watermark:
        fetched = cluster.fetch(partition, offset, max_bytes=10**6)
        for event in events_of(fetched.buffer, from_offset=offset):
            state.kind.replay_event(machine, event)
        offset = fetched.next_offset
    return machine


def loaded(state):
    state.refresh()
    return state.look(lambda machine: machine)


def a_life(cluster):
    """Transactions of every end, and offsets committed plainly, inside of them, and rolled back."""
    for number in range(30):
        producer = begin(cluster, f"id-{number % 7}", T0)
        write(cluster, producer, T0, "x")
        cluster.commit_offsets_in_transaction(producer, f"group-{number % 3}", {T0: GroupOffset(offset=number)})
        if number % 5 == 1:
            cluster.commit_offsets(f"group-{number % 3}", {T0: GroupOffset(offset=1000 + number)})
        cluster.end_transaction(producer, commit=number % 4 != 3)
        if number % 11 == 10:
            cluster.delete_group(f"group-{number % 3}")
    left = init(cluster, "left open")
    cluster.commit_offsets_in_transaction(left, "group-0", {T0: GroupOffset(offset=7)})


def test_a_loaded_state_matches_a_followed_one(cluster):
    a_life(cluster)
    opened = cluster._opened()
    for partition, make in ((TRANSACTION_STATE_PARTITION, transactions_in), (CONSUMER_OFFSETS_PARTITION, offsets_in)):
        state = make(opened.access, opened.catalog, 0)
        plain = replayed_one_by_one(cluster, partition, state)
        assert vars(loaded(state)) == vars(plain)
    with EmbeddedCluster(cluster.path, clock=SetClock()) as other:
        assert other.list_transactions() == cluster.list_transactions()
        assert other.list_groups() == cluster.list_groups()


def test_loading_and_following_give_the_same_state_for_kafkas_logs(tmp_path):
    with EmbeddedCluster(unpack(tmp_path) / "log") as golden:
        opened = golden._opened()
        counts = {}
        for topic, make in ((TRANSACTION_STATE_TOPIC, transactions_in), (CONSUMER_OFFSETS_TOPIC, offsets_in)):
            counts[topic] = len(list(partitions_of(opened.catalog, topic)))
            for number in partitions_of(opened.catalog, topic):
                state = make(opened.access, opened.catalog, number)
                plain = replayed_one_by_one(golden, TopicPartition(topic, number), state)
                assert vars(loaded(state)) == vars(plain)
        assert all(counts.values())
        assert list(partitions_of(opened.catalog, "none")) == []
