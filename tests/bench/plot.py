"""A report as one picture: how ours stands to the peer, and how costs grow. Needs matplotlib, of the extra `bench`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.card import Bench, Better, Contender
from bench.report import Report, Summary

BAR_INCHES = 0.28
GROWTH = "growth-"
_COLOURS = {
    Contender.EMBEDDED: "#1b6ca8",
    Contender.BROKER: "#e07a1f",
    Contender.BROKER_OS: "#f2bd7e",
    Contender.KAFKA: "#555555",
}


def draw(report: Report, benches: Sequence[Bench], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    compared = [cell for cell in report.summaries if cell.ratio is not None and not cell.bench.startswith(GROWTH)]
    growing = _growing(report)
    height = max(3.0, len(compared) * BAR_INCHES + 1.5)
    below = 3.2 if growing else 0.0
    figure = pyplot.figure(figsize=(12, height + below), layout="constrained")
    parts = figure.subfigures(2, 1, height_ratios=(height, below)) if growing else [figure]
    if compared:
        _draw_ratios(parts[0].subplots(), compared, benches)
    if growing:
        for axes, (title, cells) in zip(
            parts[1].subplots(1, len(growing), squeeze=False)[0], growing.items(), strict=True
        ):
            _draw_growth(axes, title, cells)
    figure.suptitle(report.machine.in_words().split(";")[0], fontsize=9)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _draw_ratios(axes: Any, cells: Sequence[Summary], benches: Sequence[Bench]) -> None:
    """How many times better than the peer: a cost is turned over, so that longer is better everywhere."""
    by_name = {bench.name: bench for bench in benches}
    names, lengths, goals, colours = [], [], [], []
    for cell in cells:
        is_cost = by_name[cell.bench].figure(cell.figure).better is Better.LOWER
        names.append(f"{cell.bench}, {cell.case}: {cell.figure} ({cell.contender})")
        lengths.append(_turned(cell.ratio, is_cost))
        goals.append(_turned(cell.target, is_cost))
        colours.append(_COLOURS[cell.contender])
    places = list(range(len(cells)))
    axes.barh(places, lengths, color=colours, height=0.7)
    for place, goal in zip(places, goals, strict=True):
        if goal is not None:
            axes.plot([goal, goal], [place - 0.45, place + 0.45], color="#c0182b", linewidth=2)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_yticks(places, names, fontsize=7)
    for place, length in zip(places, lengths, strict=True):
        axes.annotate(f" {length:.2f}", (length, place), va="center", fontsize=7)
    axes.invert_yaxis()
    _set_plain_log(axes, "x")
    axes.set_xlabel("times better than the peer (black line: as good; red: the target)")


def _set_plain_log(axes: Any, name: str) -> None:
    """A logarithmic axis with numbers as people write them."""
    from matplotlib.ticker import FuncFormatter

    axes.set(**{f"{name}scale": "log"})
    axis = getattr(axes, f"{name}axis")
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.tick_params(axis=name, which="both", labelsize=7)


def _turned(value: float | None, is_cost: bool) -> float | None:
    return value if value is None or not is_cost else 1 / value


def _growing(report: Report) -> dict[str, list[Summary]]:
    """One small picture for each growing thing and unit."""
    found: dict[str, list[Summary]] = {}
    for cell in report.summaries:
        if cell.bench.startswith(GROWTH) and cell.unit in ("ns/record", "1/s") and _step(cell.case) is not None:
            found.setdefault(f"{cell.bench.removeprefix(GROWTH)}: {cell.unit}", []).append(cell)
    return found


def _draw_growth(axes: Any, title: str, cells: Sequence[Summary]) -> None:
    for contender, figure in dict.fromkeys((cell.contender, cell.figure) for cell in cells):
        line = [cell for cell in cells if (cell.contender, cell.figure) == (contender, figure)]
        axes.plot(
            [_step(cell.case) for cell in line], [cell.median for cell in line], marker="o", color=_COLOURS[contender],
            linestyle="-" if figure != "read" else "--", label=f"{contender} {figure}",
        )  # fmt: skip
    axes.set_xscale("log")
    _set_plain_log(axes, "y")
    axes.set_title(title, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.legend(fontsize=6)


def _step(case: str) -> int | None:
    digits = case.removesuffix(" B").replace(",", "")
    return int(digits) if digits.isdigit() else None
