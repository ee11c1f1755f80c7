"""What a broker stores, batch by batch, read over the wire without any client's decoding."""

import time

from broker_core.model.identifiers import TopicPartition
from broker_core.record.batch_reader import iter_headers


def stored_headers(broker, topic, partition=0):
    """The headers of a partition's batches, markers too."""
    found, offset = [], 0
    with broker.client() as client:
        where = TopicPartition(topic, partition)
        while True:
            fetched = client.fetch(where, offset, max_bytes=2**22)
            if not len(fetched.buffer):
                return found
            found += [header for _, header in iter_headers(fetched.buffer)]
            offset = fetched.next_offset


def wait_for_markers(broker, topic):
    """Until no transaction of the topic is open: Kafka answers the end of one before its markers are written."""
    deadline = time.monotonic() + 20
    with broker.client() as client:
        for number in range(client.describe_topics([topic])[topic].partition_count):
            while True:
                bounds = client.bounds(TopicPartition(topic, number))
                if bounds.last_stable_offset == bounds.high_watermark:
                    break
                assert time.monotonic() < deadline, f"{topic}-{number} has an open transaction: {bounds}"
                time.sleep(0.01)
