"""A flipped bit, or a cut-off end, in any object of a log: it is detected and named, or has no effect."""

from __future__ import annotations

import pytest
from support.builders.append_records import append_values
from support.builders.builders import a_batch
from support.objects.object_builders import MemoryLog

from broker_core.cluster import GroupOffset
from broker_core.model.exceptions import CorruptObjectError, StreamlogError
from broker_core.model.identifiers import CompressionType, TopicPartition
from broker_core.record.batch_reader import iter_headers, records_of
from broker_core.staged_writes import AppVersion

PARTITIONS = (TopicPartition("t", 0), TopicPartition("t", 1))
KINDS = ("streamlog.json", "commits/", "checkpoints/0", "checkpoints/latest", "data/", "groups/")


@pytest.fixture(scope="module")
def memory():
    """A log with an object of every kind: a checkpoint in the middle, single and merged ranges, a compressed batch."""
    memory = MemoryLog()
    cluster = memory.open()
    cluster.create_topic("t", partition_count=2, configs={"retention.ms": "-1"})
    for number in range(8):
        append_values(cluster, "t", f"a{number}")
    upload = cluster.stage()
    upload.append(PARTITIONS[1], a_batch(3, compression=CompressionType.ZSTD))
    upload.append(PARTITIONS[0], a_batch(2))
    cluster.commit_staged([upload.finish()], app=AppVersion(app_id="q", version=1))
    assert cluster.maintain().checkpoint_number
    append_values(cluster, "t", "behind the checkpoint", partition=1)
    cluster.commit_offsets("g", {PARTITIONS[0]: GroupOffset(offset=3, metadata="m")})
    assert not [kind for kind in KINDS if not any(path.startswith(kind) for path in memory.store.objects)]
    return memory


def content_of(memory):
    """Everything that a new process sees."""
    cluster = memory.open(create=False)
    logs = {}
    for partition in PARTITIONS:
        position, found = 0, []
        while True:
            fetched = cluster.fetch(partition, position, max_bytes=500)
            data = bytes(fetched.buffer)
            for place, _ in iter_headers(data):
                found += list(records_of(data, place))
            if fetched.next_offset == position:
                break
            position = fetched.next_offset
        logs[partition] = found
    return logs, cluster.describe_topics(), cluster.fetch_offsets("g"), cluster.last_version("q")


def damages_of(good, count):
    """About so many of an object, spread over all of it, and some at its ends."""
    step = max(1, len(good) // count)
    for position in sorted({*range(0, len(good), step), *range(min(8, len(good))), len(good) - 1}):
        flipped = bytearray(good)
        flipped[position] ^= 1 << position % 8
        yield f"bit {position % 8} of byte {position}", bytes(flipped)
    for length in sorted({0, 1, len(good) // 2, len(good) - 1}):
        yield f"cut to {length}", good[:length]


@pytest.mark.parametrize("count", [40, pytest.param(150, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_reported_or_harmless(memory, kind, count):
    expected = content_of(memory)
    named = harmless = 0
    for path in [path for path in memory.store.objects if path.startswith(kind)]:
        good = memory.store.objects[path]
        for what, damaged in damages_of(good, count):
            memory.store.objects[path] = damaged
            try:
                found = content_of(memory)
            except StreamlogError as error:
                assert path in str(error), f"{path}, {what}: {error}"
                named += 1
            else:
                assert found == expected, f"{path}, {what}: served wrong"
                harmless += 1
            finally:
                memory.store.objects[path] = good
    assert named + harmless >= count // 2
    if kind in ("groups/", "data/"):
        assert named > 0


@pytest.mark.parametrize("is_staged", [False, True])
def test_a_removed_commit_whose_number_a_running_process_uses_again_is_named_and_moves_no_offset(is_staged):
    """A process that opens the log is refused; one whose image ends before the removed commit sees no later one."""
    memory = MemoryLog()
    writer, running = memory.open(), memory.open()
    writer.create_topic("t")
    for number in range(3):
        if number == 1:
            running.describe_topics(["t"])
        if is_staged:
            plan = writer.plan_staging(["t"])
            upload = writer.stage(plan)
            upload.append(PARTITIONS[0], a_batch(1))
            writer.commit_staged([upload.finish()], plan=plan)
        else:
            append_values(writer, "t", f"v{number}")
    del memory.store.objects["commits/00000000000000000003"]
    with pytest.raises(CorruptObjectError, match=r"commits/0+3 is missing, but commits/0+4 exists"):
        append_values(memory.open(), "t", "refused")
    append_values(running, "t", "into the hole")
    with pytest.raises(CorruptObjectError, match=r"commits/0+4 does not fit .* another commit 3, which was removed"):
        memory.open().fetch(PARTITIONS[0], 0, max_bytes=1000)


def test_damaged_commits_after_the_checkpoint_are_named(memory):
    last = max(path for path in memory.store.objects if path.startswith("commits/"))
    good = memory.store.objects[last]
    memory.store.objects[last] = good.replace(b"behind", b"behinD") if b"behind" in good else good[:-2]
    try:
        with pytest.raises(StreamlogError, match=last):
            content_of(memory)
    finally:
        memory.store.objects[last] = good
