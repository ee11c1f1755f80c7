"""The README's picture shows what the table says."""

import pytest
from bench.speed_picture import TABLE, draw_svg, millions_by_bench

TABLE_ROWS = """
| spark-read, 10 rows: rows/s | embedded | 4.69 M rows/s (4.65 M-4.73 M) | 1.18 M rows/s (1.10 M-1.26 M) | 3.98 | met |
| spark-read, 10 rows: rows/s | broker | 3.43 M rows/s (3.39 M-3.48 M) | 1.18 M rows/s (1.10 M-1.26 M) | 2.92 | met |
| spark-stream, 10 rows: rows/s | embedded | 3 M rows/s | 1 M rows/s | 3 | |
| spark-stream, 10 rows: rows/s | broker | 2 M rows/s | 1 M rows/s | 2 | |
| spark-write, 10 rows: rows/s | embedded | 900 k rows/s | 1 M rows/s | 0.9 | |
| spark-write, 10 rows: rows/s | broker | 500 rows/s | 1 M rows/s | 0 | |
| spark-copy, 10 rows: rows/s | embedded | 1.55 M rows/s (1.54 M-1.56 M) | 586 k rows/s (584 k-588 k) | 2.64 | met |
| spark-copy, 10 rows: rows/s | broker | 1.27 M rows/s (1.21 M-1.33 M) | 586 k rows/s (584 k-588 k) | 2.17 | met |
"""


def test_the_medians_of_the_table_are_read_in_millions():
    found = millions_by_bench(TABLE_ROWS)
    assert list(found) == ["read", "stream", "write", "copy, stream to stream"]
    expected = [(4.69, 3.43, 1.18), (3, 2, 1), (0.9, 0.0005, 1), (1.55, 1.27, 0.586)]
    assert [pytest.approx(rates) for rates in expected] == list(found.values())


def test_a_table_without_a_bench_cannot_be_drawn():
    with pytest.raises(LookupError):
        draw_svg(TABLE_ROWS.replace("spark-copy", "spark-other"))


def test_the_picture_matches_the_table_in_the_documents():
    assert (TABLE.parent / "spark-throughput.svg").read_text() == draw_svg(TABLE.read_text())
