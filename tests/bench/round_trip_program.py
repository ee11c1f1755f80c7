"""One record at a time: produced and acknowledged, then consumed; the milliseconds of each, by librdkafka."""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time

from bench.row_values import value_of
from confluent_kafka import Consumer, Producer, TopicPartition

SECONDS = 60
SETTLING = 100
"""Records that are not timed: the first ones connect."""


def main(bootstrap: str, topic: str, count: int, size: int, fetch_wait_ms: int) -> dict[str, float]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": fetch_wait_ms,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    times = []
    for number in range(SETTLING + count):
        value = value_of(number, size)
        begin = time.perf_counter()
        producer.produce(topic, value, partition=0)
        left = producer.flush(SECONDS)
        message = consumer.poll(SECONDS)
        times.append((time.perf_counter() - begin) * 1000)
        assert not left and message is not None, f"record {number} did not come within {SECONDS} s"
        assert message.error() is None, message.error()
        assert (message.offset(), message.value()) == (number, value), f"another record than {number}"
    consumer.close()
    times = sorted(times[SETTLING:])
    return {
        "average": statistics.mean(times),
        "p50": statistics.median(times),
        "p99": times[int(len(times) * 0.99)],
        "sent": SETTLING + count,
    }


if __name__ == "__main__":
    gc.disable()
    print(json.dumps(main(**json.loads(sys.argv[1]))))
