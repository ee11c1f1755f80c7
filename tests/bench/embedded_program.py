"""The embedded door without Spark: appends rows to a new topic and reads them all back, on one core or on all.

Says the seconds of each; encoding and decoding are part of it, because a row that stays bytes is of no use.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from bench.row_values import DIGITS, FIRST_NUMBER, value_of

from broker_core.cluster import Cluster
from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.identifiers import TopicPartition
from broker_core.record.columns import decode
from broker_core.topic_producer import TopicProducer, describe_existing

FETCH_BYTES = 8 * 1024 * 1024
CHUNK_BYTES = 8 * 1024 * 1024


def new_producer(cluster: Cluster) -> TopicProducer:
    return TopicProducer(
        cluster,
        find_topic=lambda name: describe_existing(cluster, name),
        now_ms=lambda: int(time.time() * 1000),
    )


def write(cluster: Cluster, topic: str, count: int, size: int, partitions: int) -> float:
    """Seconds until all of it is durable. One partition after the other gets its share, as with sticky partitions."""
    rows = min(count, max(1, CHUNK_BYTES // size))
    producer, seconds = new_producer(cluster), 0.0
    for first in range(0, count, rows):
        many = min(rows, count - first)
        chunk = chunk_of(first, many, count, size, partitions)
        begin = time.perf_counter()
        producer.add(topic, chunk)
        seconds += time.perf_counter() - begin
    begin = time.perf_counter()
    producer.flush()
    return seconds + time.perf_counter() - begin


def chunk_of(first: int, many: int, count: int, size: int, partitions: int) -> pa.RecordBatch:
    """Rows `first` to `first + many` of `count`."""
    rows = np.arange(first, first + many)
    if size >= DIGITS:
        text = pc.cast(pa.array(FIRST_NUMBER + rows), pa.string())
        values = pc.binary_join_element_wise(text, "x" * (size - DIGITS), "")
    else:
        values = pa.array([value_of(number, size) for number in range(first, first + many)])
    numbers = pa.array(rows * partitions // count, pa.int32())
    return pa.record_batch({"value": values.cast(pa.binary()), "partition": numbers})


def read(cluster: Cluster, topic: str, partitions: int, size: int) -> dict[str, float]:
    """Seconds of fetching and decoding; the tally is made outside of them."""
    seconds, rows, value_bytes, numbers = 0.0, 0, 0, 0
    for number in range(partitions):
        place, offset = TopicPartition(topic, number), 0
        while True:
            begin = time.perf_counter()
            fetched = cluster.fetch(place, offset, max_bytes=FETCH_BYTES)
            if not len(fetched.buffer):
                seconds += time.perf_counter() - begin
                break
            decoded = decode(fetched.buffer, from_offset=offset, columns=frozenset({"offset", "value"}))
            seconds += time.perf_counter() - begin
            offset = decoded.next_offset
            values = decoded.record_batch.column("value")
            rows += len(values)
            value_bytes += pc.sum(pc.binary_length(values)).as_py()
            if size >= DIGITS:
                digits = pc.cast(pc.binary_slice(values, 0, DIGITS).cast(pa.string()), pa.int64())
                numbers += pc.sum(pc.subtract(digits, FIRST_NUMBER)).as_py()
    return {"read_seconds": seconds, "count": rows, "value_bytes": value_bytes, "numbers": numbers}


def main(path: str, count: int, size: int, partitions: int) -> dict[str, float]:
    with open_embedded(path, create=True) as cluster:
        cluster.create_topic("bench", partition_count=partitions, configs={"retention.ms": "-1"})
        write_seconds = write(cluster, "bench", count, size, partitions)
        return {"write_seconds": write_seconds, **read(cluster, "bench", partitions, size)}


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
