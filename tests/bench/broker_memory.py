"""The memory of a broker: idle after its start, and once it has done the work of all other benches."""

from __future__ import annotations

import time

from bench.card import Bench, BenchOutcome, Better, Contender, Figure, Scale
from bench.filled_topic import consume, filled_topic
from bench.process_usage import memory_bytes
from bench.stage import Stage

IDLE_SECONDS = 3
SIZE = 100
PARTITIONS = 4
MIB = 1024 * 1024
CONTENDERS = (Contender.BROKER, Contender.KAFKA)


def run_idle(stage: Stage, contender: Contender, case: str) -> BenchOutcome:
    with stage.own_broker(contender) as broker, stage.measured(contender):
        broker.start()
        time.sleep(IDLE_SECONDS)
        found = memory_bytes(broker.pid)
    return BenchOutcome(values={"memory": found / MIB}, verified=f"{IDLE_SECONDS} s after a Metadata answer")


def run_after(stage: Stage, contender: Contender, case: str) -> BenchOutcome:
    count = stage.scale.consumed_records // 2
    topic = filled_topic(stage, contender, count=count, size=SIZE, partitions=PARTITIONS)
    broker = stage.broker(contender)
    with stage.measured(contender):
        consume(stage, broker.bootstrap, topic, count=count, size=SIZE)
        time.sleep(IDLE_SECONDS)
        found = memory_bytes(broker.pid)
    return BenchOutcome(values={"memory": found / MIB}, verified=f"{count:,} values consumed just before, all checked")


def figure(target: float) -> Figure:
    return Figure(name="memory", unit="MiB", better=Better.LOWER, targets={Contender.BROKER: target})


def cases_idle(scale: Scale) -> tuple[str, ...]:
    return ("no topics",)


def cases_after(scale: Scale) -> tuple[str, ...]:
    return ("all topics",)


IDLE = Bench(
    name="broker-memory-idle",
    what="memory of a broker that has just started",
    how="proportional set size of the process 3 s after its first answer. Kafka's heap may grow to 1 GB",
    verified="the broker answers",
    figures=(figure(0.25),),
    contenders=CONTENDERS,
    cases=cases_idle,
    run=run_idle,
    is_warmed_up=False,
    full_seconds=40,
)
AFTER_THE_RUNS = Bench(
    name="broker-memory-after",
    what="memory of the broker after the runs",
    how="proportional set size of the process that did all benches which ran before this one, and has consumed a topic "
    "just now. Kafka's heap may grow to 1 GB",
    verified="all values of that topic: count, bytes, sum of the numbers in them",
    figures=(figure(0.2),),
    contenders=CONTENDERS,
    cases=cases_after,
    run=run_after,
    is_warmed_up=False,
    full_seconds=60,
)
