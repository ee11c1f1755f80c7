"""One record at a time from producer to consumer with confluent-kafka, whose clock is finer than EndToEndLatency's."""

from __future__ import annotations

from bench.card import Bench, BenchOutcome, Better, Contender, Figure, Scale
from bench.stage import Stage
from bench.topic_admin import check_end_offsets

SIZE = 100
FETCH_WAIT_MS = {"fetches wait": 500, "fetches do not wait": 0}


def run(stage: Stage, contender: Contender, case: str) -> BenchOutcome:
    count = stage.scale.round_trips
    bootstrap = stage.broker(contender).bootstrap
    with stage.topic(contender, 1) as topic:
        with stage.measured(contender):
            found = stage.run_program(
                "round_trip_program", bootstrap=bootstrap, topic=topic, count=count, size=SIZE,
                fetch_wait_ms=FETCH_WAIT_MS[case],
            )  # fmt: skip
        sent = int(found["sent"])
        check_end_offsets(bootstrap, topic, sent)
    return BenchOutcome(
        values={name: found[name] for name in ("average", "p50", "p99")},
        verified=f"each of {sent:,} records compared with what was sent, and its offset; the end offset is {sent:,}",
    )


def cases(scale: Scale) -> tuple[str, ...]:
    return tuple(FETCH_WAIT_MS)


BENCH = Bench(
    name="confluent-round-trip",
    what="one record with acks=all to librdkafka's consumer",
    how="produce, wait for the acknowledgement, wait for the record; a process for each run, 100 B, one partition. "
    "Fetches wait at the broker for up to 500 ms, or not at all, as EndToEndLatency's",
    verified="every record compared with what was sent; end offsets",
    figures=(
        Figure(name="average", unit="ms", better=Better.LOWER),
        Figure(name="p50", unit="ms", better=Better.LOWER),
        Figure(name="p99", unit="ms", better=Better.LOWER),
    ),
    contenders=(Contender.BROKER, Contender.BROKER_OS, Contender.KAFKA),
    cases=cases,
    run=run,
    full_seconds=130,
)
