"""Runs a simulation from many seeds. A failing seed is named, with the end of its story."""

from collections import Counter

STORY_LINES = 14


class Violation(AssertionError):
    """What must always be true was not, in a simulated history."""


def run_seeds(simulation_of, seeds, *, story_lines=STORY_LINES):
    """Returns the sums of what happened. `simulation_of(seed)` has `run`, `totals` and `trace`."""
    totals = Counter()
    for seed in seeds:
        simulation = simulation_of(seed)
        try:
            simulation.run()
        except AssertionError as error:
            story = "\n".join(str(line)[:600] for line in list(simulation.trace)[-story_lines:])
            raise Violation(f"seed {seed}: {error}\n{story}") from error
        totals.update(simulation.totals())
    return totals
