"""The clusters that the sink's protocol is tested on, each with a clock that tests move."""

from __future__ import annotations

from typing import Any

import pytest
from support.brokers.in_memory_cluster import InMemoryCluster
from support.builders.committed_rows import committed_values
from support.spark.sink_actors import TOPIC, Sink

from broker_core.embedded.embedded_cluster import EmbeddedCluster
from spark_streamlog.exactly_once.sink_identity import SinkIdentity, query_identity
from spark_streamlog.exactly_once.steps import Step, log_step

START_MS = 1_700_000_000_000
QUERY_ID = "73186b39-922e-4208-9ce5-ca7bd052e63b"


class SettableClock:
    def __init__(self) -> None:
        self.milliseconds = START_MS

    def now_ms(self) -> int:
        return self.milliseconds


class SinkWorld:
    """A cluster, its clock, and sinks that use both."""

    def __init__(self, cluster: Any, clock: SettableClock) -> None:
        self.cluster = cluster
        self.clock = clock

    def pass_time(self, milliseconds: int) -> None:
        self.clock.milliseconds += milliseconds

    def sink(self, identity: SinkIdentity | None = None, **settings: Any) -> Sink:
        return Sink(
            cluster=self.cluster, identity=identity or query_identity(QUERY_ID), now_ms=self.clock.now_ms, **settings
        )

    def readable(self) -> list[str]:
        return [value.decode() for value in committed_values(self.cluster, TOPIC)]


def in_memory_world() -> SinkWorld:
    clock = SettableClock()
    return SinkWorld(InMemoryCluster(now_ms=clock.now_ms), clock)


def one_by_one_world() -> SinkWorld:
    """As at a broker: transactions that are ended together are ended one after the other, a step between them."""
    clock = SettableClock()
    cluster = InMemoryCluster(now_ms=clock.now_ms, ends_together=False)
    cluster.between_ends = lambda: log_step(Step.DECIDED_ENDED)
    return SinkWorld(cluster, clock)


@pytest.fixture
def embedded_world(tmp_path):
    clock = SettableClock()
    with EmbeddedCluster(tmp_path / "log", create=True, clock=clock) as cluster:
        yield SinkWorld(cluster, clock)


@pytest.fixture(params=["in memory", "one by one", "embedded"])
def world(request):
    if request.param == "embedded":
        return request.getfixturevalue("embedded_world")
    return in_memory_world() if request.param == "in memory" else one_by_one_world()
