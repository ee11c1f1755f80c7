"""python -m tests.simulation.objects: many seeds of the object log's simulation, with one line of figures.

    python -m tests.simulation.objects --seeds 1000 --first 0
    python -m tests.simulation.objects --seeds 200 --bug merge_forgets

A seed that fails is told with its error and the command that runs it again; exit status 1.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent.parent.parent
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from simulation.objects.planted_bugs import BUGS, planted  # noqa: E402
from simulation.objects.simulation_runs import run_seed  # noqa: E402


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.simulation.objects")
    arguments.add_argument("--seeds", type=int, default=1000, help="how many")
    arguments.add_argument("--first", type=int, default=0, help="the first one")
    arguments.add_argument("--bug", choices=sorted(BUGS), help="with this bug planted; it must be found")
    chosen = arguments.parse_args()
    faults: Counter[str] = Counter()
    commits = steps = skipped_bytes = 0
    began, cpu_began = time.monotonic(), time.process_time()
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        try:
            with planted(chosen.bug):
                world = run_seed(seed)
        except Exception as error:
            traceback.print_exc()
            bug = f" --bug {chosen.bug}" if chosen.bug else ""
            print(f"seed {seed}: {type(error).__name__}: {error}")
            print(f"again: python -m tests.simulation.objects --first {seed} --seeds 1{bug}")
            return 1
        faults.update(world.faults)
        commits += world.oracle.number
        steps += world.step_count
        skipped_bytes += world.skipped_bytes
    seconds, cpu_seconds = time.monotonic() - began, time.process_time() - cpu_began
    told = ", ".join(f"{count} {name}" for name, count in sorted(faults.items()))
    print(
        f"{chosen.seeds} seeds from {chosen.first} in {seconds:.1f} s ({cpu_seconds:.1f} s CPU): {steps} steps,"
        f" {commits} commits, {skipped_bytes} bytes skipped by key; {told}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
