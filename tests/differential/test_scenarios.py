"""Every API in every version, accepted and refused: a real Kafka and ours give the same answers, field by field.

What may differ stands in `excuses`, each with its reason. `--kafka real` compares two real ones.
"""

import threading

import pytest
from differential.comparison import differences
from differential.sides import all_scenarios

SCENARIOS = all_scenarios()

pytestmark = pytest.mark.kafka


def played_on_both(scenario, *sides):
    """Runs on both at the same time: no request of a scenario depends on an answer."""
    transcripts = {}

    def play(side):
        transcripts[side.name] = side.play(scenario)

    threads = [threading.Thread(target=play, args=(side,)) for side in sides]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [transcripts[side.name] for side in sides]


@pytest.mark.parametrize("slug", SCENARIOS)
def test_both_give_the_same_answers(slug, kafka, ours):
    expected, found = played_on_both(SCENARIOS[slug], kafka, ours)
    assert expected, "nothing was asked"
    unlike = differences(slug, expected, found)
    assert not unlike, "\n".join(map(str, unlike))
