import pytest

from spark_streamlog.planning.quantity import duration_ms, size_bytes


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("15m", 900_000), ("15min", 900_000), ("5s", 5_000), ("250ms", 250), ("250", 250), (" 2 H ", 7_200_000),
        ("1d", 86_400_000), ("1999us", 1), ("0", 0), ("00007s", 7_000),
    ],
)  # fmt: skip
def test_durations_have_sparks_units(text, milliseconds):
    assert duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "s", "-5s", "1.5s", "5 weeks", "5mb", "٣s", "9" * 20, "9" * 5000])
def test_an_invalid_duration_is_none(text):
    assert duration_ms(text) is None


def test_a_duration_without_a_required_unit_is_none():
    assert duration_ms("250", needs_unit=True) is None
    assert duration_ms("250ms", needs_unit=True) == 250


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0), ("7", 7), ("7b", 7), ("1k", 1024), ("1KB", 1024), ("64MB", 64 * 1024**2), ("10 m", 10 * 1024**2),
        ("2g", 2 * 1024**3), ("2gb", 2 * 1024**3), ("1t", 1024**4), ("1pb", 1024**5),
        ("9223372036854775807", 2**63 - 1),
    ],
)  # fmt: skip
def test_sizes_have_sparks_units(text, count):
    assert size_bytes(text) == count


@pytest.mark.parametrize("text", ["", "mb", "-1", "1.5m", "10 megabytes", "10s", "1e6", "0x10", "9" * 20])
def test_an_invalid_size_is_none(text):
    assert size_bytes(text) is None
