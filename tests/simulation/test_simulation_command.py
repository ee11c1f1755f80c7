"""`python -m tests.simulation` and what it runs."""

import subprocess
import sys
from pathlib import Path

import pytest
from simulation.seed_runs import Violation, run_seeds

ROOT = Path(__file__).parents[2]


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("simulation", ["objects", "observers", "replicas", "voters"])
def test_seeds_of_each_simulation_end_in_one_line_of_figures(simulation):
    done = command(simulation, "--seeds", "2", "--first", "3")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert line.startswith("2 seeds from 3 in ")


def test_a_trace_tells_the_end_of_the_story():
    done = command("voters", "--seeds", "1", "--trace")
    assert done.returncode == 0, done.stderr
    assert 10 < len(done.stdout.splitlines()) <= 61


class EndingBadly:
    def __init__(self, seed):
        self.seed, self.trace = seed, []

    def run(self):
        self.trace += [f"step {number}" for number in range(20)]
        assert self.seed < 2, "two leaders"

    def totals(self):
        return {"steps": len(self.trace)}


def test_a_seed_that_violates_an_invariant_is_named_with_the_end_of_its_story():
    assert run_seeds(EndingBadly, range(2)) == {"steps": 40}
    with pytest.raises(Violation, match=r"^seed 2: two leaders(?s:.*)\nstep 18\nstep 19$"):
        run_seeds(EndingBadly, range(9), story_lines=2)
