"""The recorded scenes of consumer groups are those that a real Kafka still plays."""

import json

import pytest
from golden.consumer_group_recording import SETTINGS, TRANSCRIPTS, play_all, stored_records
from support.brokers.kafka_tools import why_unavailable
from support.brokers.real_kafka import RealKafka

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1200)]


def test_a_real_kafka_still_answers_the_recorded_scenes(tmp_path):
    reason = why_unavailable()
    if reason:
        pytest.skip(reason)
    running = RealKafka(tmp_path / "node", SETTINGS)
    try:
        again = play_all(running)
    finally:
        running.stop()
    recorded = json.loads(TRANSCRIPTS.read_text())
    assert recorded
    differences = [
        (scene, number, one, other)
        for scene, steps in recorded.items()
        for number, (one, other) in enumerate(zip(steps, again[scene], strict=True))
        if one != other
    ]
    assert not differences
    assert len(stored_records(tmp_path)) > 50
