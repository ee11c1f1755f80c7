"""The image against Kafka's own at every offset of its metadata logs, and against the snapshots that it wrote."""

import json
import re
from collections import Counter

import pytest
from image_history import (
    DRAWN,
    LOGS,
    answered,
    drawn_contents,
    files_of,
    first_difference,
    logged_records,
    normal,
    read_histories,
)
from kafka_metadata import to_json
from support.brokers import kafka_tools

from broker_core.metadata.image_snapshot import snapshot_records
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_record_codec import decode_metadata_record, encode_metadata_record
from broker_core.model.exceptions import CorruptBatchError
from broker_core.raft.quorum_control_records import control_record, read_control_record
from broker_core.raft.snapshot_frame import check_snapshot
from broker_core.record.batch_reader import iter_headers, records_of
from broker_core.record.control_records import ControlType

RECORDED, STATIC = LOGS
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


def test_the_recorded_logs_have_every_record_that_kafka_4_3_writes():
    contents = [content for archive in LOGS for _, content in logged_records(archive)]
    names = {type(decode_metadata_record(content)).__name__ for content in contents}
    never = {"FenceBrokerRecord", "UnfenceBrokerRecord", "ZkMigrationStateRecord", "AbortTransactionRecord"}
    assert len(names) == 26 - len(never)
    assert not names & never


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


def test_kafkas_snapshots_hold_the_records_of_our_image_at_their_offset():
    files = files_of(RECORDED)
    snapshots = {name: content for name, content in files.items() if name.endswith(".checkpoint")}
    assert len(snapshots) > 5
    compared = 0
    for name, content in snapshots.items():
        end_offset = int(name[:20])
        if end_offset == 0:
            continue  # the voters alone
        image = MetadataImage()
        for offset, record in logged_records(RECORDED):
            if offset < end_offset:
                image.replay(decode_metadata_record(record))
        kafkas = snapshot_contents(content)
        assert as_bytes(kafkas) == as_bytes(snapshot_records(image)), name
        assert groups_of(kafkas) == groups_of(list(snapshot_records(image))), name
        compared += 1
    assert compared > 4


def as_bytes(records):
    return sorted(encode_metadata_record(normal(record)) for record in records)


def snapshot_contents(content):
    return [
        decode_metadata_record(record.value)
        for position, header in iter_headers(content)
        if not header.is_control
        for record in records_of(content, position)
    ]


def groups_of(records):
    """The types in the order in which they begin; a topic and its partitions are one group."""
    names = [type(record).__name__.replace("PartitionRecord", "TopicRecord") for record in records]
    return [name for number, name in enumerate(names) if number == 0 or names[number - 1] != name]


@pytest.mark.parametrize("archive", LOGS)
def test_kafkas_control_records_are_read_and_written_back_as_they_were(archive):
    kinds = Counter()
    for name, content in files_of(archive).items():
        if not name.endswith((".log", ".checkpoint")):
            continue
        for position, header in iter_headers(content):
            if header.is_control:
                for record in records_of(content, position):
                    kind, message = read_control_record(record)
                    written = control_record(kind, message, timestamp_ms=0)
                    assert (written.key, written.value) == (record.key, record.value), (name, record.offset)
                    kinds[kind] += 1
    assert kinds[ControlType.LEADER_CHANGE] > 1
    if archive == RECORDED:
        assert set(kinds) == set(ControlType) - {ControlType.ABORT, ControlType.COMMIT}


def test_kafkas_snapshots_are_whole_and_a_part_of_one_is_not():
    for name, content in files_of(RECORDED).items():
        if name.endswith(".checkpoint"):
            check_snapshot(content)
            for cut in (0, 10, len(content) // 2, len(content) - 1):
                with pytest.raises(CorruptBatchError, match="snapshot"):
                    check_snapshot(content[:cut])


def test_a_snapshot_and_the_log_behind_it_make_the_image_of_the_whole_log():
    files = files_of(RECORDED)
    whole = MetadataImage()
    for _, content in logged_records(RECORDED):
        whole.replay(decode_metadata_record(content))
    for name in (name for name in files if name.endswith(".checkpoint") and not name.startswith("0" * 20)):
        image = MetadataImage()
        for record in snapshot_contents(files[name]):
            image.replay(record)
        for offset, content in logged_records(RECORDED):
            if offset >= int(name[:20]):
                image.replay(decode_metadata_record(content))
        assert [normal(r) for r in snapshot_records(image)] == [normal(r) for r in snapshot_records(whole)], name


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
