"""What --from means."""

import pytest

from broker_core.cli.error_sentence import UsageError
from broker_core.cli.start_offsets import StartOffset, StartTime, parse_start
from broker_core.model.identifiers import OffsetSpec


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("earliest", OffsetSpec.EARLIEST),
        (" Latest ", OffsetSpec.LATEST),
        ("0", StartOffset(offset=0)),
        ("1700000000000", StartOffset(offset=1_700_000_000_000)),
        ("2024-01-02", StartTime(timestamp_ms=1_704_153_600_000)),
        ("2024-01-02T03:04:05.678Z", StartTime(timestamp_ms=1_704_164_645_678)),
        ("2024-01-02T03:04:05+01:00", StartTime(timestamp_ms=1_704_161_045_000)),
        ("1960-01-01T00:00:00Z", StartTime(timestamp_ms=0)),
    ],
)
def test_a_start_position_is_a_word_an_offset_or_a_time(text, meaning):
    assert parse_start(text) == meaning


@pytest.mark.parametrize(
    ("second", "second_ms"),
    [
        ("1970-01-01T02:18:32", 8_312_000), ("2026-07-29T10:11:12", 1_785_319_872_000),
        ("6429-10-01T08:06:09", 140_736_125_169_000),
    ],
)  # fmt: skip
def test_a_time_is_exact_to_the_millisecond(second, second_ms):
    # As a float times 1000 some were a millisecond too low.
    for ms in range(1000):
        assert parse_start(f"{second}.{ms:03}Z") == StartTime(timestamp_ms=second_ms + ms)


def test_a_time_between_two_milliseconds_is_the_later_one():
    assert parse_start("1970-01-01T00:00:00.0011Z") == StartTime(timestamp_ms=2)


@pytest.mark.parametrize("text", ["", "yesterday", "-5", "12x", "2024-13-01"])
def test_anything_else_is_refused_with_the_valid_forms(text):
    with pytest.raises(UsageError, match="earliest, latest, an offset, or a time"):
        parse_start(text)
