import os
import select
import signal
import sys

import pytest

from broker_core.cli.stop_signals import StopSignals


@pytest.fixture
def clock(monkeypatch):
    """Seconds that `StopSignals` sees."""
    now = [0.0]
    monkeypatch.setattr("broker_core.cli.stop_signals.time.monotonic", lambda: now[0])
    return now


def is_readable(descriptor):
    return bool(select.select([descriptor], [], [], 0)[0])


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_first_signal_sets_the_shells_exit_code(number, exit_code):
    with StopSignals() as stop:
        assert (stop.received, stop.exit_code, is_readable(stop.descriptor)) == (None, 0, False)
        os.kill(os.getpid(), number)
        assert (stop.received, stop.exit_code, is_readable(stop.descriptor)) == (number, exit_code, True)
        assert stop.name == number.name


def test_a_signal_sent_twice_at_once_counts_once_and_a_later_one_interrupts(clock):
    # `timeout` sends SIGTERM to the process and to its group: the second one ended what the first one had begun.
    with StopSignals() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        clock[0] = 1.5
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        assert stop.received == signal.SIGTERM


def test_signals_ignored_by_the_parent_stay_ignored_and_handlers_are_restored():
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignals() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop.received is None
            assert signal.getsignal(signal.SIGINT) is not before
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def test_an_interrupt_that_a_destructor_swallows_is_noted_all_the_same():
    # Python drops what a destructor raises: `consume --follow` went on after such a Ctrl-C.
    class Interrupted:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGINT)

    with StopSignals((signal.SIGINT,), is_interrupting=True) as stop:
        dropped = []
        before, sys.unraisablehook = sys.unraisablehook, lambda error: dropped.append(error.exc_type)
        try:
            Interrupted()
        finally:
            sys.unraisablehook = before
        assert dropped == [KeyboardInterrupt]
        assert (stop.received, is_readable(stop.descriptor)) == (signal.SIGINT, True)


def test_an_interrupting_signal_raises_at_once():
    with StopSignals((signal.SIGINT,), is_interrupting=True) as stop:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        assert stop.exit_code == 130
