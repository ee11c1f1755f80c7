"""From the start of the process to its first answer, with nothing in the log."""

from __future__ import annotations

from bench.card import Bench, BenchOutcome, Better, Contender, Figure, Scale
from bench.stage import Stage


def run(stage: Stage, contender: Contender, case: str) -> BenchOutcome:
    with stage.own_broker(contender) as broker:
        if case == "second start":
            broker.start()
            broker.stop()
        with stage.measured(contender):
            seconds = broker.start()
    return BenchOutcome(values={"start": seconds}, verified="a Metadata answer that names a broker")


def cases(scale: Scale) -> tuple[str, ...]:
    return ("first start", "second start")


BENCH = Bench(
    name="broker-start",
    what="broker start to the first Metadata answer",
    how="asked every 2 ms by hand; a first start makes the directory (Kafka's was formatted before)",
    verified="the answer names a broker",
    figures=(Figure(name="start", unit="s", better=Better.LOWER, targets={Contender.BROKER: 0.3}),),
    contenders=(Contender.BROKER, Contender.KAFKA),
    cases=cases,
    run=run,
    full_seconds=50,
)
