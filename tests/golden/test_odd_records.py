"""Records with odd offsets and times that Kafka stores: read as Kafka's own consumer reads them.

Its consumer passes over a record that is not above the one before. It also passes over whole batches below a record
whose offset was too high for its own batch; those are not lost here.
"""

import json
from base64 import b64decode

import pytest
from golden.odd_records_recording import FILE, scenes

from broker_core.model.exceptions import UnsupportedFormatError
from broker_core.record import pure_kernel
from broker_core.record.active_kernel import KERNEL
from broker_core.record.batch_decoder import decode
from broker_core.record.batch_reader import iter_headers, records_of

RECORDED = json.loads(FILE.read_text())
SCENES = pytest.mark.parametrize("scene", RECORDED)
PLAIN = ["plain0", "plain1"]


def rows(buffer, kernel=KERNEL, from_offset=0, **given):
    found = decode(buffer, from_offset=from_offset, columns=frozenset({"offset", "value"}), kernel=kernel, **given)
    columns = found.record_batch.to_pydict()
    return list(zip(columns["offset"], (value.decode() for value in columns["value"]), strict=True)), found.next_offset


def consumed(scene, prefix):
    return [(offset, value) for offset, _, value in RECORDED[scene]["consumed"] if value.startswith(prefix)]


def test_every_scene_is_recorded_and_stored_by_kafka():
    assert RECORDED.keys() == scenes().keys()
    assert all(one["errors"] == ["none", "none"] for one in RECORDED.values())
    assert all(one["consumed"] for one in RECORDED.values())


@SCENES
@pytest.mark.parametrize("kernel", [KERNEL, pure_kernel], ids=["fast", "slow"])
def test_the_records_of_the_odd_batch_are_those_of_kafkas_consumer(scene, kernel):
    stored = b64decode(RECORDED[scene]["stored"])
    found, next_offset = rows(stored, kernel)
    (_, odd), (_, plain) = iter_headers(stored)
    assert [row for row in found if row[1] not in PLAIN] == consumed(scene, "odd")
    assert [row for row in found if row[1] in PLAIN] == [
        (plain.base_offset, "plain0"),
        (plain.base_offset + 1, "plain1"),
    ]
    assert set(consumed(scene, "plain")) <= set(found)
    assert next_offset == plain.last_offset + 1
    # As Spark reads: in ranges that end where a batch does, and in one piece.
    first, _ = rows(stored, kernel, until_offset=odd.last_offset + 1)
    assert first == [row for row in found if row[0] <= odd.last_offset]


@SCENES
def test_the_times_are_those_of_kafkas_consumer_and_wrap_around_as_in_java(scene):
    stored = b64decode(RECORDED[scene]["stored"])
    times = {record.value.decode(): record.timestamp_ms for record in records_of(stored)}
    expected = {value: time for _, time, value in RECORDED[scene]["consumed"] if value.startswith("odd")}
    assert {value: times[value] for value in expected} == expected


@pytest.mark.parametrize("scene", ["a time above 64 bits", "a time below 64 bits", "the widest difference of times"])
def test_a_time_that_spark_cannot_hold_names_its_record_and_costs_the_other_columns_nothing(scene):
    stored = b64decode(RECORDED[scene]["stored"])
    with pytest.raises(UnsupportedFormatError, match="at offset") as caught:
        decode(stored, from_offset=0)
    assert caught.value.record_offset in (0, 1)
    assert len(rows(stored)[0]) == 4


@SCENES
@pytest.mark.parametrize("kernel", [KERNEL, pure_kernel], ids=["fast", "slow"])
def test_row_by_row_nothing_is_left_out_and_nothing_comes_twice(scene, kernel):
    stored = b64decode(RECORDED[scene]["stored"])
    whole, end = rows(stored, kernel)
    found, from_offset = [], 0
    while from_offset < end:
        part, after = rows(stored, kernel, from_offset=from_offset, max_rows=1)
        assert after > from_offset
        found, from_offset = found + part, after
    assert found == whole
