"""The record kernel alone, on one core: Arrow columns to batches and back, again and again for a while."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

import pyarrow as pa
from bench.row_values import value_of

from broker_core.record.columns import decode, encode

ROUND_SECONDS = 1.0
COLUMNS = frozenset({"offset", "timestamp", "value"})
TIMESTAMP_MS = 1_700_000_000_000


def main(count: int, size: int) -> dict[str, float]:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    values = [value_of(number, size) for number in range(count)]
    rows = pa.record_batch({"value": pa.array(values, pa.binary())})
    encoded = encode(rows, default_timestamp_ms=TIMESTAMP_MS)
    decoded = decode(encoded.buffer, from_offset=0, columns=COLUMNS)
    # Batches are encoded with base offsets from 0 on, so that they decode as one log.
    found = decoded.record_batch
    assert found.column("value").to_pylist() == values, "decoded values are not those that were encoded"
    assert found.column("offset").to_pylist() == list(range(count)), "offsets are not 0, 1, 2, …"
    return {
        "encode_rate": rate(lambda: encode(rows, default_timestamp_ms=TIMESTAMP_MS), count),
        "decode_rate": rate(lambda: decode(encoded.buffer, from_offset=0, columns=COLUMNS), count),
    }


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
