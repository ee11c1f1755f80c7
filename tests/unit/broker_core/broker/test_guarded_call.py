import logging

from broker_core.broker.guarded_call import call_all_guarded, call_guarded


def broken():
    raise RuntimeError("a handler's fault")


def test_a_callback_that_fails_is_a_line_in_the_log_and_keeps_nobody_else_waiting(caplog):
    called = []
    with caplog.at_level(logging.ERROR):
        call_all_guarded("partition=t-0", [broken, lambda: called.append(1)])
    assert called == [1]
    assert "partition=t-0" in caplog.text
    assert "a handler's fault" in caplog.text


def test_arguments_are_handed_on():
    called = []
    call_guarded("somewhere", lambda *arguments: called.append(arguments), 1, 2)
    assert called == [(1, 2)]
