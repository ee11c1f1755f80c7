"""Both brokers that tests of clients run against: ours, and a real Kafka, which shows that the tests are right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.brokers.kafka_tools import why_unavailable
from support.brokers.reachable_broker import PASSWORD, USER, ReachableBroker
from support.brokers.real_kafka import RealKafka
from support.brokers.scram_users import add_scram_user
from support.brokers.served_broker import ServedBroker

EITHER_BROKER = ("ours", pytest.param("real", marks=pytest.mark.kafka))
"""Values of a test's or a fixture's parameter."""


@contextmanager
def running_broker(kind: str, folder: Path, *, settings: Sequence[str] = ()) -> Iterator[ReachableBroker]:
    """Started, with its user; it can be stopped, killed and started again. A real one skips where there is no Java.
    `settings` are further lines of its properties file."""
    if kind == "real":
        if reason := why_unavailable():
            pytest.skip(reason)
        broker = RealKafka(folder, settings)
    else:
        broker = ServedBroker(folder, settings)
        add_scram_user(broker, USER, PASSWORD)
    try:
        yield broker
    finally:
        broker.stop()
