"""A report as Markdown. Short, for a README: what has a target, and how costs grow. Long: everything that was found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.card import Bench, Better, Contender
from bench.report import FLATNESS, GROWTH, Report, Sample, Summary, headline

_TITLES = ("what", "contender", "median (lowest-highest)", "peer", "ours / peer", "target")


def to_markdown(report: Report, benches: Sequence[Bench], *, is_long: bool) -> str:
    parts = [_head(report), _compared(report, benches, is_long=is_long)]
    parts += [_growth(report, bench) for bench in benches if bench.name.startswith(GROWTH)]
    if is_long:
        parts += [_usage(report.samples), _checks(report.samples), _times(report)]
    if report.failures:
        lines = [f"- {one.bench}, {one.case}, {one.contender}: {one.reason.splitlines()[0]}" for one in report.failures]
        parts.append("Not measured:\n\n" + "\n".join(lines))
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(report: Report) -> str:
    amounts = ""
    if report.is_quick or report.factor != 1:
        amounts = f" Not the full amounts: {'the quick ones' if report.is_quick else f'{report.factor:g} of them'}."
    return f"{report.machine.in_words()}.{amounts}"


def _compared(report: Report, benches: Sequence[Bench], *, is_long: bool) -> str:
    """What does not grow."""
    rows = []
    for bench in benches:
        if not bench.name.startswith(GROWTH):
            cells = [summary for summary in report.summaries if summary.bench == bench.name]
            ours = [cell for cell in cells if cell.contender is not Contender.KAFKA]
            shown = ours if is_long else headline(bench, cells)
            # Without ours there is the peer's at least.
            rows += [_row(bench, cell, _peer_of(cell, cells)) for cell in shown or cells]
    return _lines(_TITLES, rows) if rows else ""


def _peer_of(cell: Summary, cells: Sequence[Summary]) -> Summary | None:
    key = (cell.case, cell.figure, Contender.KAFKA)
    return next((one for one in cells if one is not cell and (one.case, one.figure, one.contender) == key), None)


def _row(bench: Bench, cell: Summary, peer: Summary | None) -> tuple[str, ...]:
    return (
        f"{bench.name}, {cell.case}: {cell.figure}",
        cell.contender,
        _spread(cell),
        _spread(peer) if peer else "",
        f"{cell.ratio:.2f}" if cell.ratio is not None else "",
        _target(bench, cell),
    )


def _growth(report: Report, bench: Bench) -> str:
    """A line for each figure and contender, a column for each step."""
    cells = [summary for summary in report.summaries if summary.bench == bench.name]
    steps = list(dict.fromkeys(cell.case for cell in cells if cell.case != FLATNESS))
    rows = []
    for figure, contender in dict.fromkeys((cell.figure, cell.contender) for cell in cells):
        of_line = {cell.case: cell for cell in cells if (cell.figure, cell.contender) == (figure, contender)}
        flatness = of_line.get(FLATNESS)
        growth = [f"{flatness.median:.2f}", _target(bench, flatness)] if flatness else ["", ""]
        unit = bench.figure(figure).unit
        values = [_spread(of_line[step], with_unit=False) if step in of_line else "" for step in steps]
        rows.append((f"{figure}, {unit}", contender, *values, *(growth if bench.flat_within else [])))
    if not rows:
        return ""
    titles = (bench.name, "contender", *steps, *([FLATNESS, "target"] if bench.flat_within else []))
    return f"{bench.what}:\n\n" + _lines(titles, rows)


def _spread(cell: Summary, *, with_unit: bool = True) -> str:
    middle = f"{number(cell.median)} {cell.unit}" if with_unit else number(cell.median)
    low, high = number(cell.low), number(cell.high)
    return middle if low == high else f"{middle} ({low}-{high})"


def _target(bench: Bench, cell: Summary) -> str:
    if cell.target is None:
        return ""
    is_cost = cell.case == FLATNESS or bench.figure(cell.figure).better is Better.LOWER
    verdict = {True: "met", False: "**missed**", None: "not judged"}[cell.is_met]
    return f"{'≤' if is_cost else '≥'} {cell.target:g}: {verdict}"


def number(value: float) -> str:
    """Three digits that say something, and words for the large ones."""
    if value >= 1e6:
        return f"{value / 1e6:.2f} M"
    if value >= 1e4:
        return f"{value / 1e3:.0f} k" if value >= 1e5 else f"{value / 1e3:.1f} k"
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _usage(samples: Sequence[Sample]) -> str:
    rows = []
    keys = dict.fromkeys((sample.bench, sample.case, sample.contender) for sample in samples)
    for bench, case, contender in keys:
        of_case = [s for s in samples if (s.bench, s.case, s.contender) == (bench, case, contender)]
        for label in dict.fromkeys(label for sample in of_case for label in sample.usage):
            used = [sample.usage[label] for sample in of_case if label in sample.usage]
            seconds = sum(one.cpu_s for one in used) / len(used)
            peak = max(one.peak_bytes for one in used) / 2**20
            rows.append((f"{bench}, {case}", contender, label, f"{seconds:.1f} s", f"{peak:,.0f} MiB"))
    if not rows:
        return ""
    title = "CPU time (mean of the rounds) and peak memory of each process tree:"
    return f"{title}\n\n" + _lines(("what", "contender", "process", "CPU time", "peak memory"), rows)


def _checks(samples: Sequence[Sample]) -> str:
    """What was said of the last round, which says it with its amounts."""
    found = {(sample.bench, sample.case, sample.contender): sample.verified for sample in samples}
    lines = [f"- {bench}, {case}, {contender}: {verified}" for (bench, case, contender), verified in found.items()]
    return "What was checked of the results:\n\n" + "\n".join(lines) if lines else ""


def _times(report: Report) -> str:
    shown = ", ".join(f"{bench} {seconds:.0f} s" for bench, seconds in report.seconds.items())
    return f"The run took {sum(report.seconds.values()) / 60:.0f} minutes: {shown}."


def _lines(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    shown = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    return "\n".join([*shown, *("| " + " | ".join(row) + " |" for row in rows)])
