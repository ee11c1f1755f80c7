"""confluent-kafka produces to each broker."""

from __future__ import annotations

from bench.card import Bench, BenchOutcome, Better, Contender, Figure, Scale
from bench.filled_topic import consume, produce
from bench.stage import Stage

PARTITIONS = 4
CASES = {
    "acks=1, 100 B": (100, {"acks": "1"}),
    "acks=1, 1 KB": (1000, {"acks": "1"}),
    "idempotent, 100 B": (100, {"enable.idempotence": "true"}),
}


def run(stage: Stage, contender: Contender, case: str) -> BenchOutcome:
    size, settings = CASES[case]
    count = stage.scale.tool_records if size == 100 else stage.scale.large_tool_records
    bootstrap = stage.broker(contender).bootstrap
    with stage.topic(contender, PARTITIONS) as topic:
        with stage.measured(contender):
            seconds = produce(stage, bootstrap, topic, count=count, size=size, settings=settings)
        consume(stage, bootstrap, topic, count=count, size=size)
    return BenchOutcome(
        values={"records/s": count / seconds},
        verified=f"all {count:,} values read back: count, bytes and the sum of their numbers are those of arithmetic",
    )


def cases(scale: Scale) -> tuple[str, ...]:
    return tuple(CASES)


BENCH = Bench(
    name="confluent-produce",
    what="confluent-kafka (librdkafka) produces, 4 partitions",
    how="a process for each run, linger 5 ms; from the first produce() to the end of flush()",
    verified="every value read back: count, bytes, sum of the numbers in them",
    figures=(Figure(name="records/s", unit="records/s", better=Better.HIGHER, targets={Contender.BROKER: 1.0}),),
    contenders=(Contender.BROKER, Contender.KAFKA),
    cases=cases,
    run=run,
    full_seconds=160,
)
