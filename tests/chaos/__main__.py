"""`python -m tests.chaos --minutes 30 --seed 7`: see the README of this folder."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from chaos.chaos_run import ChaosRun


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--directory", type=Path, help="of the cluster; a temporary one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chaos-") as temporary:
        path = given.directory or Path(temporary) / "cluster"
        run = ChaosRun(path, seed=given.seed, node_count=given.nodes, say=print)
        run.for_minutes(given.minutes)
        for anomaly in run.anomalies[:50]:
            print(anomaly)
        print(run.figures())
        return 1 if run.anomalies else 0


if __name__ == "__main__":
    sys.exit(main())
