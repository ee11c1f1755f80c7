"""Converts the filters that Spark pushes down, and decides whether it may: all knowledge of how Spark does it.

Spark calls `DataSourceReader.pushFilters` in a planning process of its own, and only with
spark.sql.python.filterPushdown.enabled; where a reader has that method and the setting is off, the query fails. Those
processes cannot read the session's settings, so the module checks which process it runs in.

Spark 4.1 to 4.3 keeps the resulting plan with the loaded DataFrame: a second query of the same DataFrame, or another
branch of the same query, then reads by the first one's plan, with too few rows. Since the version with `pushLimit`
(SPARK-58551) a plan belongs to its scan.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceReader, Filter

from spark_streamlog.options.read_options import PushFilters
from spark_streamlog.planning.filter_ranges import ColumnFilter
from spark_streamlog.serde.format_settings import FormatKind, FormatSettings

PUSHING_PROCESS: Final = "pyspark.sql.worker.data_source_pushdown_filters"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OPERATORS: Final[dict[type[Filter], str]] = {
    datasource.EqualTo: "=",
    datasource.EqualNullSafe: "=",
    datasource.LessThan: "<",
    datasource.LessThanOrEqual: "<=",
    datasource.GreaterThan: ">",
    datasource.GreaterThanOrEqual: ">=",
    datasource.In: "in",
}
_KEY_OPERATORS: Final = ("=", "in")
_KEY_LAYOUTS: Final = {FormatKind.SHORT: ">h", FormatKind.INT: ">i", FormatKind.LONG: ">q"}


def is_pushing_process() -> bool:
    """Whether this is the process in which Spark pushes filters down."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return PUSHING_PROCESS in sys.modules or getattr(main, "name", None) == PUSHING_PROCESS


def keeps_plans_apart() -> bool:
    """Whether this Spark plans each scan of a DataFrame with its own filters."""
    return hasattr(DataSourceReader, "pushLimit")


def may_push(wish: PushFilters) -> bool:
    """`auto` needs a Spark that keeps plans separate."""
    return wish is PushFilters.ALWAYS or (wish is PushFilters.AUTO and keeps_plans_apart())


def column_filters(pushed: Iterable[Filter], key_format: FormatSettings | None) -> list[ColumnFilter]:
    """Those that can narrow a plan; Spark evaluates all of them again."""
    found = (_column_filter(one, key_format) for one in pushed)
    return [one for one in found if one is not None]


def _column_filter(pushed: Filter, key_format: FormatSettings | None) -> ColumnFilter | None:
    if isinstance(pushed, datasource.IsNull):
        # With a format a corrupt key is null, too.
        is_of_key = pushed.attribute == ("key",) and key_format is None
        return ColumnFilter(column="key", operator="is null") if is_of_key else None
    is_negated = isinstance(pushed, datasource.Not) and isinstance(pushed.child, datasource.EqualTo)
    inner: Any = pushed.child if isinstance(pushed, datasource.Not) else pushed
    operator = "<>" if is_negated else _OPERATORS.get(type(inner))
    if operator is None or (inner is not pushed and not is_negated) or len(inner.attribute) != 1:
        return None
    (column,) = inner.attribute
    # No value equals null, so a null in a list is ignored.
    given = [value for value in (inner.value if operator == "in" else [inner.value]) if value is not None]
    values = tuple(_in_the_log(column, value, key_format) for value in given)
    if None in values or (operator != "in" and not values) or (column == "key" and operator not in _KEY_OPERATORS):
        return None
    return ColumnFilter(column=column, operator=operator, values=values)


def _in_the_log(column: str, value: Any, key_format: FormatSettings | None) -> Any:
    """The value in the form of `ColumnFilter`; None if the conversion is not exact."""
    if column == "topic" and isinstance(value, str):
        return value
    if column in ("partition", "offset") and type(value) is int:
        return value
    if column == "timestamp" and isinstance(value, datetime) and value.tzinfo is not None:
        return (value - _EPOCH) // timedelta(microseconds=1)
    return _key_bytes(value, key_format) if column == "key" else None


def _key_bytes(value: Any, key_format: FormatSettings | None) -> bytes | None:
    """The bytes of this key in the log: only for formats in which a key has a single encoding."""
    if key_format is None:
        return bytes(value) if isinstance(value, bytes | bytearray) else None
    if key_format.kind is FormatKind.STRING and isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            return None
    if key_format.kind in _KEY_LAYOUTS and type(value) is int:
        try:
            return struct.pack(_KEY_LAYOUTS[key_format.kind], value)
        except struct.error:
            return None
    return None
