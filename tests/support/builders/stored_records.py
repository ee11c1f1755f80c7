"""What a log directory holds, read without Spark: the sinks' tests judge by it."""

from support.builders.committed_rows import committed_rows

from broker_core.cluster import TopicDescription
from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.identifiers import IsolationLevel, TopicPartition
from broker_core.record.batch_reader import iter_headers


def stored_records(log_dir, topic):
    """Every record that a read-committed reader sees, as a dict of its columns and `partition`, partition by partition
    in offset order.
    """
    cluster = open_embedded(log_dir, create=True)  # reading makes nothing: absent is empty
    try:
        return committed_rows(cluster, topic)
    finally:
        cluster.close()


def stored_values(log_dir, topic):
    return [row["value"] for row in stored_records(log_dir, topic)]


def stored_headers(log_dir, topic):
    """Every batch header of a topic, without markers."""
    headers = [header for buffer in _buffers(log_dir, topic) for _, header in iter_headers(buffer)]
    return [header for header in headers if not header.is_control]


def make_topic(log_dir, name, **settings) -> TopicDescription:
    cluster = open_embedded(log_dir, create=True)
    try:
        return cluster.create_topic(name, **settings)
    finally:
        cluster.close()


def topics_of(log_dir):
    """Partition counts by name, without internal topics."""
    cluster = open_embedded(log_dir, create=True)  # reading makes nothing: absent is empty
    try:
        return {t.name: t.partition_count for t in cluster.describe_topics().values() if not t.is_internal}
    finally:
        cluster.close()


def _buffers(log_dir, topic):
    cluster = open_embedded(log_dir, create=True)  # reading makes nothing: absent is empty
    try:
        found = cluster.describe_topics([topic])
        for number in range(found[topic].partition_count if topic in found else 0):
            where = TopicPartition(topic, number)
            offset = 0
            end = cluster.bounds(where).log_end_offset
            while offset < end:
                fetched = cluster.fetch(where, offset, max_bytes=1 << 26, isolation=IsolationLevel.READ_UNCOMMITTED)
                yield bytes(fetched.buffer)
                offset = fetched.next_offset
    finally:
        cluster.close()
