from prometheus_client import CollectorRegistry

from broker_core.model.identifiers import TopicPartition
from broker_core.server.node_metrics import NodeReading, PartitionReading, ReadingCollector


def partition(number, *, start=2, end=10, is_offline=False):
    return PartitionReading(
        partition=TopicPartition("t", number), log_start_offset=start, log_end_offset=end, is_offline=is_offline,
        size_bytes=lambda: 1234,
    )  # fmt: skip


def samples(reading):
    registry = CollectorRegistry()
    registry.register(ReadingCollector(reading))
    return lambda name, **labels: registry.get_sample_value(name, labels)


def test_partition_sizes_and_offsets_are_exported():
    value = samples(NodeReading(partitions=(partition(0), partition(1, is_offline=True))))
    assert value("kafka_log_size_bytes", topic="t", partition="0") == 1234
    assert value("kafka_log_start_offset", topic="t", partition="0") == 2
    assert value("kafka_log_end_offset", topic="t", partition="0") == 10
    assert value("kafka_log_size_bytes", topic="t", partition="1") is None
    assert (value("kafka_server_partition_count"), value("kafka_server_offline_partition_count")) == (2, 1)


def test_group_lag_is_exported():
    offsets = (("g", TopicPartition("t", 0), 7), ("h", TopicPartition("t", 0), 12), ("g", TopicPartition("gone", 0), 1))
    value = samples(NodeReading(partitions=(partition(0),), group_offsets=offsets))
    assert value("kafka_consumergroup_lag", group="g", topic="t", partition="0") == 3
    assert value("kafka_consumergroup_lag", group="h", topic="t", partition="0") == 0
    assert value("kafka_consumergroup_lag", group="g", topic="gone", partition="0") is None


def test_parked_requests_and_connections_are_exported():
    value = samples(
        NodeReading(
            parked=(("Fetch", 3),), connections=(("SSL", 2),), unsent_answer_bytes=5, unsynced_bytes=6, jobs=1,
            is_ready=True,
        )
    )  # fmt: skip
    assert value("kafka_server_purgatory_size", operation="Fetch") == 3
    assert value("kafka_server_connection_count", listener="SSL") == 2
    assert value("kafka_server_unsent_response_bytes") == 5
    assert value("kafka_server_unsynced_append_bytes") == 6
    assert value("kafka_server_unfinished_jobs") == 1
    assert value("kafka_server_ready") == 1
