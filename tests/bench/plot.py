"""A report as one picture: how ours stands to the peer, and how costs grow. Needs matplotlib, of the extra `bench`.

Its upper part has the rows of the short table that have a ratio, in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.card import Bench, Better, Contender
from bench.report import GROWTH, Report, Summary, headline

BAR_INCHES = 0.27
GROWTH_INCHES = 3.2
GROWTHS_IN_A_ROW = 3
_MET, _MISSED = "#2e7d32", "#c0182b"
_COLOURS = {
    Contender.EMBEDDED: "#1b6ca8",
    Contender.BROKER: "#e07a1f",
    Contender.BROKER_OS: "#f2bd7e",
    Contender.OBJECTS: "#3a8f6b",
    Contender.OBJECTS_30_MS: "#7cbf9f",
    Contender.OBJECTS_100_MS: "#b9dfcc",
    Contender.KAFKA: "#555555",
}


def draw(report: Report, benches: Sequence[Bench], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    compared = [
        cell
        for bench in benches
        if not bench.name.startswith(GROWTH)
        for cell in headline(bench, report.summaries)
        if cell.ratio is not None
    ]
    growing = _growing(report)
    rows = -(-len(growing) // GROWTHS_IN_A_ROW)
    heights = [len(compared) * BAR_INCHES + 1.6 if compared else 0.5, *([GROWTH_INCHES * rows] if rows else [])]
    figure = pyplot.figure(figsize=(12, sum(heights)), layout="constrained")
    parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    parts[0].suptitle(report.machine.in_words().split(";")[0], fontsize=9)
    if compared:
        _draw_ratios(parts[0].subplots(), compared, benches)
    if growing:
        axes = list(parts[1].subplots(rows, GROWTHS_IN_A_ROW, squeeze=False).flat)
        for (title, cells), own in zip(growing.items(), axes, strict=False):
            _draw_growth(own, title, cells)
        for unused in axes[len(growing) :]:
            unused.set_axis_off()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _draw_ratios(axes: Any, cells: Sequence[Summary], benches: Sequence[Bench]) -> None:
    """How many times better than the peer: a cost is turned over, so that to the right is better everywhere."""
    by_name = {bench.name: bench for bench in benches}
    for place, cell in enumerate(cells):
        is_cost = by_name[cell.bench].figure(cell.figure).better is Better.LOWER
        length, goal = _turned(cell.ratio, is_cost), _turned(cell.target, is_cost)
        assert length is not None, cell
        axes.barh(place, length - 1, left=1, color=_COLOURS[cell.contender], height=0.7)
        verdict = {True: _MET, False: _MISSED, None: "black"}[cell.is_met]
        if goal is not None:
            axes.plot([goal, goal], [place - 0.45, place + 0.45], color=verdict, linewidth=2.5)
        # Outside of the bar and of the target's line.
        is_ahead = length >= 1
        end = (max if is_ahead else min)(length, length if goal is None else goal)
        axes.annotate(
            f"{length:.2f} missed" if cell.is_met is False else f"{length:.2f}", (end, place), va="center",
            xytext=(4 if is_ahead else -4, 0), textcoords="offset points", ha="left" if is_ahead else "right",
            fontsize=7, color=verdict, fontweight="bold" if cell.is_met is False else "normal",
        )  # fmt: skip
    axes.axvline(1.0, color="black", linewidth=0.8)
    names = [f"{cell.bench}, {cell.case}: {cell.figure} ({cell.contender})" for cell in cells]
    axes.set_yticks(range(len(cells)), names, fontsize=7)
    for label, cell in zip(axes.get_yticklabels(), cells, strict=True):
        label.set_color(_MISSED if cell.is_met is False else "black")
    axes.set_ylim(len(cells) - 0.4, -0.6)
    axes.margins(x=0.12)
    _set_plain_log(axes, "x")
    axes.grid(axis="x", which="both", linewidth=0.3)
    axes.set_axisbelow(True)
    axes.set_xlabel(
        "times better than the peer; upright lines: the target, green where it is met, red where it is missed",
        fontsize=8,
    )


def _set_plain_log(axes: Any, name: str) -> None:
    """A logarithmic axis with numbers as people write them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set(**{f"{name}scale": "log"})
    axis = getattr(axes, f"{name}axis")
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis=name, which="both", labelsize=7)


def _turned(value: float | None, is_cost: bool) -> float | None:
    return value if value is None or not is_cost else 1 / value


def _growing(report: Report) -> dict[str, list[Summary]]:
    """One small picture for each growing thing and unit."""
    found: dict[str, list[Summary]] = {}
    for cell in report.summaries:
        if cell.bench.startswith(GROWTH) and _step(cell.case) is not None:
            found.setdefault(f"{cell.bench.removeprefix(GROWTH)}: {cell.unit}", []).append(cell)
    return found


def _draw_growth(axes: Any, title: str, cells: Sequence[Summary]) -> None:
    figures = list(dict.fromkeys(cell.figure for cell in cells))
    for contender, figure in dict.fromkeys((cell.contender, cell.figure) for cell in cells):
        line = [cell for cell in cells if (cell.contender, cell.figure) == (contender, figure)]
        axes.plot(
            [_step(cell.case) for cell in line], [cell.median for cell in line], marker="o", markersize=4,
            color=_COLOURS[contender], linestyle="-" if figure == figures[0] else "--", label=f"{contender} {figure}",
        )  # fmt: skip
    _set_plain_log(axes, "x")
    _set_plain_log(axes, "y")
    steps = list(dict.fromkeys(cell.case for cell in cells))
    axes.set_xticks([_step(step) for step in steps], [step.removesuffix(" B") for step in steps])
    axes.minorticks_off()
    axes.grid(linewidth=0.3)
    axes.set_title(title, fontsize=8)
    axes.legend(fontsize=6)


def _step(case: str) -> int | None:
    digits = case.removesuffix(" B").replace(",", "")
    return int(digits) if digits.isdigit() else None
