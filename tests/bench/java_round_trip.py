"""Kafka's own EndToEndLatency at each broker: one record at a time, from the producer to the consumer."""

from __future__ import annotations

import re

from bench.card import Bench, BenchOutcome, Better, Contender, Figure, Scale
from bench.java_produce import SYNCED, topic_config
from bench.stage import Stage
from bench.topic_admin import check_end_offsets

SIZE = 100
CASE = "acks=all, 100 B"
_AVERAGE = re.compile(r"Avg latency: ([\d.]+) ms")
_PERCENTILES = re.compile(r"Percentiles: 50th = (\d+), 99th = (\d+), 99.9th = (\d+)")


def run(stage: Stage, contender: Contender, case: str) -> BenchOutcome:
    count = stage.scale.round_trips
    bootstrap = stage.broker(contender).bootstrap
    with stage.topic(contender, 1, **topic_config(case)) as topic:
        with stage.measured(contender):
            said = stage.run_java_tool("EndToEndLatency", bootstrap, topic, count, "all", SIZE)
        check_end_offsets(bootstrap, topic, count)
    (average,) = _AVERAGE.findall(said)
    ((p50, p99, p999),) = _PERCENTILES.findall(said)
    return BenchOutcome(
        # Whole milliseconds are what the tool says: half a millisecond more is the middle of what a number stands for.
        values={"average": float(average), "p50": int(p50) + 0.5, "p99": int(p99) + 0.5, "p99.9": int(p999) + 0.5},
        verified=f"the tool compares each of {count:,} records with what it sent; the end offset is {count:,}",
    )


def cases(scale: Scale) -> tuple[str, ...]:
    return CASE, f"{CASE}, {SYNCED}"


BENCH = Bench(
    name="java-round-trip",
    what="EndToEndLatency of Kafka 4.3.1, acks=all",
    how="one record at a time through one partition, a JVM for each run; the tool tells whole milliseconds rounded "
    "down, shown here as the middle of theirs (0 as 0.5): its ratios jump, confluent-round-trip has finer ones",
    verified="the tool compares every record with what it sent; end offsets",
    figures=(
        Figure(name="average", unit="ms", better=Better.LOWER),
        Figure(
            name="p50",
            unit="ms",
            better=Better.LOWER,
            targets={Contender.BROKER: 1.0, Contender.BROKER_OS: 1.0},
        ),
        Figure(
            name="p99",
            unit="ms",
            better=Better.LOWER,
            targets={Contender.BROKER: 1.0, Contender.BROKER_OS: 1.0},
        ),
        Figure(name="p99.9", unit="ms", better=Better.LOWER),
    ),
    contenders=(Contender.BROKER, Contender.BROKER_OS, Contender.KAFKA),
    cases=cases,
    run=run,
    needs=frozenset({"java-tools"}),
    full_seconds=140,
)
