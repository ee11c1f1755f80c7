"""A steady stream of rows for micro-batches: so many a second, in small portions, until stdin says something.

Says how many it sent.

Into a directory or to object storage by their own doors, or to a broker with librdkafka; all in the same portions at
the same times, and each portion is acknowledged before the next one is due, where the store allows that.
"""

from __future__ import annotations

import json
import select
import sys
import time
from collections.abc import Callable

import pyarrow as pa
from bench.embedded_program import new_producer
from bench.row_values import value_of
from confluent_kafka import Producer

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.object_cluster.open_objects import open_objects

PORTION_SECONDS = 0.02
VALUE_BYTES = 100


def feed(rows_per_second: int, send: Callable[[list[bytes]], None]) -> int:
    sent, begin = 0, time.perf_counter()
    while not select.select([sys.stdin], [], [], 0)[0]:
        due = int((time.perf_counter() - begin) * rows_per_second)
        send([value_of(number, VALUE_BYTES) for number in range(sent, due)])
        sent = due
        time.sleep(PORTION_SECONDS)
    return sent


def to_log(path: str, options: dict[str, str], topic: str) -> Callable[[list[bytes]], None]:
    """`options`: of object storage, where `path` is a URL."""
    producer = new_producer(open_objects(path, options) if options else open_embedded(path))

    def send(values: list[bytes]) -> None:
        producer.add(topic, pa.record_batch({"value": pa.array(values, pa.binary())}))
        producer.flush()

    return send


def to_broker(bootstrap: str, topic: str) -> Callable[[list[bytes]], None]:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1, "acks": "all"})

    def send(values: list[bytes]) -> None:
        for value in values:
            producer.produce(topic, value)
        assert producer.flush(60) == 0

    return send


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    topic = arguments["topic"]
    path, bootstrap = arguments["path"], arguments["bootstrap"]
    sender = to_log(path, arguments["options"], topic) if path else to_broker(bootstrap, topic)
    print(json.dumps({"rows": feed(arguments["rows_per_second"], sender)}))
