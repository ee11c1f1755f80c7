"""Reports as files of JSON: kept while a run goes on, read again, and several parts joined to one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

from bench.card import Bench, Contender
from bench.machine import BenchMachine
from bench.process_usage import TreeUsage
from bench.report import Failure, Report, Sample, summarise


def save(report: Report, path: Path) -> None:
    """Whole or not at all, so that an end in the middle leaves what was there."""
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.write_text(json.dumps(report.as_json(), indent=1))
    unfinished.replace(path)


def load(path: Path, benches: Sequence[Bench]) -> Report:
    """Its summaries are recreated, by the targets of today's cards."""
    found: dict[str, Any] = json.loads(path.read_text())
    samples = [
        Sample(
            **sample
            | {
                "contender": Contender(sample["contender"]),
                "usage": {label: TreeUsage(**used) for label, used in sample["usage"].items()},
            }
        )
        for sample in found["samples"]
    ]
    return Report(
        machine=BenchMachine(**found["machine"]),
        is_quick=found["is_quick"],
        factor=found["factor"],
        scale=found["scale"],
        samples=samples,
        failures=[Failure(**failure) for failure in found["failures"]],
        seconds=found["seconds"],
        summaries=summarise(benches, samples, are_judged=not found["is_quick"]),
    )


def join(reports: Sequence[Report], benches: Sequence[Bench]) -> Report:
    """A bench that several have is taken whole from the last of them, so that ours and the peer are of one run.

    Raises ValueError unless machine and amounts are the same.
    """
    return reduce(lambda before, after: _join_two(before, after, benches), reports)


def _join_two(before: Report, after: Report, benches: Sequence[Bench]) -> Report:
    if not before.machine.is_same_as(after.machine):
        raise ValueError(
            f"not of one machine and its versions: {before.machine.in_words()} and {after.machine.in_words()}"
        )
    if _amounts(before) != _amounts(after):
        raise ValueError(f"not of the same amounts: {_amounts(before)} and {_amounts(after)}")
    samples = [*(one for one in before.samples if one.bench not in after.seconds), *after.samples]
    return replace(
        after,
        machine=before.machine.joined_with(after.machine),
        samples=samples,
        failures=[*(one for one in before.failures if one.bench not in after.seconds), *after.failures],
        seconds={**before.seconds, **after.seconds},
        summaries=summarise(benches, samples, are_judged=not after.is_quick),
    )


def _amounts(report: Report) -> dict[str, object]:
    """Without the rounds: more or fewer of them change no amount."""
    return {name: value for name, value in report.scale.items() if name not in ("rounds", "warm_up_rounds")}
