"""confluent-kafka (librdkafka) as a client process: produces numbered values, or consumes and counts them.

    python -m bench.confluent_program '{"work": "produce", "bootstrap": …, "topic": …, "count": …, "size": …}'

Says the seconds that were spent between the first call and the last acknowledgement or record. What costs Python
(making values, looking at them) is done before and after. Python's cyclic garbage collector is off: it would walk the
millions of messages that are kept again and again, for as long as all the rest takes.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict

from bench.row_values import tally_of, value_of
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

SECONDS = 600
CONSUME_COUNT = 10_000


def produce(bootstrap: str, topic: str, count: int, size: int, settings: dict[str, str]) -> dict[str, float]:
    values = [value_of(number, size) for number in range(count)]
    errors: list[object] = []

    def on_error(error: object, message: Message) -> None:
        if error is not None:
            errors.append(error)

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_000_000,
            "linger.ms": 5,
            # Reports of what went well would cost the client more than the work; errors are reported all the same.
            "delivery.report.only.error": True,
            **settings,
        },
        on_delivery=on_error,
    )
    begin = time.perf_counter()
    for value in values:
        try:
            producer.produce(topic, value)
        except BufferError:
            while len(producer) > 500_000:
                producer.poll(0.05)
            producer.produce(topic, value)
    left = producer.flush(SECONDS)
    seconds = time.perf_counter() - begin
    assert not errors and not left, f"{len(errors)} errors, first {errors[:1]}; {left} left"
    return {"seconds": seconds}


def consume(bootstrap: str, topic: str, count: int) -> dict[str, float]:
    consumer, places = new_consumer(bootstrap, topic)
    lists, seen = [], 0
    begin = time.perf_counter()
    # From here on it fetches, and fills its queue.
    consumer.assign(places)
    while seen < count:
        # It waits for as many as it is asked for.
        found = consumer.consume(min(CONSUME_COUNT, count - seen), 10)
        if not found:
            raise RuntimeError(f"nothing for 10 s after {seen} of {count} records")
        seen += len(found)
        lists.append(found)
    seconds = time.perf_counter() - begin
    more = consumer.consume(1, 0.2)
    consumer.close()
    assert not more, "more records than were written"
    return {"seconds": seconds, **asdict(tally_of(values_of(lists)))}


def new_consumer(bootstrap: str, topic: str) -> tuple[Consumer, list[TopicPartition]]:
    """It has connected; and what it is to be assigned: all of the topic from its beginning."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False}
    # A full queue is looked at again after 1 ms. By default it is after 1 s, which would be what is timed.
    consumer = Consumer(settings | {"queued.max.messages.kbytes": 100_000, "fetch.queue.backoff.ms": 1})
    numbers = sorted(consumer.list_topics(topic, SECONDS).topics[topic].partitions)
    return consumer, [TopicPartition(topic, number, OFFSET_BEGINNING) for number in numbers]


def values_of(lists: Sequence[Sequence[Message]]) -> list[bytes]:
    values = []
    for messages in lists:
        for message in messages:
            error: KafkaError | None = message.error()
            assert error is None, error
            values.append(message.value())
    return values


if __name__ == "__main__":
    gc.disable()
    arguments = json.loads(sys.argv[1])
    print(json.dumps({"produce": produce, "consume": consume}[arguments.pop("work")](**arguments)))
