"""Requests in random order: a real Kafka and ours give the same answers.

A sequence is a list of steps over two topics, two groups and two transactional ids; both sides take each step before
the next. Where they part, steps are left out one by one as long as they still part, and the rest is shown.
"""

import random

import pytest
from differential.comparison import differences
from differential.generated_steps import STEPS, GeneratedPlay

pytestmark = pytest.mark.kafka
STEP_COUNT = 30


def played(numbers, name, *sides):
    """The differences of the first answer that differs."""
    plays = [GeneratedPlay(side, name) for side in sides]
    try:
        for number in numbers:
            seed, step = number
            for play in plays:
                STEPS[step](play, random.Random(seed))
            found = differences(name, *(play.transcript for play in plays))
            if found:
                return found
    finally:
        for play in plays:
            play.close()
    return []


def shrunk(numbers, name, *sides):
    """The fewest steps that still show a difference."""
    kept = list(numbers)
    for slot in reversed(range(len(numbers))):
        fewer = kept[:slot] + kept[slot + 1 :]
        if fewer and played(fewer, f"{name}-without-{slot}", *sides):
            kept = fewer
    return kept


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(12, 400))])
def test_any_order_of_requests_gets_the_same_answers(seed, kafka, ours):
    dice = random.Random(seed)
    numbers = [(dice.random(), dice.choice(sorted(STEPS))) for _ in range(STEP_COUNT)]
    found = played(numbers, f"generated-{seed}", kafka, ours)
    if found:
        steps = shrunk(numbers, f"generated-{seed}", kafka, ours)
        pytest.fail(f"seed {seed}, steps {[step for _, step in steps]}\n" + "\n".join(map(str, found)))
