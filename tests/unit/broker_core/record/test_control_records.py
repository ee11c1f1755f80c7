"""End-transaction markers and the types of control records."""

import struct

import pytest
from support.builders.builders import a_commit_marker, an_abort_marker

from broker_core.model.exceptions import CorruptBatchError
from broker_core.record.batch_builder import build_batch, build_empty_batch
from broker_core.record.batch_header import read_header
from broker_core.record.batch_reader import Record
from broker_core.record.control_records import (
    ControlType,
    EndTransactionMarker,
    control_type,
    read_control_type,
    read_end_transaction_marker,
)


def a_control_batch(key, value=b"\0\0\0\0\0\0"):
    return build_batch([Record(key=key, value=value)], is_control=True, is_transactional=True, producer_id=1)


def test_a_marker_round_trips():
    commit = a_commit_marker(coordinator_epoch=12)
    assert read_end_transaction_marker(commit) == EndTransactionMarker(is_commit=True, coordinator_epoch=12)
    assert read_control_type(an_abort_marker()) is ControlType.ABORT


def test_a_marker_is_one_transactional_control_record_without_sequence():
    header = read_header(a_commit_marker(producer_id=5, producer_epoch=2))
    assert header.is_control and header.is_transactional
    assert (header.record_count, header.base_sequence) == (1, -1)
    assert (header.producer_id, header.producer_epoch) == (5, 2)


def test_later_versions_with_more_bytes_are_read_up_to_the_known_fields():
    batch = a_control_batch(struct.pack(">hhq", 1, 1, 0), struct.pack(">hiq", 1, 7, 0))
    assert read_end_transaction_marker(batch) == EndTransactionMarker(is_commit=True, coordinator_epoch=7)


def test_unknown_and_quorum_control_types_are_not_markers():
    assert control_type(struct.pack(">hh", 0, 99)) is None
    assert read_end_transaction_marker(a_control_batch(struct.pack(">hh", 0, 2))) is None
    assert read_end_transaction_marker(build_empty_batch(read_header(a_commit_marker()))) is None
    assert read_control_type(build_empty_batch(read_header(a_commit_marker()))) is None


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", struct.pack(">hh", -1, 0)])
def test_a_control_record_with_an_invalid_key_is_corrupt(key):
    with pytest.raises(CorruptBatchError):
        read_control_type(a_control_batch(key))


@pytest.mark.parametrize("value", [None, b"", b"\0\0\0\0\0", struct.pack(">hi", -1, 0)])
def test_a_marker_with_an_invalid_value_is_corrupt(value):
    with pytest.raises(CorruptBatchError):
        read_end_transaction_marker(a_control_batch(struct.pack(">hh", 0, 0), value))
