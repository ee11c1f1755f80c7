"""A topic of numbered values at a broker, made once in a run and read by several benches."""

from __future__ import annotations

from bench.card import Contender
from bench.row_values import ReadTally, check_tally, expected_tally
from bench.stage import Stage
from bench.topic_admin import check_end_offsets, create_topic


def filled_topic(
    stage: Stage,
    contender: Contender,
    *,
    count: int,
    size: int,
    partitions: int,
    settings: dict[str, str] | None = None,
) -> str:
    """Its name; written with librdkafka, and its end offsets checked."""
    key = ("filled topic", contender, count, size, partitions, tuple((settings or {}).items()))
    if key not in stage.remembered:
        bootstrap = stage.broker(contender).bootstrap
        topic = stage.new_name("filled")
        create_topic(bootstrap, topic, partitions)
        produce(stage, bootstrap, topic, count=count, size=size, settings=settings or {})
        check_end_offsets(bootstrap, topic, count)
        stage.remembered[key] = topic
    return str(stage.remembered[key])


def produce(stage: Stage, bootstrap: str, topic: str, *, count: int, size: int, settings: dict[str, str]) -> float:
    """Seconds."""
    program = {"work": "produce", "bootstrap": bootstrap, "topic": topic, "settings": settings}
    return stage.run_program("confluent_program", **program, count=count, size=size)["seconds"]


def consume(stage: Stage, bootstrap: str, topic: str, *, count: int, size: int) -> float:
    """Seconds. The values that came are held against arithmetic."""
    found = stage.run_program("confluent_program", work="consume", bootstrap=bootstrap, topic=topic, count=count)
    seconds = found.pop("seconds")
    check_tally(ReadTally(**{name: int(value) for name, value in found.items()}), expected_tally(count, size), topic)
    return seconds
