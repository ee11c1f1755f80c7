"""python -m tests.simulation: many seeds of one simulation, with one line of figures at the end.

    python -m tests.simulation replicas --seeds 10000 --first 0
    python -m tests.simulation voters --seeds 1 --first 17 --trace
    python -m tests.simulation objects --seeds 1000

`objects` is the log on object storage, `voters`, `changes` (of the voters) and `observers` are the metadata
quorum, `replicas` is replication. A
seed that violates an invariant is told with the command that runs it again; exit status 1. `--trace` tells the end of
each story, of a page.
"""

import argparse
import runpy
import sys
import time
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from simulation.quorum.changing_voters import ChangingVoterSimulation  # noqa: E402
from simulation.quorum.observer_simulation import ObserverSimulation  # noqa: E402
from simulation.quorum.voter_simulation import VoterSimulation  # noqa: E402
from simulation.replication.replication_simulation import ReplicationSimulation  # noqa: E402
from simulation.seed_runs import Violation, run_seeds  # noqa: E402

SIMULATIONS = {
    "changes": ChangingVoterSimulation,
    "observers": ObserverSimulation,
    "replicas": ReplicationSimulation,
    "voters": VoterSimulation,
}
PAGE_LINES = 60


def main() -> int:
    if sys.argv[1:2] == ["objects"]:
        del sys.argv[1]
        runpy.run_module("tests.simulation.objects", run_name="__main__", alter_sys=True)
    arguments = argparse.ArgumentParser(prog="python -m tests.simulation")
    arguments.add_argument("simulation", choices=["objects", *SIMULATIONS])
    arguments.add_argument("--seeds", type=int, default=1000, help="how many")
    arguments.add_argument("--first", type=int, default=0, help="the first one")
    arguments.add_argument("--trace", action="store_true", help="tell the end of each story")
    chosen = arguments.parse_args()
    traced = []

    def simulation_of(seed):
        simulation = SIMULATIONS[chosen.simulation](seed)
        traced[:] = [simulation]
        return simulation

    began, seed = time.monotonic(), chosen.first
    totals = None
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        try:
            found = run_seeds(simulation_of, [seed], story_lines=PAGE_LINES)
        except Violation as violation:
            print(violation)
            print(f"again: python -m tests.simulation {chosen.simulation} --first {seed} --seeds 1")
            return 1
        totals = found if totals is None else totals + found
        if chosen.trace:
            print(*(str(line)[:600] for line in list(traced[0].trace)[-PAGE_LINES:]), sep="\n")
    told = ", ".join(f"{count} {name}" for name, count in sorted((totals or {}).items()))
    print(f"{chosen.seeds} seeds from {chosen.first} in {time.monotonic() - began:.1f} s: {told}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
