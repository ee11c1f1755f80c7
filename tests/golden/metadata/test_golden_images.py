"""The image against Kafka's own at every offset of its metadata logs, and against the snapshots that it wrote."""

import json
import re

import pytest
from image_history import (
    DRAWN,
    LOGS,
    answered,
    drawn_contents,
    files_of,
    first_difference,
    logged_records,
    read_histories,
)
from kafka_metadata import to_json
from support.brokers import kafka_tools

from broker_core.metadata.metadata_record_codec import decode_metadata_record, encode_metadata_record

(STATIC,) = LOGS
HISTORIES = read_histories()


@pytest.mark.parametrize("name", HISTORIES)
def test_at_every_offset_the_image_is_kafkas(name):
    assert first_difference(HISTORIES[name]) is None


@pytest.mark.parametrize("archive", LOGS)
def test_the_histories_are_those_of_the_logs(archive):
    assert [(offset, content.hex()) for offset, content in logged_records(archive)] == [
        (offset, content) for offset, content, _ in HISTORIES[archive]
    ]


@pytest.mark.parametrize("archive", LOGS)
def test_every_record_of_kafkas_log_is_written_back_as_it_was(archive):
    for offset, content in logged_records(archive):
        assert encode_metadata_record(decode_metadata_record(content)) == content, offset


def test_the_fields_are_those_that_kafkas_own_tool_printed_of_the_log():
    printed = re.findall(
        r"^\| offset: (\d+) .*? payload: (\{.*\})$", files_of(STATIC)["dump.txt"].decode(), re.MULTILINE
    )
    records = {offset: decode_metadata_record(content) for offset, content in logged_records(STATIC)}
    assert len(printed) > 600
    assert [int(offset) for offset, _ in printed] == list(records)[: len(printed)]
    for offset, text in printed:
        record, shown = records[int(offset)], json.loads(text)
        assert (shown["version"], shown["data"]) == (record.version, to_json(record, record.version)), offset


@pytest.mark.kafka
def test_kafkas_classes_still_answer_the_same():
    if reason := kafka_tools.why_unavailable():
        pytest.skip(reason)
    for name in LOGS:
        assert answered(logged_records(name)) == HISTORIES[name]
    for name, drawing in DRAWN.items():
        assert answered(drawn_contents(*drawing)) == HISTORIES[name]


@pytest.mark.kafka
@pytest.mark.parametrize("seed", range(1000, 1040))
def test_after_any_drawn_history_the_image_is_kafkas(seed):
    if reason := kafka_tools.why_unavailable():
        pytest.skip(reason)
    assert first_difference(answered(drawn_contents(seed, 700))) is None
