"""Ours gives the recorded answers of a real Kafka 4.3.1: the part of the comparison that needs no Kafka.

Lowest and newest versions; `test_scenarios` asks in all of them, and a real one beside.
"""

import pytest
from differential.comparison import differences
from differential.recording import read_recording
from differential.sides import SETTINGS, all_scenarios, side_of
from support.brokers.served_broker import ServedBroker

SCENARIOS = all_scenarios()
RECORDED = read_recording()


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    running = ServedBroker(tmp_path_factory.mktemp("ours") / "node", SETTINGS)
    yield side_of("ours", running)
    running.stop()


@pytest.mark.parametrize("slug", RECORDED)
def test_ours_answers_as_kafka_did(slug, ours):
    unlike = differences(slug, RECORDED[slug], ours.play(SCENARIOS[slug]))
    assert not unlike, "\n".join(map(str, unlike))


def test_every_scenario_to_record_is_recorded():
    assert set(RECORDED) == {slug for slug, scenario in SCENARIOS.items() if scenario.is_recorded}
