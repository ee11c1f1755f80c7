"""The options of metadata tables, and what they refuse."""

import pytest

from broker_core.model.exceptions import StreamlogError
from spark_streamlog.errors import ConditionError
from spark_streamlog.options.option_reader import asks_for_table
from spark_streamlog.options.table_options import parse_table_options
from spark_streamlog.tables.table_schema import MetadataTable


def test_the_option_table_is_case_insensitive():
    assert asks_for_table({"TABLE": "lag"})
    assert not asks_for_table({"subscribe": "table"})


@pytest.mark.parametrize("table", MetadataTable)
def test_each_metadata_table_is_selected_by_its_name(table):
    parsed = parse_table_options({"path": "/data/log", "table": table.value.upper()})
    assert (parsed.scan.table, parsed.target.path) == (table, "/data/log")


def test_subscribe_and_group_id_filter_the_table():
    parsed = parse_table_options({"path": "/x", "table": "lag", "subscribe": "a, b,", "groupId": "G"})
    assert (parsed.scan.topics, parsed.scan.groups) == ({"a", "b"}, {"G"})


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"table": "records"}, "table must be one of topics, segments, batches, groups, transactions, lag"),
        ({"table": "segments", "groupId": "g"}, "groupId is not supported for the table segments"),
        ({"table": "transactions", "subscribe": "a"}, "subscribe is not supported for the table transactions"),
        ({"table": "topics", "subscribe": " , "}, "subscribe names nothing"),
        ({"table": "topics", "topic": "t"}, "topic is for writing: set subscribe to the topics to show"),
        ({"table": "topics", "startingOffsets": "earliest"}, "startingOffsets is not an option"),
    ],
)
def test_an_option_that_does_not_fit_the_table_is_refused_by_name(options, complaint):
    with pytest.raises((ConditionError, StreamlogError), match=complaint):
        parse_table_options({"path": "/x", **options})
