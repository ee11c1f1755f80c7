import logging

from broker_core.broker.callback_errors import log_all_callback_errors, log_callback_errors


def broken():
    raise RuntimeError("a handler's fault")


def test_a_failing_callback_is_logged_and_later_ones_still_run(caplog):
    called = []
    with caplog.at_level(logging.ERROR):
        log_all_callback_errors("partition=t-0", [broken, lambda: called.append(1)])
    assert called == [1]
    assert "partition=t-0" in caplog.text
    assert "a handler's fault" in caplog.text


def test_arguments_are_passed_on():
    called = []
    log_callback_errors("somewhere", lambda *arguments: called.append(arguments), 1, 2)
    assert called == [(1, 2)]
