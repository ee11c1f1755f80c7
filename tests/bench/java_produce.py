"""Kafka's own ProducerPerformance at each broker."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from bench.card import Bench, BenchOutcome, Better, Contender, Figure, Scale
from bench.stage import Stage
from bench.topic_admin import check_end_offsets

PARTITIONS = 4
SIZES = {"100 B": 100, "1 KB": 1000}
SYNCED = "synced by both"
"""How cases end whose topic has flush.messages=1: there Kafka too syncs before it acknowledges."""
_SUMMARY = re.compile(r"(\d+) records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\)")


def topic_config(case: str) -> dict[str, str]:
    return {"flush.messages": "1"} if case.endswith(SYNCED) else {}


def run(stage: Stage, contender: Contender, case: str, *, acks: str) -> BenchOutcome:
    size = SIZES[case.split(",")[0]]
    count = stage.scale.tool_records if size == 100 else stage.scale.large_tool_records
    bootstrap = stage.broker(contender).bootstrap
    with stage.topic(contender, PARTITIONS, **topic_config(case)) as topic:
        with stage.measured(contender):
            said = stage.run_java_tool(
                "ProducerPerformance", "--bootstrap-server", bootstrap, "--topic", topic, "--num-records", count,
                "--record-size", size, "--throughput", -1, "--command-property", f"acks={acks}",
            )  # fmt: skip
        sent, rate, _ = _SUMMARY.findall(said)[-1]
        assert int(sent) == count, f"the tool sent {sent} of {count} records"
        check_end_offsets(bootstrap, topic, count)
        found = stage.run_program("letters_program", bootstrap=bootstrap, topic=topic, count=count, size=size)
    return BenchOutcome(
        values={"records/s": float(rate)},
        verified=f"end offsets sum to {count:,}; all {int(found['count']):,} records read back, each {size} letters",
    )


def cases(scale: Scale) -> tuple[str, ...]:
    return tuple(SIZES)


def cases_with_synced(scale: Scale) -> tuple[str, ...]:
    return (*SIZES, *(f"{size}, {SYNCED}" for size in SIZES))


def bench(
    acks: str, targets: dict[Contender, float], *, cases: Callable[[Scale], tuple[str, ...]], full_seconds: int
) -> Bench:
    return Bench(
        name=f"java-produce-acks-{acks}",
        what=f"ProducerPerformance of Kafka 4.3.1, acks={acks}, 4 partitions",
        how="a JVM for each run, defaults of Java's producer but for acks; the tool's own rate. Ours is durable (an "
        "fdatasync before each acknowledgement), Kafka is not, but where the topic's flush.messages=1 says so; "
        "flush.policy=os is ours on Kafka's terms",
        verified="end offsets, and every record read back with librdkafka: its length, and that it is all letters",
        figures=(Figure(name="records/s", unit="records/s", better=Better.HIGHER, targets=targets),),
        contenders=(Contender.BROKER, Contender.BROKER_OS, Contender.KAFKA),
        cases=cases,
        run=partial(run, acks=acks),
        needs=frozenset({"java-tools"}),
        full_seconds=full_seconds,
    )


ACKS_1 = bench("1", {Contender.BROKER: 1.0, Contender.BROKER_OS: 1.0}, cases=cases, full_seconds=200)
# The target is that of durable acknowledgements; on Kafka's terms there is none.
ACKS_ALL = bench("all", {Contender.BROKER: 0.8}, cases=cases_with_synced, full_seconds=430)
