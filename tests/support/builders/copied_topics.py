"""Copies topics from one open log to another, and damages what is to be copied."""

from __future__ import annotations

from broker_core.log_copy.log_copy import LogCopy


def copy_topics(source, target, *topics, **how):
    job = LogCopy(source, target, **how)
    found = source.describe_topics(topics)
    return job.run(job.plan([found[topic] for topic in topics]), lambda partition, done, total: None)


def copy_topic(source, target, topic, **how):
    """Raises the topic's error."""
    result = copy_topics(source, target, topic, **how)
    for failure in result.failures:
        raise failure.error
    return result.partitions


def damage(folder, topic):
    """The last record of partition 0."""
    path = folder / f"{topic}-0" / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
