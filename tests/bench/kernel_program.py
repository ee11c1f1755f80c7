"""The record kernel alone, on one core: Arrow columns to batches and back, again and again for a while.

In rounds as large as those of a writer. Buffers far larger would measure the system: fresh pages for each of them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

import pyarrow as pa
from bench.row_values import value_of

from broker_core.record.columns import decode, encode
from broker_core.topic_producer import DEFAULT_GATHER_BYTES

ROUND_SECONDS = 1.0
COLUMNS = frozenset({"offset", "timestamp", "value"})
TIMESTAMP_MS = 1_700_000_000_000


def main(count: int, size: int) -> dict[str, float]:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    values = [value_of(number, size) for number in range(count)]
    rows = pa.record_batch({"value": pa.array(values, pa.binary())})
    length = max(1, count * DEFAULT_GATHER_BYTES // rows.nbytes)
    rounds = [rows.slice(start, length) for start in range(0, count, length)]
    encoded = [encode(some, default_timestamp_ms=TIMESTAMP_MS).buffer for some in rounds]
    found = [decode(buffer, from_offset=0, columns=COLUMNS).record_batch for buffer in encoded]
    # Each round's batches are encoded with base offsets from 0 on, so that they decode as one log.
    offsets = [offset for some in found for offset in some.column("offset").to_pylist()]
    assert offsets == [number % length for number in range(count)], "offsets are not 0, 1, 2, … in each round"
    assert [value for some in found for value in some.column("value").to_pylist()] == values, (
        "decoded values are not those that were encoded"
    )

    def encode_all() -> None:
        for some in rounds:
            encode(some, default_timestamp_ms=TIMESTAMP_MS)

    def decode_all() -> None:
        for buffer in encoded:
            decode(buffer, from_offset=0, columns=COLUMNS)

    return {"encode_rate": rate(encode_all, count), "decode_rate": rate(decode_all, count)}


def rate(work: Callable[[], object], count: int) -> float:
    """Records a second of the best run: on one core, whatever disturbs only makes it slower."""
    best, deadline = float("inf"), time.perf_counter() + ROUND_SECONDS
    while time.perf_counter() < deadline or best == float("inf"):
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return count / best


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
