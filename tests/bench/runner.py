"""Runs benches: every case at each contender in turn, some rounds after a warm-up, and says on stderr how it goes."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from bench.broker_profile import busiest
from bench.card import Bench, BenchOutcome, Contender
from bench.report import Failure, Sample
from bench.stage import Stage


class BenchRunner:
    """Collects samples and failures. A bench that fails ends its own case at that contender, and nothing else."""

    def __init__(
        self, stage: Stage, contenders: Collection[Contender], missing: dict[str, str], profiles: Path | None = None
    ) -> None:
        """`missing`: what this machine lacks of that which benches need, with the reason. `profiles`: a folder for
        those of our broker, made in a round of their own.
        """
        self.samples: list[Sample] = []
        self.seconds: dict[str, float] = {}
        """How long each bench took that is done."""
        self.failures: list[Failure] = []
        self._stage = stage
        self._contenders = contenders
        self._missing = missing
        self._profiles = profiles
        self._begin = time.monotonic()

    def run(self, benches: Sequence[Bench]) -> Iterator[Bench]:
        """Gives each bench once it is done, so that what was found so far can be kept."""
        for number, bench in enumerate(benches, 1):
            self._say(f"[{number}/{len(benches)}] {bench.name}: {bench.what}")
            begin = time.monotonic()
            reason = next((self._missing[need] for need in sorted(bench.needs) if need in self._missing), None)
            if reason is not None:
                self._fail(bench, "all", "all", f"skipped: {reason}")
            else:
                for case in bench.cases(self._stage.scale):
                    self._run_case(bench, case)
            self.seconds[bench.name] = round(time.monotonic() - begin, 1)
            yield bench

    def _run_case(self, bench: Bench, case: str) -> None:
        scale = self._stage.scale
        running = [contender for contender in bench.contenders if contender in self._contenders]
        warm_ups = scale.warm_up_rounds if bench.is_warmed_up else 0
        for round_number in range(-warm_ups, scale.rounds):
            # The order changes from round to round, so that no contender always runs after the same other one.
            turn = running if round_number % 2 == 0 else running[::-1]
            for contender in list(turn):
                try:
                    outcome = bench.run(self._stage, contender, case)
                except Exception as error:
                    # Whatever it is, the other benches have nothing to do with it; it is told in the report.
                    self._fail(bench, case, contender, f"{type(error).__name__}: {error}")
                    running.remove(contender)
                    continue
                self._keep(bench, case, contender, round_number, outcome)
        if self._profiles is not None and Contender.BROKER in running:
            self._profile(bench, case, self._profiles)

    def _profile(self, bench: Bench, case: str, folder: Path) -> None:
        name = re.sub(r"[^A-Za-z0-9]+", "-", f"{bench.name}-{case}").strip("-")
        self._stage.profile_into = path = folder / f"{name}.txt"
        try:
            bench.run(self._stage, Contender.BROKER, case)
        except Exception as error:
            self._say(f"    {case}: no profile: {error}")
        finally:
            self._stage.profile_into = None
        if path.exists():
            self._say("\n".join([f"    {case} | where the broker's time goes, see {path}", *busiest(path)]))

    def _keep(self, bench: Bench, case: str, contender: Contender, round_number: int, outcome: BenchOutcome) -> None:
        shown = "  ".join(
            f"{figure.name} {outcome.values[figure.name]:,.4g} {figure.unit}"
            for figure in bench.figures
            if figure.name in outcome.values
        )
        kind = "warm-up" if round_number < 0 else f"round {round_number + 1}"
        self._say(f"    {case} | {contender} | {kind}: {shown}")
        if round_number >= 0:
            self.samples.append(
                Sample(
                    bench=bench.name,
                    case=case,
                    contender=contender,
                    round_number=round_number,
                    values=outcome.values,
                    usage=self._stage.last_usage,
                    verified=outcome.verified,
                    load=os.getloadavg()[0],
                )
            )

    def _fail(self, bench: Bench, case: str, contender: str, reason: str) -> None:
        self.failures.append(Failure(bench=bench.name, case=case, contender=contender, reason=reason))
        self._say(f"    {case} | {contender}: {reason}")

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._begin:7.1f} s  {text}", file=sys.stderr, flush=True)
