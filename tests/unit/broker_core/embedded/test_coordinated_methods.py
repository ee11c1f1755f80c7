import os

import pytest
from support.clients.transacting import begin, committed, init, is_settled, write

from broker_core.cluster import Cluster, GroupDescription, GroupOffset
from broker_core.embedded.blocked_readers import ASKED_EVERY_MS
from broker_core.embedded.coordinated_methods import CoordinatedMethods
from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.model.group_state import GroupState
from broker_core.model.identifiers import IsolationLevel, OffsetSpec, ProducerIdAndEpoch, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_every_transaction_and_group_method_of_cluster_exists():
    names = {
        name
        for name in vars(Cluster)
        if any(word in name for word in ("transaction", "group", "offsets", "producer", "ends_"))
    } - {"list_offsets"}
    assert {name for name in vars(CoordinatedMethods) if not name.startswith("_")} == names
    as_promised: Cluster = EmbeddedCluster.__new__(EmbeddedCluster)
    assert as_promised is not None


def test_without_a_transactional_id_a_producer_gets_a_fresh_id_of_epoch_0(cluster):
    first, second = cluster.init_producer(), cluster.init_producer()
    assert first == ProducerIdAndEpoch(producer_id=0, producer_epoch=0)
    assert second.producer_id == 1
    assert cluster.list_transactions() == ()


def test_a_group_with_offsets_is_empty_and_otherwise_dead(cluster):
    assert cluster.describe_group("g") == GroupDescription(group_id="g", state=GroupState.DEAD)
    cluster.commit_offsets("g", {T0: GroupOffset(offset=0)})
    assert cluster.describe_group("g") == GroupDescription(group_id="g", state=GroupState.EMPTY)
    cluster.delete_group("g")
    assert cluster.describe_group("g").state is GroupState.DEAD


@pytest.mark.parametrize(
    "look",
    [
        lambda c: c.list_offsets({T0: OffsetSpec.LATEST}, IsolationLevel.READ_COMMITTED)[T0].offset,
        lambda c: c.bounds(T0).last_stable_offset,
        lambda c: c.fetch(T0, 0, max_bytes=10**6, isolation=IsolationLevel.READ_COMMITTED).next_offset,
    ],
)
def test_a_reader_blocked_by_a_dead_writer_continues_after_its_next_check(cluster, clock, look):
    with EmbeddedCluster(cluster.path, clock=clock) as dead:
        write(dead, begin(dead, "id", T0, timeout_ms=1000), T0, "x")
    assert look(cluster) == 0
    clock.time_ms += 1000
    assert look(cluster) == 2
    assert is_settled(cluster, T0)


def test_a_read_uncommitted_listing_checks_no_transactions(cluster, clock):
    write(cluster, begin(cluster, "id", T0, timeout_ms=1), T0, "x")
    clock.time_ms += 1
    assert cluster.list_offsets({T0: OffsetSpec.LATEST})[T0].offset == 1


def test_a_listing_of_many_partitions_is_repeated_as_a_whole(cluster, clock):
    producer = begin(cluster, "id", T0, T1, timeout_ms=1000)
    write(cluster, producer, T0, "x")
    write(cluster, producer, T1, "y")
    clock.time_ms += ASKED_EVERY_MS + 1000
    found = cluster.list_offsets(dict.fromkeys([T0, T1], OffsetSpec.LATEST), IsolationLevel.READ_COMMITTED)
    assert [found[T0].offset, found[T1].offset] == [2, 2]


def test_a_forked_child_can_run_its_own_transactions(cluster):
    mine = begin(cluster, "parent", T0)
    write(cluster, mine, T0, "parent")
    child = os.fork()
    if child == 0:
        try:
            producer = begin(cluster, "child", T0)
            write(cluster, producer, T0, "child")
            cluster.commit_offsets_in_transaction(producer, "group", {T0: GroupOffset(offset=1)})
            cluster.end_transaction(producer, commit=True)
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    write(cluster, mine, T0, "parent again", base_sequence=1)
    cluster.end_transaction(mine, commit=True)
    assert committed(cluster, T0) == ["parent", "child", "parent again"]
    assert cluster.fetch_offsets("group")[T0].offset == 1
    assert init(cluster, "child").producer_epoch == 2
