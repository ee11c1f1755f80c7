"""Kafka's own ConsumerPerformance at each broker."""

from __future__ import annotations

from bench.card import Bench, BenchOutcome, Better, Contender, Figure, Scale
from bench.filled_topic import filled_topic
from bench.stage import Stage

PARTITIONS = 4
SIZE = 100
MIB = 1024 * 1024


def run(stage: Stage, contender: Contender, case: str) -> BenchOutcome:
    count = stage.scale.consumed_records
    topic = filled_topic(stage, contender, count=count, size=SIZE, partitions=PARTITIONS)
    with stage.measured(contender):
        said = stage.run_java_tool(
            "ConsumerPerformance", "--bootstrap-server", stage.broker(contender).bootstrap, "--topic", topic,
            "--num-records", count, "--group", stage.new_name("group"), "--timeout", 60_000,
        )  # fmt: skip
    titles, line = (part.split(", ") for part in said.splitlines() if ", " in part)
    found = dict(zip(titles, line, strict=True))
    consumed = int(found["data.consumed.in.nMsg"])
    assert consumed == count, f"the tool consumed {consumed} of {count} records"
    megabytes = float(found["data.consumed.in.MB"])
    assert abs(megabytes - count * SIZE / MIB) < 0.01, f"the tool consumed {megabytes} MB"
    return BenchOutcome(
        values={"records/s": float(found["nMsg.sec"]), "fetching records/s": float(found["fetch.nMsg.sec"])},
        verified=f"{count:,} records of {megabytes:.1f} MiB counted by the tool, as were written",
    )


def cases(scale: Scale) -> tuple[str, ...]:
    return ("100 B",)


BENCH = Bench(
    name="java-consume",
    what="ConsumerPerformance of Kafka 4.3.1, 4 partitions",
    how="a JVM and a consumer group for each run, defaults; the tool's own rates, with and without joining the group",
    verified="the tool's count of records and bytes",
    figures=(
        Figure(name="records/s", unit="records/s", better=Better.HIGHER, targets={Contender.BROKER: 1.0}),
        Figure(name="fetching records/s", unit="records/s", better=Better.HIGHER, targets={Contender.BROKER: 1.0}),
    ),
    contenders=(Contender.BROKER, Contender.KAFKA),
    cases=cases,
    run=run,
    needs=frozenset({"java-tools"}),
    full_seconds=90,
)
