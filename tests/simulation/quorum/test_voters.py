"""Voters of the quorum in simulated networks and on simulated disks: the invariants hold, and planted bugs are caught.

More seeds: `python -m tests.simulation voters --seeds 10000`; a failing seed prints itself and the end of its story.
"""

import pytest
from simulation.quorum.planted_bugs import PLANTED
from simulation.quorum.voter_simulation import VoterSimulation
from simulation.seed_runs import Violation, run_seeds

from broker_core.raft.quorum_voter import QuorumVoter

SEED_COUNT = 25
LONG_SEED_COUNT = 5000
CATCHING_SEED_COUNT = 2000


def run(seeds, machine=QuorumVoter):
    return run_seeds(lambda seed: VoterSimulation(seed, machine), seeds)


def test_in_every_history_the_invariants_hold():
    totals = run(range(SEED_COUNT))
    assert min(totals.values()) > SEED_COUNT // 4, f"something hardly happened: {totals}"


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_in_thousands_of_histories_the_invariants_hold():
    print(LONG_SEED_COUNT, "seeds:", run(range(LONG_SEED_COUNT)))


@pytest.mark.parametrize("machine", PLANTED)
def test_a_planted_bug_of_a_voter_is_caught(machine):
    """At the seed where it is known to show; if the simulation has changed since, at another one."""
    with pytest.raises(Violation, match="seed"):
        run((PLANTED[machine], *range(CATCHING_SEED_COUNT)), machine)
