"""Topics at the brokers that are compared, by librdkafka: the same client for both."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

SECONDS = 60
_QUIET = {"log_level": 3}


def create_topic(bootstrap: str, name: str, partition_count: int, **config: str) -> None:
    """Without retention, and once it is there its leaders can be asked."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
    new = NewTopic(name, num_partitions=partition_count, replication_factor=1, config={"retention.ms": "-1", **config})
    admin.create_topics([new], request_timeout=SECONDS)[name].result(SECONDS)
    deadline = time.monotonic() + SECONDS
    while not _all_lead(admin, name, partition_count):
        if time.monotonic() > deadline:
            raise RuntimeError(f"topic {name} of {partition_count} partitions has no leaders after {SECONDS} s")
        time.sleep(0.05)


def delete_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient(
        {"bootstrap.servers": bootstrap, **_QUIET}
    )  # gives up what it waits for when it goes out of scope
    admin.delete_topics([name])[name].result(SECONDS)


def end_offsets(bootstrap: str, topic: str) -> list[int]:
    """Of each partition, in their order."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", **_QUIET})
    try:
        found = consumer.list_topics(topic, SECONDS).topics[topic].partitions
        return [
            consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=SECONDS)[1]
            for number in sorted(found)
        ]
    finally:
        consumer.close()


def check_end_offsets(bootstrap: str, topic: str, count: int) -> None:
    """Raises AssertionError unless they add up to so many records."""
    ends = end_offsets(bootstrap, topic)
    assert sum(ends) == count, f"end offsets {ends} are not {count} records"


def _all_lead(admin: AdminClient, name: str, partition_count: int) -> bool:
    try:
        found = admin.list_topics(name, timeout=SECONDS).topics[name].partitions
    except KafkaException:
        return False
    return len(found) == partition_count and all(one.leader >= 0 and one.error is None for one in found.values())
