"""Whether Spark takes rows from the Python process that plans a stream. PySpark's private API, used nowhere else.

For a `SimpleDataSourceStreamReader` PySpark reads a batch where it is planned, on the driver, and hands the rows to
Spark with the plan: no task needs Python then. It does so in the program of that process, after the plan was sent:

    if isinstance(reader, _SimpleStreamReaderWrapper):
        it = reader.getCache(start_offset, end_offset)

and Spark asks that such a plan has one partition, which is read by a task if the rows are lost. Any reader may do that
which is an instance of the wrapper at this moment. So the shape of the program is looked at first, and where it is
another one, nothing is handed over: tasks read, which is always right.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

PROGRAM: Final = "pyspark.sql.streaming.python_streaming_source_runner"

_PARAMETERS: Final = {
    "partitions_func": ("reader", "data_source", "schema", "max_arrow_batch_size", "infile", "outfile"),
    "send_batch_func": ("rows", "outfile", "schema", "max_arrow_batch_size", "data_source"),
}
_NAMES_OF_PLANNING: Final = {
    *("partitions", "isinstance", "_SimpleStreamReaderWrapper", "getCache", "send_batch_func"),
    *("utf8_deserializer", "json", "loads", "len", "write_int", "pickleSer", "_write_with_length"),
    "PREFETCHED_RECORDS_NOT_FOUND",
}
"""All that the function that plans uses by name: one that does more, or less, is not known."""


def class_that_hands_over() -> type[Any] | None:
    """The class whose instances' rows are taken from this process; None in every other process."""
    program = sys.modules.get("__main__")
    if program is None or getattr(program.__spec__, "name", None) != PROGRAM:
        return None
    return class_in_program(program)


def class_in_program(program: ModuleType) -> type[Any] | None:
    """None where the program has not the shape described above."""
    wrapper = getattr(program, "_SimpleStreamReaderWrapper", None)
    planning: Any = getattr(program, "partitions_func", None)
    has_shape = (
        isinstance(wrapper, type)
        and all(_parameters(getattr(program, name, None)) == expected for name, expected in _PARAMETERS.items())
        and _parameters(getattr(wrapper, "getCache", None)) == ("self", "start", "end")
        and set(planning.__code__.co_names) == _NAMES_OF_PLANNING
    )
    return wrapper if has_shape else None


def _parameters(function: Callable[..., Any] | None) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters) if inspect.isfunction(function) else ()
