"""Whether Spark accepts rows from the Python process that plans a stream. The only use of this private PySpark API.

For a `SimpleDataSourceStreamReader` PySpark reads a batch where it is planned, on the driver, and sends the rows to
Spark with the plan: then no task needs Python. It does so in the program of that process, after the plan was sent:

    if isinstance(reader, _SimpleStreamReaderWrapper):
        it = reader.getCache(start_offset, end_offset)

and Spark requires that such a plan has one partition, which a task reads if the rows are lost. This works for any
reader that is an instance of the wrapper at this moment. So the code of the program is checked first. If it differs, no
rows are sent and tasks read them, which is always correct.
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
"""All names that the planning function uses. A function with other names is treated as unknown."""


def class_that_passes_rows() -> type[Any] | None:
    """The class whose instances can pass rows from this process; None in every other process."""
    program = sys.modules.get("__main__")
    if program is None or getattr(program.__spec__, "name", None) != PROGRAM:
        return None
    return class_in_program(program)


def class_in_program(program: ModuleType) -> type[Any] | None:
    """None if the program does not match the description above."""
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
