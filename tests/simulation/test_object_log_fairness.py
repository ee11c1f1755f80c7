"""Sixteen writers that commit to one log without a pause, in simulated time: each gets its turn."""

from unittest.mock import patch

import pytest
from simulation.objects.faulty_objects import FaultRates
from simulation.objects.timed_writers import TimedWriters

from broker_core.object_log.write_turns import WriteTurns

WRITER_COUNT = 16
DURATION_MS = 30_000
ONE_WAY_MS = (10, 20)
LEAST_SHARE = 0.4
"""Of the commits that a writer would have if all had the same count."""
MOST_LOST_RACES = 5 * WRITER_COUNT
"""In a row, by any commit."""


def run(seed, rates):
    world = TimedWriters(seed, writer_count=WRITER_COUNT, one_way_ms=ONE_WAY_MS, rates=rates)
    world.run(DURATION_MS)
    counts = [writer.commit_count for writer in world.writers]
    return world, min(counts) / (sum(counts) / WRITER_COUNT), max(writer.most_lost for writer in world.writers)


CHANCES = (0.0, 0.01)


@pytest.mark.parametrize(
    ("seed", "chance"),
    [(0, 0.0), (1, 0.01), *(pytest.param(s, c, marks=pytest.mark.long) for s in range(20) for c in CHANCES)],
)
def test_no_writer_starves(seed, chance):
    world, share, lost = run(seed, FaultRates(chance, chance, chance, chance))
    assert share >= LEAST_SHARE
    assert lost <= MOST_LOST_RACES
    assert (world.faults > 100) == (chance > 0)


def test_without_turns_some_writer_starves():
    with patch.object(WriteTurns, "wait_before_next_ms", lambda self, now_ms, dice: 0.0):
        _, share, lost = run(1, FaultRates())
    assert share < LEAST_SHARE / 2
    assert lost > MOST_LOST_RACES
