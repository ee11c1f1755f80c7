"""A report as Markdown, for a README: the table, what was checked, what each process used, and what failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.card import Bench, Better, Contender
from bench.report import Report, Sample, Summary


def to_markdown(report: Report, benches: Sequence[Bench]) -> str:
    parts = [report.machine.in_words(), _table(report, benches), _usage(report.samples), _checks(report, benches)]
    if report.failures:
        lines = [f"- {one.bench}, {one.case}, {one.contender}: {one.reason.splitlines()[0]}" for one in report.failures]
        parts.append("Not measured:\n\n" + "\n".join(lines))
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(report: Report, benches: Sequence[Bench]) -> str:
    rows = []
    for bench in benches:
        cells = [summary for summary in report.summaries if summary.bench == bench.name]
        for case, figure in dict.fromkeys((cell.case, cell.figure) for cell in cells):
            found = {cell.contender: cell for cell in cells if (cell.case, cell.figure) == (case, figure)}
            rows += _rows(bench, case, figure, found)
    return _lines(("what", "contender", "median (lowest-highest)", "peer", "ours / peer", "target"), rows)


def _rows(bench: Bench, case: str, figure: str, found: dict[Contender, Summary]) -> list[tuple[str, ...]]:
    peer = found.pop(Contender.KAFKA, None)
    if not found and peer is not None:
        return [(f"{bench.name}, {case}: {figure}", "kafka", _spread(peer), "", "", "")]
    return [
        (
            f"{bench.name}, {case}: {figure}",
            contender,
            _spread(cell),
            _spread(peer) if peer else "",
            f"{cell.ratio:.2f}" if cell.ratio is not None else "",
            _target(bench, cell),
        )
        for contender, cell in found.items()
    ]


def _spread(cell: Summary) -> str:
    middle = f"{number(cell.median)} {cell.unit}"
    return middle if cell.runs < 2 or cell.low == cell.high else f"{middle} ({number(cell.low)}-{number(cell.high)})"


def _target(bench: Bench, cell: Summary) -> str:
    if cell.target is None:
        return ""
    is_flatness = cell.unit == "times"
    sign = "≤" if is_flatness or bench.figure(cell.figure).better is Better.LOWER else "≥"
    verdict = {True: "met", False: "**missed**", None: "not judged"}[cell.is_met]
    return f"{sign} {cell.target:g}: {verdict}"


def number(value: float) -> str:
    """Three digits that say something, and words for the large ones."""
    if value >= 1e6:
        return f"{value / 1e6:.2f} M"
    if value >= 1e4:
        return f"{value / 1e3:.0f} k"
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _usage(samples: Sequence[Sample]) -> str:
    rows = []
    keys = dict.fromkeys((sample.bench, sample.case, sample.contender) for sample in samples)
    for bench, case, contender in keys:
        of_case = [s for s in samples if (s.bench, s.case, s.contender) == (bench, case, contender)]
        labels = dict.fromkeys(label for sample in of_case for label in sample.usage if _has_part(label, contender))
        for label in labels:
            used = [sample.usage[label] for sample in of_case if label in sample.usage]
            seconds = sum(one.cpu_s for one in used) / len(used)
            peak = max(one.peak_bytes for one in used) / 2**20
            rows.append((f"{bench}, {case}", contender, label, f"{seconds:.1f} s", f"{peak:,.0f} MiB"))
    if not rows:
        return ""
    title = "CPU time (mean of the rounds) and peak memory of each process tree:"
    return f"{title}\n\n" + _lines(("what", "contender", "process", "CPU time", "peak memory"), rows)


def _has_part(label: str, contender: Contender) -> bool:
    """Every process that lives is watched; those of other contenders idle."""
    if label.endswith(" process"):
        return label == f"{contender} process"
    if label.startswith("Spark"):
        return (label == "Spark of the peer") == (contender is Contender.KAFKA)
    return True


def _checks(report: Report, benches: Sequence[Bench]) -> str:
    measured = {sample.bench for sample in report.samples}
    lines = [f"- {bench.name}: {bench.verified}" for bench in benches if bench.name in measured]
    return "What was checked of the results:\n\n" + "\n".join(lines) if lines else ""


def _lines(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    shown = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    return "\n".join([*shown, *("| " + " | ".join(row) + " |" for row in rows)])
