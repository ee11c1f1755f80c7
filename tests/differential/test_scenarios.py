"""Every API in every version, what is taken and what is refused: a real Kafka and ours answer alike, field by field.

What may differ stands in `excuses`, each with its reason. `--kafka real` compares two real ones.
"""

import threading

import pytest
from differential.comparison import differences
from differential.sides import all_scenarios

SCENARIOS = all_scenarios()

pytestmark = pytest.mark.kafka


def played_on_both(scenario, *sides):
    """Both at the same time: a scenario looks at no answer to decide what it asks."""
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
def test_both_answer_alike(slug, kafka, ours):
    expected, found = played_on_both(SCENARIOS[slug], kafka, ours)
    assert expected, "nothing was asked"
    unlike = differences(slug, expected, found)
    assert not unlike, "\n".join(map(str, unlike))
