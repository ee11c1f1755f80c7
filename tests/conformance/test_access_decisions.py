"""The recorded access decisions are still those of Kafka's class."""

import pytest
from support.brokers.access_decisions import kafkas_answers, recorded_worlds
from support.brokers.kafka_tools import why_unavailable

pytestmark = pytest.mark.kafka


def test_the_recorded_decisions_are_those_of_kafkas_own_authorizer():
    reason = why_unavailable()
    if reason:
        pytest.skip(reason)
    worlds = recorded_worlds()
    assert kafkas_answers(worlds) == [world.allowed for world in worlds]
