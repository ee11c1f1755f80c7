import os
import sys
from types import SimpleNamespace

import pytest

from spark_streamlog import hidden_tracebacks
from spark_streamlog.errors import ConditionError, condition_error
from spark_streamlog.hidden_tracebacks import SWITCH, hiding_tracebacks


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv(SWITCH, "")


def run_as(monkeypatch, program, error):
    main = SimpleNamespace(__spec__=program and SimpleNamespace(name=program))
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "__main__", main)
        with pytest.raises(type(error)), hiding_tracebacks():
            raise error


A_CONDITION = condition_error("STREAMLOG_NO_SUCH_LOG", path="/x", reason="no such directory")


@pytest.mark.parametrize("program", ["pyspark.daemon", "pyspark.worker", "pyspark.sql.worker.write_into_data_source"])
def test_a_condition_in_a_process_of_pyspark_is_shown_without_a_traceback(monkeypatch, program):
    run_as(monkeypatch, program, A_CONDITION)
    assert os.environ[SWITCH] == "1"


@pytest.mark.parametrize("program", [None, "pytest.__main__"])
def test_other_processes_are_not_changed(monkeypatch, program):
    run_as(monkeypatch, program, A_CONDITION)
    assert os.environ[SWITCH] == ""


def test_an_unexpected_error_keeps_its_traceback(monkeypatch):
    run_as(monkeypatch, "pyspark.daemon", ZeroDivisionError())
    assert os.environ[SWITCH] == ""


def test_pyspark_reads_the_switch():
    import inspect

    from pyspark import util

    assert f'os.environ.get("{SWITCH}"' in inspect.getsource(util.handle_worker_exception)
    assert hidden_tracebacks.SWITCH == SWITCH
    assert issubclass(ConditionError, Exception)
