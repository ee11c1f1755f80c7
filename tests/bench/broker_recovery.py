"""kill -9 behind a lot of appends, and the start that follows it."""

from __future__ import annotations

from bench.card import Bench, BenchOutcome, Better, Contender, Figure, Scale
from bench.filled_topic import consume, produce
from bench.stage import Stage
from bench.topic_admin import check_end_offsets, create_topic

PARTITIONS = 4
SIZE = 1000
BOUNDS_FILE = "partition.bounds"


def run(stage: Stage, contender: Contender, case: str) -> BenchOutcome:
    count = stage.scale.recovered_bytes // SIZE
    with stage.own_broker(contender) as broker:
        broker.start()
        create_topic(broker.bootstrap, "t", PARTITIONS)
        produce(stage, broker.bootstrap, "t", count=count, size=SIZE, settings={"acks": "all"})
        broker.kill()
        if case == "all of it scanned":
            # What has been synced is written there. Without it nothing is known of the log, as in Kafka's checkpoint
            # of an hour ago.
            for bounds in broker.log_directory.glob(f"t-*/{BOUNDS_FILE}"):
                bounds.unlink()
        log_bytes = sum(file.stat().st_size for file in broker.log_directory.glob("t-*/*.log"))
        with stage.measured(contender):
            seconds = broker.start()
        check_end_offsets(broker.bootstrap, "t", count)
        consume(stage, broker.bootstrap, "t", count=count, size=SIZE)
    return BenchOutcome(
        values={"recovery": log_bytes / seconds / 1e6, "start": seconds},
        verified=f"all {count:,} acknowledged values are there: count, bytes, sum of numbers",
    )


def cases(scale: Scale) -> tuple[str, ...]:
    return ("after kill -9", "all of it scanned")


BENCH = Bench(
    name="broker-recovery",
    what="recovery of an unclean log",
    how="1 KB values with acks=all, kill -9, start; bytes of the log by the time to the first Metadata answer, the "
    "start itself included. Ours knows what was synced and looks only behind that; in the second case that knowledge "
    "is removed",
    verified="every acknowledged value is there after the start",
    figures=(
        Figure(name="recovery", unit="MB/s", better=Better.HIGHER, targets={Contender.BROKER: 1.5}),
        Figure(name="start", unit="s", better=Better.LOWER),
    ),
    contenders=(Contender.BROKER, Contender.KAFKA),
    cases=cases,
    run=run,
    is_warmed_up=False,
    full_seconds=200,
)
