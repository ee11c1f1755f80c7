import pickle

import pytest
from kio.schema.errors import ErrorCode

from broker_core.client.broker_errors import broker_error, is_about_the_route, is_worth_a_retry
from broker_core.model import exceptions
from broker_core.model.exceptions import (
    AuthenticationError,
    BrokerError,
    BrokerUnavailableError,
    ProducerFencedError,
    RecordTooLargeError,
    RequestTimedOutError,
    UnknownTopicError,
)


def test_every_code_becomes_an_error_that_keeps_the_code():
    for code in ErrorCode:
        error = broker_error(code, "do it", topic="t")
        assert error.error_code is code
        assert error.topic == "t"
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), again.message, again.error_code) == (type(error), error.message, code)


def test_the_exception_class_depends_on_the_code():
    assert type(broker_error(ErrorCode.producer_fenced, "x")) is ProducerFencedError
    assert type(broker_error(ErrorCode.invalid_producer_epoch, "x")) is ProducerFencedError
    assert type(broker_error(ErrorCode.kafka_storage_error, "x")) is BrokerError


def test_the_message_is_the_brokers_or_else_names_a_setting():
    assert broker_error(ErrorCode.invalid_config, "create topic 't'", "Bad value").message == (
        "create topic 't': Bad value"
    )
    error = broker_error(ErrorCode.message_too_large, "append to t-0")
    assert type(error) is RecordTooLargeError
    assert error.message == (
        "append to t-0: the broker answered MESSAGE_TOO_LARGE (the topic setting max.message.bytes is lower)"
    )


@pytest.mark.parametrize(
    "code", ["not_leader_or_follower", "coordinator_load_in_progress", "concurrent_transactions", "not_controller"]
)
def test_errors_that_kafka_calls_retriable_are_retried(code):
    assert is_worth_a_retry(broker_error(ErrorCode[code], "x"))


@pytest.mark.parametrize("code", ["corrupt_message", "invalid_config", "producer_fenced", "unknown_server_error"])
def test_permanent_errors_are_not_retried(code):
    assert not is_worth_a_retry(broker_error(ErrorCode[code], "x"))


def test_connection_errors_and_timeouts_are_retried_but_refused_logins_are_not():
    assert is_worth_a_retry(BrokerUnavailableError("x"))
    assert is_worth_a_retry(RequestTimedOutError("x"))
    assert not is_worth_a_retry(AuthenticationError("x"))
    # What metadata says is final; only a leader's or coordinator's word is doubted.
    assert not is_worth_a_retry(UnknownTopicError("x"))


def test_a_busy_broker_does_not_refresh_metadata():
    assert is_about_the_route(broker_error(ErrorCode.not_coordinator, "x"))
    assert not is_about_the_route(broker_error(ErrorCode.concurrent_transactions, "x"))


def test_the_tree_in_the_docstring_names_every_error():
    kinds = {name for name, value in vars(exceptions).items() if isinstance(value, type) and name.endswith("Error")}
    assert not {name for name in kinds if name not in (exceptions.__doc__ or "")}
