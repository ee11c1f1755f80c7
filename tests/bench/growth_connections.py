"""Answers a second from one connection to many."""

from __future__ import annotations

from bench.card import Bench, BenchOutcome, Better, Contender, Figure, Scale
from bench.filled_topic import filled_topic
from bench.stage import Stage

SIZE = 100
PIECE_BYTES = 64 * 1024


def run(stage: Stage, contender: Contender, case: str) -> BenchOutcome:
    # Small batches, so that a piece of a partition is a piece of it with every broker.
    topic = filled_topic(
        stage, contender, count=20_000, size=SIZE, partitions=1, settings={"batch.size": "16384", "acks": "all"}
    )
    with stage.measured(contender):
        found = stage.run_program(
            "connection_program", host="127.0.0.1", port=stage.broker(contender).port, topic=topic,
            connection_count=int(case), piece_bytes=PIECE_BYTES, value_bytes=SIZE,
            seconds=stage.scale.connection_seconds,
        )  # fmt: skip
    return BenchOutcome(
        values={"answers": found["rate"], "p50": found["p50_ms"], "p99": found["p99_ms"]},
        verified=f"every answer held the same {int(found['piece_bytes']):,} bytes of records as the first, and that "
        f"the first {int(found['values']):,} values in their order",
    )


def cases(scale: Scale) -> tuple[str, ...]:
    return tuple(str(count) for count in scale.growth_connections)


BENCH = Bench(
    name="growth-connections",
    what="fetches of 64 KiB a second as connections grow",
    how="one Fetch under way on each connection, sent by hand from one thread; version 4, no session",
    verified="the record bytes of every answer are those of the first one, and that has the topic's values in order",
    figures=(
        Figure(name="answers", unit="1/s", better=Better.HIGHER),
        Figure(name="p50", unit="ms", better=Better.LOWER),
        Figure(name="p99", unit="ms", better=Better.LOWER),
    ),
    contenders=(Contender.BROKER, Contender.KAFKA),
    cases=cases,
    run=run,
    full_seconds=100,
)
