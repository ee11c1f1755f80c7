import pytest
from kio.schema.snapshot_footer_record.v0.data import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0.data import SnapshotHeaderRecord
from kio.static.primitive import i16, i64
from support.builders.builders import a_record

from broker_core.model.exceptions import CorruptBatchError, UnsupportedFormatError
from broker_core.raft.quorum_control_records import control_record
from broker_core.raft.snapshot_frame import check_snapshot
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record
from broker_core.record.control_records import ControlType

HEADER = control_record(
    ControlType.SNAPSHOT_HEADER,
    SnapshotHeaderRecord(version=i16(0), last_contained_log_timestamp=i64(5)),
    timestamp_ms=5,
)
FOOTER = control_record(ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=i16(0)), timestamp_ms=5)


def control(record, base_offset):
    return bytes(build_batch([record], base_offset=base_offset, is_control=True))


def data(base_offset, size=2):
    return bytes(build_batch([a_record(value=b"x")] * size, base_offset=base_offset))


def test_header_batches_and_footer_are_a_snapshot():
    check_snapshot(control(HEADER, 0) + data(1) + data(3) + control(FOOTER, 5))


@pytest.mark.parametrize(
    ("content", "refusal"),
    [
        (b"", "does not begin with a header"),
        (control(HEADER, 0) + data(1), "end with a footer"),
        (data(0) + control(FOOTER, 2), "does not begin with a header"),
        (control(HEADER, 0) + data(2) + control(FOOTER, 4), "a batch at 2 where 1 is next"),
        (control(HEADER, 0) + control(FOOTER, 1) + data(2), "end with a footer"),
        (control(HEADER, 0) + control(FOOTER, 1)[:-1], "are no whole batch"),
    ],
)
def test_anything_else_is_not_whole(content, refusal):
    with pytest.raises(CorruptBatchError, match=refusal):
        check_snapshot(content)


def test_damage_inside_is_found():
    content = bytearray(control(HEADER, 0) + data(1) + control(FOOTER, 3))
    content[len(control(HEADER, 0)) + 65] ^= 1
    with pytest.raises(CorruptBatchError):
        check_snapshot(bytes(content))


def test_a_control_record_of_a_newer_version_is_refused():
    newer = Record(key=HEADER.key, value=b"\0\1" + HEADER.value[2:], timestamp_ms=5)
    with pytest.raises(UnsupportedFormatError, match="SnapshotHeaderRecord in version 1, known are 0 to 0"):
        check_snapshot(control(newer, 0) + control(FOOTER, 1))
