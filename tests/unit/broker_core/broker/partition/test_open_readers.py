from support.builders.builders import a_batch
from support.nodes.replica_builders import ReplicaNode, offsets_read

from broker_core.broker.partition.open_readers import OpenReaders
from broker_core.model.identifiers import TopicPartition


def test_the_least_recently_used_partition_is_closed_and_reopened_on_demand(tmp_path):
    node = ReplicaNode(tmp_path / "log", max_open_count=2)
    node.create(partition_count=4)
    replicas = [node.replica(TopicPartition("t", number)) for number in range(4)]
    for number in range(4):
        node.append(a_batch(number + 1), partition=TopicPartition("t", number))
    node.jobs.run_all()
    for _ in range(2):
        assert [offsets_read(replica)[-1] for replica in replicas] == [0, 1, 2, 3]
    node.crash()


def test_open_partitions_are_bounded_and_a_dropped_one_is_reopened(tmp_path):
    node = ReplicaNode(tmp_path / "log")
    node.create(partition_count=3)
    readers = OpenReaders(node.fs, node.directory.access, max_count=2)
    replica = node.replica()

    def get(number):
        return readers.get(TopicPartition("t", number), topic_id=replica.topic_id, config=replica.config)

    first = get(0)
    assert get(0) is first
    get(1), get(0), get(2)
    assert len(readers) == 2
    assert get(0) is first
    readers.drop(TopicPartition("t", 0))
    readers.drop(TopicPartition("t", 0))
    assert get(0) is not first
    readers.close()
    assert len(readers) == 0
    node.crash()
