"""The picture in the README: Spark's rows a second, from the table in docs/performance.md.

    python tests/bench/speed_picture.py > docs/spark-throughput.svg

SVG by hand: it is small, sharp at any size, and a diff of it can be read.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

TABLE: Final = Path(__file__).parents[2] / "docs" / "performance.md"
BENCHES: Final = {
    "read": "spark-read",
    "stream": "spark-stream",
    "write": "spark-write",
    "copy, stream to stream": "spark-copy",
}
CONTENDERS: Final = (
    ("a directory", "#1f6fb2"),
    ("streamlog broker", "#e0791f"),
    ("Spark's connector, Kafka", "#8a8a8a"),
)
WIDTH, LEFT, BAR, GROUP, TOP = 720, 170, 12, 58, 34
UNITS: Final = {"": 1e-6, "k": 1e-3, "M": 1.0}
MEDIAN: Final = re.compile(r"([\d.]+) ?([kM]?) rows/s")


def millions_by_bench(table: str) -> dict[str, tuple[float, float, float]]:
    """Label to the medians of directory, broker and peer, in millions of rows a second. Raises LookupError."""
    found = {}
    for label, bench in BENCHES.items():
        rows = [
            [cell.strip() for cell in line.split("|")[1:-1]]
            for line in table.splitlines()
            if line.startswith(f"| {bench}, ") and ": rows/s |" in line
        ]
        medians = {row[1]: (_millions(row[2]), _millions(row[3])) for row in rows}
        (embedded, peer), (broker, _) = medians["embedded"], medians["broker"]
        found[label] = (embedded, broker, peer)
    return found


def _millions(cell: str) -> float:
    median = MEDIAN.match(cell)
    if median is None:
        raise LookupError(f"{cell!r} is not a rate")
    return float(median[1]) * UNITS[median[2]]


def draw_svg(table: str) -> str:
    by_bench = millions_by_bench(table)
    scale = (WIDTH - LEFT - 60) / max(max(rates) for rates in by_bench.values())
    height = TOP + GROUP * len(by_bench)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        "<title>Millions of rows a second: a directory, the streamlog broker, and Spark's connector with Kafka</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    place = LEFT
    for name, colour in CONTENDERS:
        lines.append(f'<rect x="{place}" y="8" width="12" height="12" fill="{colour}"/>')
        lines.append(f'<text x="{place + 18}" y="18">{name}</text>')
        place += 38 + 7 * len(name)
    for number, (label, rates) in enumerate(by_bench.items()):
        top = TOP + GROUP * number
        lines.append(f'<text x="{LEFT - 12}" y="{top + 28}" text-anchor="end">{label}</text>')
        for (_, colour), rate, y in zip(CONTENDERS, rates, range(top, top + GROUP, BAR + 3), strict=False):
            width = round(rate * scale)
            lines.append(f'<rect x="{LEFT}" y="{y}" width="{width}" height="{BAR}" fill="{colour}"/>')
            lines.append(f'<text x="{LEFT + width + 6}" y="{y + 10}">{rate:.2f}</text>')
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    print(draw_svg(TABLE.read_text()), end="")
