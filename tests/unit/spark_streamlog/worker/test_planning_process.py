"""PySpark's private way for rows to come with a plan: that the installed PySpark has it, what happens without it."""

import sys
import types

import pyspark
import pytest
from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper
from pyspark.sql.streaming import python_streaming_source_runner as program

from spark_streamlog.worker.planning_process import class_in_program, class_that_passes_rows


def test_the_installed_pyspark_accepts_rows_from_the_planning_process():
    assert class_in_program(program) is _SimpleStreamReaderWrapper, (
        f"PySpark {pyspark.__version__} plans streams in another way: small micro-batches are read by tasks "
        "there, which is right and slow. Look at partitions_func of its python_streaming_source_runner."
    )


def test_other_processes_hand_over_no_rows():
    assert class_that_passes_rows() is None


def test_the_program_is_identified_by_its_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", program)
    assert class_that_passes_rows() is _SimpleStreamReaderWrapper


def a_program(**changed):
    made = types.ModuleType("program")
    vars(made).update(vars(program) | changed)
    return made


def planning_without_rows(reader, data_source, schema, max_arrow_batch_size, infile, outfile):
    reader.partitions(None, None)


def planning_that_asks_for_more(reader, data_source, schema, max_arrow_batch_size, infile, outfile):
    program.partitions_func(reader, data_source, schema, max_arrow_batch_size, infile, outfile)
    reader.simple_reader.getCache()


class OtherWrapper:
    def getCache(self, start, end, limit): ...


@pytest.mark.parametrize(
    "changed",
    [
        {"_SimpleStreamReaderWrapper": None},
        {"_SimpleStreamReaderWrapper": OtherWrapper},
        {"partitions_func": None},
        {"partitions_func": lambda reader, infile, outfile: None},
        {"partitions_func": planning_without_rows},
        {"partitions_func": planning_that_asks_for_more},
        {"send_batch_func": lambda rows, outfile: None},
    ],
    ids=lambda changed: ",".join(changed),
)
def test_a_changed_program_gets_no_rows(changed):
    assert class_in_program(a_program(**changed)) is None


def test_an_unchanged_copy_of_the_program_gets_rows():
    assert class_in_program(a_program()) is _SimpleStreamReaderWrapper
