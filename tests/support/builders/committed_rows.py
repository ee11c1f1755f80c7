"""What a read-committed reader of any Cluster sees."""

from broker_core.model.identifiers import IsolationLevel, TopicPartition
from broker_core.record.columns import ALL_COLUMNS, AbortedFilter, decode


def committed_rows(cluster, topic):
    """Every readable record as a dict of its columns and `partition`, partition by partition in offset order."""
    found = cluster.describe_topics([topic])
    count = found[topic].partition_count if topic in found else 0
    return [row for number in range(count) for row in _rows_of(cluster, TopicPartition(topic, number))]


def committed_values(cluster, topic):
    return [row["value"] for row in committed_rows(cluster, topic)]


def _rows_of(cluster, partition):
    offset = cluster.bounds(partition).log_start_offset
    hidden = AbortedFilter()
    while True:
        fetched = cluster.fetch(partition, offset, max_bytes=1 << 26, isolation=IsolationLevel.READ_COMMITTED)
        if not fetched.buffer:
            return
        hidden.add(fetched.aborted_transactions)
        rows = decode(
            fetched.buffer,
            from_offset=offset,
            until_offset=fetched.bounds.last_stable_offset,
            columns=ALL_COLUMNS,
            aborted=hidden,
        ).record_batch
        yield from ({**row, "partition": partition.partition} for row in rows.to_pylist())
        offset = fetched.next_offset
