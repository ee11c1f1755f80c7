"""Reads a topic of ProducerPerformance back with librdkafka: so many records, each so long, of capital letters only."""

from __future__ import annotations

import json
import sys

from bench.confluent_program import CONSUME_COUNT, new_consumer, values_of


def main(bootstrap: str, topic: str, count: int, size: int) -> dict[str, float]:
    consumer, places = new_consumer(bootstrap, topic)
    consumer.assign(places)
    seen = 0
    while seen < count:
        found = consumer.consume(min(CONSUME_COUNT, count - seen), 10)
        assert found, f"nothing for 10 s after {seen} of {count} records"
        values = values_of([found])
        assert all(len(value) == size for value in values), "a record of another length"
        joined = b"".join(values)
        assert joined.isalpha() and joined.isupper(), "something else than capital letters"
        seen += len(values)
    assert seen == count and not consumer.consume(1, 0.2), "more records than were written"
    consumer.close()
    return {"count": seen}


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
