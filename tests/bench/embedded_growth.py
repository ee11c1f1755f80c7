"""One step of what grows, through the embedded door, in a directory of its own that goes with it."""

from __future__ import annotations

import shutil

from bench.card import BenchOutcome
from bench.row_values import DIGITS, ReadTally, check_tally, expected_tally
from bench.stage import Stage


def append_and_read(stage: Stage, *, count: int, size: int, partitions: int) -> BenchOutcome:
    folder = stage.folder / stage.new_name("grown")
    try:
        with stage.measured():
            found = stage.run_program(
                "embedded_program", path=str(folder), count=count, size=size, partitions=partitions
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    expected = expected_tally(count, size)
    numbers = int(found["numbers"]) if size >= DIGITS else expected.numbers
    tally = ReadTally(count=int(found["count"]), value_bytes=int(found["value_bytes"]), numbers=numbers)
    check_tally(tally, expected, f"{count:,} values of {size} bytes in {partitions} partitions")
    return BenchOutcome(
        values={
            "write": found["write_seconds"] / count * 1e9,
            "read": found["read_seconds"] / count * 1e9,
            "write bytes": count * size / found["write_seconds"] / 1e6,
            "read bytes": count * size / found["read_seconds"] / 1e6,
        },
        verified=f"{count:,} values read back: count and bytes" + (", sum of numbers" if size >= DIGITS else ""),
    )
