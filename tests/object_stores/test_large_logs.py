"""Opening logs of several years. They are made by replaying commits, in a store in memory."""

import tracemalloc
from itertools import count

import pytest
from support.objects.in_memory_objects import InMemoryObjects
from support.objects.object_builders import (
    LOG_ID,
    SOME_MS,
    TOPIC_ID,
    MemoryLog,
    a_commit,
    a_path,
    a_range,
    a_topic,
    an_append,
)

from broker_core.model.identifiers import OffsetSpec, TopicPartition
from broker_core.object_log.checkpoint_codec import encode_checkpoint
from broker_core.object_log.commit import AdvanceHorizon, ReplaceRanges
from broker_core.object_log.commit_codec import encode_commit
from broker_core.object_log.data_range import PlacedRange
from broker_core.object_log.log_identity import encode_identity, encode_latest
from broker_core.object_log.log_image import LogImage
from broker_core.object_log.object_names import LATEST_CHECKPOINT, LOG_OBJECT, checkpoint_path, commit_path
from broker_core.object_log.partition_image import input_digest

T0 = TopicPartition("t", 0)
TAIL = 40
MINUTE_MS = 60_000
DAY_MINUTES = 24 * 60

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def put_checkpoint(store: InMemoryObjects, image: LogImage) -> None:
    store.put(LOG_OBJECT, encode_identity(LOG_ID))
    store.put(checkpoint_path(image.number), encode_checkpoint(image))
    store.put(LATEST_CHECKPOINT, encode_latest(LOG_ID, image.number))


def put_commits(store, image, commits):
    for commit in commits:
        image.apply(commit)
        store.put(commit_path(commit.number), encode_commit(commit))


def opened(log):
    """(end of the partition, objects read, bytes held and at the peak) of a process that opens the log. It lists the
    commits behind the checkpoint once."""
    before = log.store.requests.copy()
    tracemalloc.start()
    cluster = log.open(create=False)
    end = cluster.list_offsets({T0: OffsetSpec.LATEST})[T0].offset
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    requests = log.store.requests - before
    assert set(requests) == {"get", "list"} and requests["list"] == 1
    return end, requests["get"], held, peak


def test_a_log_of_a_hundred_thousand_ranges_opens_by_its_checkpoint_and_its_tail():
    log = MemoryLog()
    image = LogImage(LOG_ID)
    image.apply(a_commit(1, a_topic(partitions=1)))
    image.apply(a_commit(2, an_append(*(a_range(number) for number in range(100_000)))))
    put_checkpoint(log.store, image)
    put_commits(log.store, image, (a_commit(3 + n, an_append(a_range(200_000 + n))) for n in range(TAIL)))
    del image
    end, requests, held, peak = opened(log)
    assert end == 10 * (100_000 + TAIL)
    assert requests == 2 + TAIL
    assert held < 60_000_000 and peak < 120_000_000, (held, peak)
    plan = log.open(create=False).plan_fetches(T0, 0, end)
    assert len(plan.reads) < 400_000, "the plan of one task"


def test_a_log_of_a_year_with_a_commit_each_minute_opens_by_its_checkpoint_and_its_tail():
    """Each hundredth commit merges the ranges before it, and each day's first removes the replaced ones."""
    log = MemoryLog()
    image = LogImage(LOG_ID)
    objects = count()
    image.apply(a_commit(1, a_topic(partitions=1)))
    for number in range(2, 525_600 + 1):
        time_ms = SOME_MS + number * MINUTE_MS
        changes = []
        if number % DAY_MINUTES == 0:
            changes.append(AdvanceHorizon(horizon_ms=time_ms - DAY_MINUTES * MINUTE_MS))
        if number % 100 == 0:
            changes.append(merge_of_small_ranges(image, a_path(next(objects), time_ms)))
        else:
            changes.append(an_append(a_range(object=a_path(next(objects), time_ms), max_ms=time_ms)))
        image.apply(a_commit(number, *changes, time_ms=time_ms))
    put_checkpoint(log.store, image)
    last_ms = SOME_MS + 525_600 * MINUTE_MS
    tail = (
        a_commit(525_601 + n, an_append(a_range(object=a_path(next(objects), last_ms))), time_ms=last_ms)
        for n in range(TAIL)
    )
    put_commits(log.store, image, tail)
    expected = image.partition(TOPIC_ID, 0).log_end_offset
    del image
    end, requests, held, peak = opened(log)
    assert end == expected == 10 * (525_600 - 1 - 5256 + TAIL)
    assert requests == 2 + TAIL
    assert held < 20_000_000 and peak < 40_000_000, (held, peak)


def merge_of_small_ranges(image, path):
    partition = image.partition(TOPIC_ID, 0)
    last = range(max(0, len(partition.ranges) - 99), len(partition.ranges))
    rows = [partition.ranges[row] for row in last if partition.ranges[row].data.size_bytes == 100]
    start, end = rows[0].base_offset, rows[-1].end_offset
    merged = a_range(object=path, offsets=end - start, size=100 * len(rows))
    return ReplaceRanges(
        topic_id=TOPIC_ID,
        partition=0,
        from_offset=start,
        until_offset=end,
        input_digest=input_digest(rows),
        outputs=(PlacedRange(start, merged),),
    )
