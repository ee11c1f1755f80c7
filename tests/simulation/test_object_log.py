"""The log on object storage in simulation: real code, a store where everything goes wrong, many users, many seeds.

More seeds, and one of them again: `python -m tests.simulation.objects`.
"""

from __future__ import annotations

from collections import Counter

import pytest
from simulation.objects.planted_bugs import BUGS, planted
from simulation.objects.simulation_runs import run_seed

SEED_COUNT = 250
LONG_SEED_COUNT = 20_000
SEEDS_FOR_A_BUG = 40
FIRST_SEED_FOR_A_BUG = {
    "merges_what_is_gone": 30,
    "pins_stay_in_the_group": 60,
    "retention_under_a_pin": 130,
    "a_pin_replaces_others": 150,
}
"""Of those that take longer to be found from 0 on. All are found by the first 200 seeds of the default run."""


def run_seeds(seeds) -> Counter[str]:
    """What happened in all of them."""
    happened: Counter[str] = Counter()
    for seed in seeds:
        try:
            world = run_seed(seed)
        except Exception as error:
            error.add_note(f"again: python -m tests.simulation.objects --first {seed} --seeds 1")
            raise
        happened.update(world.faults)
        happened["bytes skipped by key"] += world.skipped_bytes
    return happened


def test_every_guarantee_holds_under_faults_and_concurrency():
    happened = run_seeds(range(SEED_COUNT))
    kinds = {"refused", "lost", "lost read", "repeated", "late", "killed", "arrived after the kill"}
    assert not [kind for kind in (*kinds, "bytes skipped by key") if not happened[kind]]


@pytest.mark.parametrize("name", sorted(BUGS))
def test_a_planted_bug_is_detected(name):
    found = None
    first = FIRST_SEED_FOR_A_BUG.get(name, 0)
    assert first + SEEDS_FOR_A_BUG <= SEED_COUNT
    for seed in range(first, first + SEEDS_FOR_A_BUG):
        with planted(name):
            try:
                run_seed(seed)
            except Exception as error:
                found = error
                break
    assert found is not None, f"{SEEDS_FOR_A_BUG} seeds do not find it: {BUGS[name].__doc__}"


def test_a_seed_is_reproducible():
    first, second = run_seed(11), run_seed(11)
    assert (first.step_count, first.faults, first.store.objects) == (
        second.step_count,
        second.faults,
        second.store.objects,
    )


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_every_guarantee_holds_for_many_seeds():
    run_seeds(range(100_000, 100_000 + LONG_SEED_COUNT))
