import time
import tracemalloc

import pytest
from support.objects.object_builders import (
    LOG_ID,
    OTHER_ID,
    SOME_MS,
    TOPIC_ID,
    a_commit,
    a_path,
    a_range,
    a_topic,
    an_append,
    an_image,
)

from broker_core.model.exceptions import CorruptObjectError
from broker_core.object_log import checkpoint_codec
from broker_core.object_log.checkpoint_codec import decode_checkpoint, encode_checkpoint
from broker_core.object_log.commit import AdvanceHorizon, MoveLogStart, PinOffsets
from broker_core.object_log.range_table import NUMBER_COLUMNS, RangeTable
from broker_core.staged_writes import AppVersion


def a_full_image():
    image = an_image(
        a_topic(retention_ms="1000"),
        a_topic("other", partitions=1, topic_id=OTHER_ID),
        an_append(a_range(1), a_range(1, position=100), a_range(2, filter_bytes=64)),
        an_append(a_range(3, offsets=4, record_count=1), partition=1),
        an_append(a_range(4), topic_id=OTHER_ID),
        MoveLogStart(topic_id=TOPIC_ID, partition=0, offset=12),
        MoveLogStart(topic_id=OTHER_ID, partition=0, offset=10),
        PinOffsets(group_id="g", pins=((TOPIC_ID, 1, 3, 77),)),
        AdvanceHorizon(horizon_ms=SOME_MS - 5),
    )
    image.apply(a_commit(image.number + 1, app=AppVersion(app_id="job", version=9, note="n")))
    return image


def content_of(image):
    """All that an image says, as plain values."""
    return {
        "head": (image.log_id, image.number, image.time_ms, image.horizon_ms, image.last_writer),
        "topics": image.topics,
        "apps": dict(image.apps),
        "pins": dict(image.pins),
        "references": dict(image.references),
        "dropped": dict(image.dropped),
        "partitions": [
            (topic.name, number, one.log_start_offset, one.log_end_offset, one.clean_offset, list(one.ranges))
            for topic, number, one in image.partitions()
        ],
    }


def read(data, number):
    return decode_checkpoint(data, log_id=LOG_ID, number=number, url="s3://b/l")


def test_an_image_is_read_as_it_was_written():
    image = a_full_image()
    assert content_of(read(encode_checkpoint(image), image.number)) == content_of(image)


def test_an_empty_image_too():
    image = an_image()
    assert content_of(read(encode_checkpoint(image), 0)) == content_of(image)


def test_an_image_from_a_checkpoint_continues_like_the_original():
    image = a_full_image()
    restored = read(encode_checkpoint(image), image.number)
    for one in (image, restored):
        one.apply(a_commit(one.number + 1, an_append(a_range(8)), time_ms=SOME_MS + 1))
        one.apply(a_commit(one.number + 1, MoveLogStart(topic_id=TOPIC_ID, partition=0, offset=25)))
    assert content_of(restored) == content_of(image)
    assert a_path(1) in restored.dropped


def test_a_checkpoint_of_an_earlier_version_has_no_filters(monkeypatch):
    image = a_full_image()
    real = RangeTable.columns
    with monkeypatch.context() as earlier:
        earlier.setattr(checkpoint_codec, "NUMBER_COLUMNS", NUMBER_COLUMNS[:-1])
        earlier.setattr(RangeTable, "columns", lambda table: real(table)[:-1])
        data = encode_checkpoint(image)
    found = content_of(read(data, image.number))
    expected = content_of(image)
    for *_, ranges in expected["partitions"]:
        ranges[:] = [one._replace(data=one.data._replace(filter_bytes=0)) for one in ranges]
    assert found == expected != content_of(image)


def test_flipped_bits_and_cuts_are_found_and_named():
    image = a_full_image()
    data = encode_checkpoint(image)
    for position in range(0, len(data), 3):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        with pytest.raises(CorruptObjectError, match=r"checkpoints/0+10 cannot be read"):
            read(bytes(damaged), image.number)
        with pytest.raises(CorruptObjectError):
            read(data[:position], image.number)


def test_a_checkpoint_under_another_number_is_refused():
    image = a_full_image()
    with pytest.raises(CorruptObjectError, match="the image at commit 10"):
        read(encode_checkpoint(image), image.number + 1)


def test_a_hundred_thousand_ranges_take_a_few_megabytes_and_a_moment():
    image = an_image(a_topic())
    ranges = [a_range(number) for number in range(100_000)]
    image.apply(a_commit(2, an_append(*ranges)))
    data = encode_checkpoint(image)
    assert len(data) < 4_000_000
    del image, ranges
    tracemalloc.start()
    began = time.process_time()
    restored = read(data, 2)
    seconds = time.process_time() - began
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert restored.partition(TOPIC_ID, 0).log_end_offset == 1_000_000
    assert held < 60_000_000 and peak < 120_000_000, (held, peak)
    assert seconds < 20, seconds
