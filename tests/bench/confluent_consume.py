"""confluent-kafka consumes from each broker."""

from __future__ import annotations

from bench.card import Bench, BenchOutcome, Better, Contender, Figure, Scale
from bench.filled_topic import consume, filled_topic
from bench.stage import Stage

PARTITIONS = 4
CASES = {"100 B": 100, "1 KB": 1000}


def run(stage: Stage, contender: Contender, case: str) -> BenchOutcome:
    size = CASES[case]
    count = stage.scale.consumed_records // (2 if size == 100 else 10)
    topic = filled_topic(stage, contender, count=count, size=size, partitions=PARTITIONS)
    with stage.measured(contender):
        seconds = consume(stage, stage.broker(contender).bootstrap, topic, count=count, size=size)
    return BenchOutcome(
        values={"records/s": count / seconds},
        verified=f"{count:,} values: count, bytes and the sum of their numbers are those of arithmetic",
    )


def cases(scale: Scale) -> tuple[str, ...]:
    return tuple(CASES)


BENCH = Bench(
    name="confluent-consume",
    what="confluent-kafka (librdkafka) consumes, 4 partitions",
    how="a process for each run, consume(10,000) until all have come, connecting to leaders included. Messages are "
    "looked at afterwards, with Python's cyclic garbage collector off; fetch.queue.backoff.ms=1, not 1,000, so that a "
    "full queue of the client does not stop it for a second",
    verified="every value: count, bytes, sum of the numbers in them",
    figures=(Figure(name="records/s", unit="records/s", better=Better.HIGHER, targets={Contender.BROKER: 1.0}),),
    contenders=(Contender.BROKER, Contender.KAFKA),
    cases=cases,
    run=run,
    full_seconds=110,
)
