"""The wall clock counts milliseconds since 1970."""

from datetime import UTC, datetime

from spark_streamlog.wall_clock import wall_clock_ms


def test_the_wall_clock_has_whole_milliseconds():
    before = datetime.now(UTC).timestamp() * 1000
    now_ms = wall_clock_ms()
    after = datetime.now(UTC).timestamp() * 1000
    assert isinstance(now_ms, int)
    assert int(before) <= now_ms <= after
