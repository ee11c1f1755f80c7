"""The record kernel alone, on one core."""

from __future__ import annotations

from bench.card import Bench, BenchOutcome, Better, Contender, Figure, Scale
from bench.stage import Stage

SIZE = 100


def run(stage: Stage, contender: Contender, case: str) -> BenchOutcome:
    count = stage.scale.kernel_records
    with stage.measured():
        found = stage.run_program("kernel_program", count=count, size=SIZE)
    return BenchOutcome(
        values={"decode": found["decode_rate"] / 1e6, "encode": found["encode_rate"] / 1e6},
        verified=f"{count:,} values and offsets equal to those that were encoded, one by one",
    )


def cases(scale: Scale) -> tuple[str, ...]:
    return (f"{SIZE} B",)


BENCH = Bench(
    name="kernel",
    what="record kernel: Arrow columns to batches and back",
    how="one core, in rounds of 8 MiB as the sink writes them; offset, timestamp and value decoded; checksums made and "
    "checked; best of a second's runs",
    verified="values and offsets compared one by one with what was encoded",
    figures=(
        Figure(name="decode", unit="M records/s", better=Better.HIGHER, bound=20),
        Figure(name="encode", unit="M records/s", better=Better.HIGHER, bound=10),
    ),
    contenders=(Contender.EMBEDDED,),
    cases=cases,
    run=run,
)
