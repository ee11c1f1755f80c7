import pytest
from support.clients.transacting import SetClock

from broker_core.cluster import PartitionBounds
from broker_core.embedded.blocked_readers import ASKED_EVERY_MS, BlockedReaders
from broker_core.model.exceptions import StorageError


def bounds(last_stable_offset, high_watermark=5):
    return PartitionBounds(
        log_start_offset=0,
        last_stable_offset=last_stable_offset,
        high_watermark=high_watermark,
        log_end_offset=high_watermark,
    )


@pytest.fixture
def asked():
    return []


@pytest.fixture
def readers(asked):
    clock = SetClock(10_000)

    def settle():
        asked.append(clock.time_ms)
        return True

    readers = BlockedReaders(settle, clock)
    readers.clock = clock
    return readers


def test_an_unblocked_reader_does_not_check_transactions(readers, asked):
    assert not readers.maybe_settle(bounds(5))
    assert asked == []


def test_a_blocked_reader_checks_transactions_immediately_and_then_periodically(readers, asked):
    start = readers.clock.time_ms
    for at_ms, is_settled in ((0, True), (1, False), (ASKED_EVERY_MS - 1, False), (ASKED_EVERY_MS, True)):
        readers.clock.time_ms = start + at_ms
        assert readers.maybe_settle(bounds(3)) is is_settled
    assert asked == [start, start + ASKED_EVERY_MS]


def test_setting_the_clock_back_does_not_stop_the_checks(readers, asked):
    readers.maybe_settle(bounds(3))
    readers.clock.time_ms -= 5000
    assert readers.maybe_settle(bounds(3))


def test_an_error_in_the_transactions_fails_no_reader(caplog):
    def settle():
        raise StorageError("the disk refuses")

    assert not BlockedReaders(settle, SetClock(10_000)).maybe_settle(bounds(3))
    assert "the disk refuses" in caplog.text


def test_the_check_reports_that_nothing_could_be_ended(asked):
    assert not BlockedReaders(lambda: bool(asked.append(0)), SetClock(10_000)).maybe_settle(bounds(3))
    assert asked == [0]
