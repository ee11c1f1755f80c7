"""The cost of a record, from a million to a hundred million: what is written once must not cost more later."""

from __future__ import annotations

from bench.card import Bench, BenchOutcome, Better, Contender, Figure, Scale
from bench.embedded_growth import append_and_read
from bench.stage import Stage

SIZE = 100
PARTITIONS = 4


def run(stage: Stage, contender: Contender, case: str) -> BenchOutcome:
    return append_and_read(stage, count=int(case.replace(",", "")), size=SIZE, partitions=PARTITIONS)


def cases(scale: Scale) -> tuple[str, ...]:
    return tuple(f"{count:,}" for count in scale.growth_records)


BENCH = Bench(
    name="growth-records",
    what="cost per record as records grow, 100 B, 4 partitions",
    how="the embedded door in one process: encode and append durably, fetch and decode; no Spark",
    verified="all values read back: count, bytes, sum of the numbers in them",
    figures=(
        Figure(name="write", unit="ns/record", better=Better.LOWER),
        Figure(name="read", unit="ns/record", better=Better.LOWER),
    ),
    contenders=(Contender.EMBEDDED,),
    cases=cases,
    run=run,
    is_warmed_up=False,
    flat_within=1.2,
    full_seconds=200,
)
