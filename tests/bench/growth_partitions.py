"""What partitions cost: the same records in more and more of them, and the same share of records in each of them."""

from __future__ import annotations

from dataclasses import replace

from bench.card import Bench, BenchOutcome, Better, Contender, Figure, Scale
from bench.embedded_growth import append_and_read
from bench.filled_topic import consume, produce
from bench.stage import Stage

SIZE = 100
CONTENDERS = (Contender.EMBEDDED, Contender.BROKER, Contender.KAFKA)
HOW = "the embedded door in one process, and librdkafka (sticky partitions, acks=all) at the brokers"


def run_same_records(stage: Stage, contender: Contender, case: str) -> BenchOutcome:
    return write_and_read(stage, contender, count=stage.scale.growth_partition_records, partitions=partitions_of(case))


def run_same_shares(stage: Stage, contender: Contender, case: str) -> BenchOutcome:
    share = stage.scale.partition_share_records
    outcome = write_and_read(stage, contender, count=share * partitions_of(case), partitions=partitions_of(case))
    microseconds = {name: outcome.values[name] * share / 1000 for name in ("write", "read")}
    return BenchOutcome(values=microseconds, verified=outcome.verified)


def write_and_read(stage: Stage, contender: Contender, *, count: int, partitions: int) -> BenchOutcome:
    """Nanoseconds for each record."""
    if contender is Contender.EMBEDDED:
        return append_and_read(stage, count=count, size=SIZE, partitions=partitions)
    bootstrap = stage.broker(contender).bootstrap
    with stage.topic(contender, partitions) as topic, stage.measured(contender):
        write_seconds = produce(stage, bootstrap, topic, count=count, size=SIZE, settings={"acks": "all"})
        read_seconds = consume(stage, bootstrap, topic, count=count, size=SIZE)
    return BenchOutcome(
        values={"write": write_seconds / count * 1e9, "read": read_seconds / count * 1e9},
        verified=f"{count:,} values read back: count, bytes, sum of numbers",
    )


def partitions_of(case: str) -> int:
    return int(case.replace(",", ""))


def cases(scale: Scale) -> tuple[str, ...]:
    return tuple(f"{count:,}" for count in scale.growth_partitions)


def figures(unit: str) -> tuple[Figure, ...]:
    return tuple(Figure(name=name, unit=unit, better=Better.LOWER) for name in ("write", "read"))


SAME_RECORDS = Bench(
    name="growth-partitions",
    what="cost per record as partitions grow, 100 B",
    how=f"2 million records, however many partitions; {HOW}",
    verified="all values read back: count, bytes, sum of the numbers in them",
    figures=figures("ns/record"),
    contenders=CONTENDERS,
    cases=cases,
    run=run_same_records,
    is_warmed_up=False,
    flat_within=1.2,
    full_seconds=330,
)
SAME_SHARES = replace(
    SAME_RECORDS,
    name="growth-partition-shares",
    what="cost per partition as partitions grow, 100 B",
    how=f"2,000 records for each partition, so that one costs as much as a thousandth of a thousand; {HOW}",
    figures=figures("us/partition"),
    run=run_same_shares,
    full_seconds=170,
)
