"""What value sizes from ten bytes to a hundred kilobytes cost."""

from __future__ import annotations

from bench.card import Bench, BenchOutcome, Better, Contender, Figure, Scale
from bench.embedded_growth import append_and_read
from bench.stage import Stage

PARTITIONS = 4
MOST_RECORDS = 5_000_000


def run(stage: Stage, contender: Contender, case: str) -> BenchOutcome:
    size = int(case.removesuffix(" B").replace(",", ""))
    return append_and_read(
        stage, count=min(MOST_RECORDS, stage.scale.growth_bytes // size), size=size, partitions=PARTITIONS
    )


def cases(scale: Scale) -> tuple[str, ...]:
    return tuple(f"{size:,} B" for size in scale.growth_value_bytes)


BENCH = Bench(
    name="growth-values",
    what="bytes a second as values grow",
    how="the embedded door in one process; 1 GB of values, at most 5 M of them",
    verified="all values read back: count, bytes, and the sum of numbers where they have twelve digits",
    figures=(
        Figure(name="write", unit="ns/record", better=Better.LOWER),
        Figure(name="read", unit="ns/record", better=Better.LOWER),
        Figure(name="write bytes", unit="MB/s", better=Better.HIGHER),
        Figure(name="read bytes", unit="MB/s", better=Better.HIGHER),
    ),
    contenders=(Contender.EMBEDDED,),
    cases=cases,
    run=run,
    is_warmed_up=False,
    full_seconds=60,
)
