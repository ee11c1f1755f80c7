import time

import pytest
from kio.schema.errors import ErrorCode

from broker_core.client.broker_errors import broker_error
from broker_core.client.deadline import Deadline
from broker_core.client.retry_warning import PAUSE_SECONDS, QUIET_SECONDS, RetryWarning
from broker_core.model.exceptions import BrokerUnavailableError, RequestTimedOutError

APPEND = "append to orders-0"
TOO_FEW = broker_error(ErrorCode.not_enough_replicas, APPEND)


@pytest.fixture
def clock(monkeypatch):
    """The seconds that calls and their warnings go by, in a list of one."""
    seconds = [1.0]
    monkeypatch.setattr(time, "monotonic", lambda: seconds[0])
    return seconds


@pytest.fixture
def deadline(clock):
    return Deadline(30_000, setting="delivery.timeout.ms")


def said(caplog):
    return [record.message for record in caplog.records if record.name == "broker_core.client.retry_warning"]


def test_after_a_second_a_call_says_what_it_waits_for_and_how_long(clock, deadline, caplog):
    warning = RetryWarning()
    warning.on_failure(APPEND, TOO_FEW, deadline, pause_seconds=0.1)
    clock[0] += QUIET_SECONDS - 0.2
    warning.on_failure(APPEND, TOO_FEW, deadline, pause_seconds=0.1)
    assert said(caplog) == []
    warning.on_failure(APPEND, TOO_FEW, deadline, pause_seconds=0.4)
    assert said(caplog) == [
        "append to orders-0: the broker answered NOT_ENOUGH_REPLICAS (fewer replicas are in sync than the topic setting"
        " min.insync.replicas requires); trying for up to 30 s (delivery.timeout.ms)"
    ]


def test_it_says_so_again_from_time_to_time_and_not_at_each_try(clock, deadline, caplog):
    warning = RetryWarning()
    for _ in range(20):
        clock[0] += 1.0
        warning.on_failure(APPEND, TOO_FEW, deadline, pause_seconds=0.1)
    assert len(said(caplog)) == 1 + int(19 // PAUSE_SECONDS)


def test_the_last_failure_is_raised_and_not_logged(clock, deadline, caplog):
    warning = RetryWarning()
    clock[0] += 29.5
    warning.on_failure(APPEND, TOO_FEW, deadline, pause_seconds=1.0)
    assert said(caplog) == []


def test_an_unreachable_broker_is_warned_about_elsewhere(clock, deadline, caplog):
    warning = RetryWarning()
    clock[0] += 5
    warning.on_failure(APPEND, BrokerUnavailableError("no broker can be reached"), deadline, pause_seconds=0.1)
    assert said(caplog) == []


def test_an_error_that_does_not_name_its_call_is_told_with_it(clock, deadline, caplog):
    warning = RetryWarning()
    clock[0] += 5
    warning.on_failure(APPEND, RequestTimedOutError("127.0.0.1:1 did not answer"), deadline, pause_seconds=0.1)
    assert said(caplog)[0].startswith("append to orders-0: 127.0.0.1:1 did not answer; trying for up to 30 s")
