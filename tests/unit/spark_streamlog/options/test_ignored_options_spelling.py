"""Spark passes every name of an option in lower case; messages show the documented spelling."""

import re

import pytest

from spark_streamlog.errors import ConditionError
from spark_streamlog.options.ignored_options import OF_FORMATS, OF_SINK, OF_SOURCE
from spark_streamlog.options.option_reader import QueryKind
from spark_streamlog.options.read_options import parse_read_options
from spark_streamlog.options.table_options import parse_table_options
from spark_streamlog.options.write_options import parse_write_options

NAMES = [name for name in (*OF_SOURCE, *OF_SINK, *OF_FORMATS) if name != name.lower()]
BAD_VALUES = ["", "?", "-1", "{", "true", "2"]
PLACE = {"path": "/log"}
PARSERS = {
    "source of a batch": lambda given: parse_read_options(PLACE | {"subscribe": "t"} | given, QueryKind.BATCH),
    "source of a stream": lambda given: parse_read_options(PLACE | {"subscribe": "t"} | given, QueryKind.STREAM),
    "sink of a batch": lambda given: parse_write_options(PLACE | {"topic": "t"} | given, QueryKind.BATCH),
    "sink of a stream": lambda given: parse_write_options(PLACE | {"topic": "t"} | given, QueryKind.STREAM),
    "metadata table": lambda given: parse_table_options(PLACE | {"table": "topics"} | given),
}
FORMATS = ["binary", "json", "avro", "protobuf"]


def message_of(parse, given):
    try:
        parse(given)
    except ConditionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("parser", PARSERS)
def test_messages_show_every_name_as_it_is_documented(parser):
    named = set()
    for name in NAMES:
        side = name.partition("Format")[0]
        for format_name in FORMATS if name in OF_FORMATS and "." in name else [None]:
            more = {} if format_name is None else {f"{side}format": format_name}
            for value in BAD_VALUES:
                text = message_of(PARSERS[parser], {name.lower(): value, **more})
                assert not re.search(rf"(?<![\w.]){re.escape(name.lower())}(?!\w)", text), text
                if name in text:
                    named.add(name)
    assert len(named) > 20, f"{parser}: {named}"


@pytest.mark.parametrize("parser", PARSERS)
def test_a_name_that_is_not_documented_is_shown_as_it_came(parser):
    assert "startingOffset is not an option" in message_of(PARSERS[parser], {"startingOffset": "earliest"})
    assert "startingoffset is not an option" in message_of(PARSERS[parser], {"startingoffset": "earliest"})


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"valueformat": "avro", "valueformat.schema": "{"}, "valueFormat.schema: the Avro schema is not JSON"),
        ({"keyformat": "json", "keyformat.schema": "a NUMBER"}, "keyFormat.schema: 'number' is not a known type"),
    ],
)
def test_a_wrong_schema_is_named_by_the_option_that_has_it(given, named):
    assert named in message_of(PARSERS["source of a batch"], given)


def test_a_wrong_schema_of_a_file_is_named_by_the_option_of_the_file(tmp_path):
    file = tmp_path / "schema"
    file.write_text("{")
    for parser in ("source of a batch", "sink of a batch"):
        text = message_of(PARSERS[parser], {"valueformat": "avro", "valueformat.schema.file": str(file)})
        assert "valueFormat.schema.file: the Avro schema is not JSON" in text
