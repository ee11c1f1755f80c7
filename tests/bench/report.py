"""What a run of the harness found, as values: samples as they were taken, and what they amount to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median

from bench.card import Bench, Better, Contender, Figure
from bench.machine import BenchMachine
from bench.process_usage import TreeUsage

GROWTH = "growth-"
"""How the names of benches begin whose cases are steps."""
FLATNESS = "most by an earlier step"
"""The case that says how flat a growth is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measured run. `usage`: CPU time and peak memory of each process tree that had a part in it."""

    bench: str
    case: str
    contender: Contender
    round_number: int
    values: Mapping[str, float]
    usage: Mapping[str, TreeUsage]
    verified: str
    load: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A run that did not end well, or a bench that could not run here."""

    bench: str
    case: str
    contender: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One cell of the table. `ratio` is to the peer's median; `is_met` is None where there is nothing to judge by."""

    bench: str
    case: str
    contender: Contender
    figure: str
    unit: str
    median: float
    low: float
    high: float
    runs: int
    ratio: float | None
    target: float | None
    is_met: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`factor`: of the amounts of a full or quick run; `seconds`: how long each bench took that is done."""

    machine: BenchMachine
    is_quick: bool
    factor: float
    scale: Mapping[str, object]
    samples: Sequence[Sample]
    failures: Sequence[Failure]
    seconds: Mapping[str, float]
    summaries: Sequence[Summary]

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def summarise(benches: Sequence[Bench], samples: Sequence[Sample], *, are_judged: bool = True) -> list[Summary]:
    """Every figure of every bench, in the order in which they ran; behind those of a growth, how flat it is.

    `are_judged` False: the amounts were too small for a verdict on targets.
    """
    found = []
    for bench in benches:
        cells = [
            summary
            for case in dict.fromkeys(sample.case for sample in samples if sample.bench == bench.name)
            for figure in bench.figures
            for summary in _cells(bench, case, figure, samples)
        ]
        found += [*cells, *_flatness(bench, cells)]
    return found if are_judged else [replace(summary, is_met=None) for summary in found]


def _flatness(bench: Bench, cells: Sequence[Summary]) -> list[Summary]:
    if bench.flat_within is None:
        return []
    found = []
    # If a step could not be measured, it is unknown whether it is flat.
    most_steps = len({cell.case for cell in cells})
    for figure in bench.figures:
        for contender in bench.contenders:
            steps = [cell.median for cell in cells if (cell.figure, cell.contender) == (figure.name, contender)]
            if len(steps) < 2:
                continue
            # By the cheapest one before, so that a dear first step hides no growth behind it.
            growth = max(step / min(steps[:number]) for number, step in enumerate(steps) if number)
            found.append(
                Summary(
                    bench=bench.name,
                    case=FLATNESS,
                    contender=contender,
                    figure=figure.name,
                    unit="times",
                    median=growth,
                    low=growth,
                    high=growth,
                    runs=len(steps),
                    ratio=None,
                    target=None if contender is Contender.KAFKA else bench.flat_within,
                    is_met=None
                    if contender is Contender.KAFKA or len(steps) < most_steps
                    else growth <= bench.flat_within,
                )
            )
    return found


def _cells(bench: Bench, case: str, figure: Figure, samples: Sequence[Sample]) -> list[Summary]:
    found = {
        contender: [
            sample.values[figure.name]
            for sample in samples
            if (sample.bench, sample.case, sample.contender) == (bench.name, case, contender)
            and figure.name in sample.values
        ]
        for contender in bench.contenders
    }
    peer = median(found[Contender.KAFKA]) if found.get(Contender.KAFKA) else None
    return [
        _cell(bench, case, figure, contender, values, peer if contender is not Contender.KAFKA else None)
        for contender, values in found.items()
        if values
    ]


def _cell(
    bench: Bench, case: str, figure: Figure, contender: Contender, values: Sequence[float], peer: float | None
) -> Summary:
    middle = median(values)
    ratio = middle / peer if peer else None
    target, judged = (figure.bound, middle) if figure.bound is not None else (figure.targets.get(contender), ratio)
    return Summary(
        bench=bench.name,
        case=case,
        contender=contender,
        figure=figure.name,
        unit=figure.unit,
        median=middle,
        low=min(values),
        high=max(values),
        runs=len(values),
        ratio=ratio,
        target=target,
        is_met=None if target is None or judged is None else is_met(figure.better, judged, target),
    )


def is_met(better: Better, found: float, target: float) -> bool:
    return found >= target if better is Better.HIGHER else found <= target


def headline(bench: Bench, summaries: Sequence[Summary]) -> list[Summary]:
    """Our cells of a bench that a reader looks for: those with a target, or all of them where none has one."""
    ours = [cell for cell in summaries if cell.bench == bench.name and cell.contender is not Contender.KAFKA]
    return [cell for cell in ours if cell.target is not None] or ours
