import json

import crc32c
import pytest
from support.objects.object_builders import LOG_ID, OTHER_ID, TOPIC_ID, a_commit, a_path, a_range, a_topic, an_append

from broker_core.model.exceptions import CorruptObjectError, ObjectLogFormatError
from broker_core.object_log.commit import (
    AdvanceHorizon,
    DeleteTopic,
    MoveLogStart,
    PinOffsets,
    ReplaceRanges,
    SkipOffsets,
)
from broker_core.object_log.commit_codec import decode_commit, encode_commit
from broker_core.object_log.data_range import PlacedRange
from broker_core.staged_writes import AppVersion

EVERYTHING = a_commit(
    7,
    an_append(a_range(1, filter_bytes=64), a_range(2, offsets=3, first_timestamp_ms=-1, max_timestamp_ms=-1)),
    a_topic("events", partitions=3, retention_ms="1000"),
    DeleteTopic(topic_id=OTHER_ID),
    ReplaceRanges(
        topic_id=TOPIC_ID,
        partition=1,
        from_offset=10,
        until_offset=30,
        input_digest="0badcafe",
        outputs=(PlacedRange(10, a_range(3, offsets=20, record_count=4, filter_bytes=64 + 2 * 4096)),),
        clean_until=30,
    ),
    ReplaceRanges(topic_id=TOPIC_ID, partition=1, from_offset=30, until_offset=40, input_digest="00000001", outputs=()),
    MoveLogStart(topic_id=TOPIC_ID, partition=0, offset=5),
    PinOffsets(group_id="gruppe ü", pins=((TOPIC_ID, 0, 4, 99), (TOPIC_ID, 1, 0, 0))),
    AdvanceHorizon(horizon_ms=12),
    SkipOffsets(topic_id=TOPIC_ID, partition=1, from_offset=40, until_offset=50),
    app=AppVersion(app_id="job", version=3, note="{}"),
    previous_writer=f"{6:032x}",
)


def read(data, number=7):
    return decode_commit(data, log_id=LOG_ID, number=number, url="s3://b/l")


def resealed(change):
    """The commit with a changed document, and a checksum that is right."""
    document = json.loads(encode_commit(EVERYTHING))["commit"]
    change(document)
    content = json.dumps(document, separators=(",", ":")).encode()
    return b'{"crc32c":"%08x","commit":%s}' % (crc32c.crc32c(content), content)


def test_a_commit_is_read_as_it_was_written():
    assert read(encode_commit(EVERYTHING)) == EVERYTHING


def test_a_commit_without_a_writer_before_it_is_read():
    assert read(resealed(lambda document: document.pop("previous"))).previous_writer == ""


def test_a_commit_without_filters_is_as_earlier_versions_wrote_and_read_it():
    document = json.loads(encode_commit(a_commit(7, an_append(a_range(1)))))
    assert document["commit"]["changes"][0].keys() == {"kind", "topics", "objects", "ranges"}
    ranges = read(resealed(lambda document: document["changes"][0].pop("filters"))).changes[0].ranges
    assert [one.data.filter_bytes for one in ranges] == [0, 0]


def test_a_commit_is_json_for_people():
    document = json.loads(encode_commit(EVERYTHING))
    assert document["commit"]["app"] == {"id": "job", "version": 3, "note": "{}"}
    assert document["commit"]["changes"][0]["ranges"][0] == [
        0,
        0,
        0,
        0,
        100,
        10,
        10,
        1_764_000_000_000,
        1_764_000_000_000,
    ]


def test_every_flipped_bit_and_every_cut_is_found_and_named():
    data = encode_commit(EVERYTHING)
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        with pytest.raises(CorruptObjectError, match="commits/00000000000000000007"):
            read(bytes(damaged))
        with pytest.raises(CorruptObjectError):
            read(data[:position])


def test_a_commit_under_another_number_or_of_another_log_is_refused():
    with pytest.raises(CorruptObjectError, match=r"it is commit 7 .* not commit 8"):
        read(encode_commit(EVERYTHING), number=8)
    with pytest.raises(CorruptObjectError, match=str(OTHER_ID)):
        read(encode_commit(a_commit(7, log_id=OTHER_ID)))


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.update(format=2),
        lambda document: document.update(more=1),
        lambda document: document["changes"].append({"kind": "transaction"}),
        lambda document: document["changes"][2].update(more=1),
        lambda document: document["app"].update(more=1),
    ],
)
def test_what_a_newer_version_wrote_is_refused_as_such(change):
    with pytest.raises(ObjectLogFormatError, match="newer version"):
        read(resealed(change))


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.pop("writer"),
        lambda document: document.update(number=True),
        lambda document: document.update(number=7.0),
        lambda document: document.update(time_ms=2**63),
        lambda document: document.update(writer="short"),
        lambda document: document.update(changes={}),
        lambda document: document["changes"][0]["ranges"].clear(),
        lambda document: document["changes"][0]["ranges"][0].append(1),
        lambda document: document["changes"][0]["ranges"][0].__setitem__(2, 9),
        lambda document: document["changes"][0]["ranges"][0].__setitem__(4, 0),
        lambda document: document["changes"][0]["ranges"][0].__setitem__(6, 11),
        lambda document: document["changes"][0]["objects"].__setitem__(0, "commits/1"),
        lambda document: document["changes"][0]["topics"].__setitem__(0, "no uuid"),
        lambda document: document["changes"][1].update(partitions=0),
        lambda document: document["changes"][1].update(configs={"retention.ms": 1}),
        lambda document: document["changes"][3]["ranges"][0].__setitem__(1, a_path(1) + "x"),
        lambda document: document["changes"][6]["pins"][0].append(1),
        lambda document: document["changes"][0]["filters"].append(0),
        lambda document: document["changes"][0]["filters"].__setitem__(0, 65),
        lambda document: document["changes"][3]["filters"].__setitem__(0, -1),
    ],
)
def test_what_no_version_writes_is_refused_as_damage(change):
    with pytest.raises(CorruptObjectError):
        read(resealed(change))
