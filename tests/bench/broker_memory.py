"""The memory of a broker: idle after its start, and once it has done the work of the other benches."""

from __future__ import annotations

import time

from bench.card import Bench, Better, Contender, Figure, Outcome, Scale
from bench.filled_topic import consume, filled_topic
from bench.process_usage import memory_bytes
from bench.stage import Stage

IDLE_SECONDS = 3
SIZE = 100
PARTITIONS = 4
MIB = 1024 * 1024


def run(stage: Stage, contender: Contender, case: str) -> Outcome:
    if case == "idle":
        with stage.own_broker(contender) as broker, stage.measured():
            broker.start()
            time.sleep(IDLE_SECONDS)
            found = memory_bytes(broker.pid)
        return Outcome(values={"memory": found / MIB}, verified=f"{IDLE_SECONDS} s after a Metadata answer")
    count = stage.scale.consumed_records // 2
    topic = filled_topic(stage, contender, count=count, size=SIZE, partitions=PARTITIONS)
    broker = stage.broker(contender)
    with stage.measured():
        consume(stage, broker.bootstrap, topic, count=count, size=SIZE)
        time.sleep(IDLE_SECONDS)
        found = memory_bytes(broker.pid)
    return Outcome(values={"memory": found / MIB}, verified=f"{count:,} values consumed just before, all checked")


def cases(scale: Scale) -> tuple[str, ...]:
    return ("idle", "after the runs")


BENCH = Bench(
    name="broker-memory",
    what="memory of the broker",
    how="proportional set size of the process; after the runs: of the broker that did all benches before this one. "
    "Kafka's heap may grow to 1 GB",
    verified="the broker answers; after the runs all values of a topic are consumed and checked",
    figures=(Figure(name="memory", unit="MiB", better=Better.LOWER, targets={Contender.BROKER: 0.25}),),
    contenders=(Contender.BROKER, Contender.KAFKA),
    cases=cases,
    run=run,
)
