import sys
import types
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from spark_streamlog.options.read_options import PushFilters
from spark_streamlog.planning.filter_ranges import ColumnFilter
from spark_streamlog.serde.format_settings import FormatKind, FormatSettings
from spark_streamlog.source.pushed_filters import (
    PUSHING_PROCESS,
    column_filters,
    is_pushing_process,
    keeps_plans_apart,
    may_push,
)


def of(pushed, key_format=None):
    settings = None if key_format is None else FormatSettings(kind=key_format)
    return [(one.column, one.operator, one.values) for one in column_filters([pushed], settings)]


@pytest.mark.parametrize(
    ("pushed", "operator"),
    [
        (EqualTo, "="), (EqualNullSafe, "="), (LessThan, "<"), (LessThanOrEqual, "<="), (GreaterThan, ">"),
        (GreaterThanOrEqual, ">="),
    ],
)  # fmt: skip
def test_comparisons_of_numbers_keep_their_operator(pushed, operator):
    assert of(pushed(("offset",), 5)) == [("offset", operator, (5,))]
    assert of(pushed(("partition",), 0)) == [("partition", operator, (0,))]


def test_lists_are_used_without_their_nulls():
    assert of(In(("partition",), [1, None, 2])) == [("partition", "in", (1, 2))]
    assert of(In(("topic",), ("a", "b"))) == [("topic", "in", ("a", "b"))]
    assert of(In(("offset",), [None])) == [("offset", "in", ())]


def test_unequal_is_used_and_other_negations_are_not():
    assert of(Not(EqualTo(("partition",), 1))) == [("partition", "<>", (1,))]
    for negated in (In(("partition",), [1]), IsNull(("key",)), EqualNullSafe(("partition",), 1)):
        assert of(Not(negated)) == []


@pytest.mark.parametrize(
    "pushed",
    [
        IsNotNull(("key",)), IsNull(("value",)), IsNull(("offset",)), StringStartsWith(("topic",), "a"),
        EqualTo(("value",), b"x"), EqualTo(("key", "id"), 1), EqualTo(("offset",), None), EqualTo(("offset",), "5"),
        EqualTo(("offset",), True), EqualTo(("partition",), 1.0), LessThan(("key",), b"x"), EqualTo(("key",), "x"),
        Not(EqualTo(("key",), b"x")), In(("key",), [b"x", "y"]), EqualTo(("timestampType",), 0),
        EqualTo(("timestamp",), datetime(2024, 1, 1)), EqualTo(("headers",), []),
    ],
)  # fmt: skip
def test_uncertain_filters_are_left_to_spark(pushed):
    assert of(pushed) == []


def test_a_timestamp_becomes_microseconds_in_any_zone():
    instant = datetime(2024, 3, 31, 12, 0, 0, 123_456, tzinfo=ZoneInfo("Europe/Berlin"))
    expected = int(instant.replace(microsecond=0).timestamp()) * 10**6 + 123_456
    assert of(GreaterThan(("timestamp",), instant)) == [("timestamp", ">", (expected,))]
    early = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone(timedelta(0)))
    assert of(LessThan(("timestamp",), early)) == [("timestamp", "<", (-1,))]


def test_binary_keys_are_compared_as_bytes():
    assert of(EqualTo(("key",), b"ab")) == of(EqualTo(("key",), bytearray(b"ab"))) == [("key", "=", (b"ab",))]
    assert of(In(("key",), [b"", None, b"c"])) == [("key", "in", (b"", b"c"))]
    assert of(IsNull(("key",))) == [("key", "is null", ())]


@pytest.mark.parametrize(
    ("key_format", "value", "in_the_log"),
    [
        (FormatKind.STRING, "né", "né".encode()), (FormatKind.STRING, "", b""), (FormatKind.INT, 5, b"\0\0\0\5"),
        (FormatKind.INT, -1, b"\xff\xff\xff\xff"), (FormatKind.LONG, 256, bytes(6) + b"\1\0"),
        (FormatKind.SHORT, -2, b"\xff\xfe"),
    ],
)  # fmt: skip
def test_a_typed_key_is_serialized_as_by_kafka(key_format, value, in_the_log):
    assert of(EqualTo(("key",), value), key_format) == [("key", "=", (in_the_log,))]
    assert of(In(("key",), [value]), key_format) == [("key", "in", (in_the_log,))]


@pytest.mark.parametrize(
    ("key_format", "value"),
    [
        (FormatKind.STRING, "\ud800"), (FormatKind.STRING, b"bytes"), (FormatKind.INT, 2**31), (FormatKind.INT, True),
        (FormatKind.LONG, 2**63), (FormatKind.DOUBLE, 0.0), (FormatKind.FLOAT, 1.0), (FormatKind.JSON, "{}"),
        (FormatKind.AVRO, 1), (FormatKind.PROTOBUF, b""),
    ],
)  # fmt: skip
def test_a_typed_key_without_a_unique_form_is_left_to_spark(key_format, value):
    assert of(EqualTo(("key",), value), key_format) == []


def test_a_null_typed_key_may_be_a_corrupt_one():
    assert of(IsNull(("key",)), FormatKind.STRING) == []


def test_all_filters_of_a_query_are_combined():
    pushed = [IsNotNull(("key",)), EqualTo(("key",), b"a"), GreaterThan(("offset",), 3)]
    assert column_filters(pushed, None) == [
        ColumnFilter(column="key", operator="=", values=(b"a",)),
        ColumnFilter(column="offset", operator=">", values=(3,)),
    ]


def test_the_pushing_process_is_identified_by_its_module(monkeypatch):
    assert not is_pushing_process()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, PUSHING_PROCESS, types.ModuleType(PUSHING_PROCESS))
        assert is_pushing_process()
    # Without the daemon (spark.python.use.daemon=false) the module runs as __main__.
    main = types.ModuleType("__main__")
    main.__spec__ = types.SimpleNamespace(name=PUSHING_PROCESS)
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert is_pushing_process()


def test_auto_needs_a_spark_that_keeps_plans_apart(monkeypatch):
    assert [may_push(wish) for wish in PushFilters] == [keeps_plans_apart(), True, False]
    monkeypatch.setattr(DataSourceReader, "pushLimit", lambda self, limit: False, raising=False)
    assert keeps_plans_apart()
    assert [may_push(wish) for wish in PushFilters] == [True, True, False]
