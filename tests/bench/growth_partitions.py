"""The cost of a record as its topic has more partitions."""

from __future__ import annotations

from bench.card import Bench, Better, Contender, Figure, Outcome, Scale
from bench.embedded_growth import append_and_read
from bench.filled_topic import consume, produce
from bench.stage import Stage

SIZE = 100


def run(stage: Stage, contender: Contender, case: str) -> Outcome:
    count, partitions = stage.scale.growth_partition_records, int(case.replace(",", ""))
    if contender is Contender.EMBEDDED:
        return append_and_read(stage, count=count, size=SIZE, partitions=partitions)
    bootstrap = stage.broker(contender).bootstrap
    with stage.topic(contender, partitions) as topic, stage.measured(contender):
        write_seconds = produce(stage, bootstrap, topic, count=count, size=SIZE, settings={"acks": "all"})
        read_seconds = consume(stage, bootstrap, topic, count=count, size=SIZE)
    return Outcome(
        values={"write": write_seconds / count * 1e9, "read": read_seconds / count * 1e9},
        verified=f"{count:,} values read back: count, bytes, sum of numbers",
    )


def cases(scale: Scale) -> tuple[str, ...]:
    return tuple(f"{count:,}" for count in scale.growth_partitions)


BENCH = Bench(
    name="growth-partitions",
    what="cost per record as partitions grow, 100 B",
    how="the same records each time; the embedded door in one process, and librdkafka (sticky partitions, acks=all) at "
    "the brokers",
    verified="all values read back: count, bytes, sum of the numbers in them",
    figures=(
        Figure(name="write", unit="ns/record", better=Better.LOWER),
        Figure(name="read", unit="ns/record", better=Better.LOWER),
    ),
    contenders=(Contender.EMBEDDED, Contender.BROKER, Contender.KAFKA),
    cases=cases,
    run=run,
    is_warmed_up=False,
    flat_within=1.2,
    full_seconds=500,
)
