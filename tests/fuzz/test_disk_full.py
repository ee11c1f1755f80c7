"""A full disk: a clear error, nothing half-written to be seen, and writing goes on when there is room."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress

import pytest
from fuzz.batches import a_batch_of, rows_of
from fuzz.partition_findings import findings_of
from fuzz.partition_scenario import CONFIGS, STEPS, create, is_between, prepared, rehearse, state_of
from fuzz.plain_log import Content
from fuzz.store_machine import StoreLog
from support.files.faulty_file_system import FaultyFileSystem

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.exceptions import DiskFullError
from broker_core.model.identifiers import TopicPartition

PARTITION = TopicPartition("t", 0)
SMALL = {"internal.segment.bytes": "30000", "index.interval.bytes": "0", "retention.ms": "-1"}


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of 512 KiB with nothing else on it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "streamlog-test", str(folder)]
    if os.name != "posix" or os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a disk that is really full needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def a_numbered_batch(number, size_bytes):
    return a_batch_of([Content(1_700_000_000_000 + number, b"%d" % number, bytes(size_bytes))])


def keys_of(cluster):
    keys, offset = [], cluster.bounds(PARTITION).log_start_offset
    while offset < cluster.bounds(PARTITION).high_watermark:
        fetched = cluster.fetch(PARTITION, offset, max_bytes=1 << 20)
        keys += [int(row.key) for row in rows_of(fetched, offset)]
        offset = fetched.next_offset
    return keys


def append_until_full(cluster, size_bytes, first=0):
    """Numbers of the acknowledged batches."""
    number = first
    for number in range(first, first + 10_000):
        try:
            cluster.append(PARTITION, a_numbered_batch(number, size_bytes))
        except DiskFullError as refusal:
            assert str(PARTITION) in str(refusal)
            return list(range(first, number))
    raise AssertionError("the disk never filled up")


@pytest.mark.parametrize("size_bytes", [50, 3000, 20_000])
def test_a_full_disk_is_reported_and_nothing_partial_is_visible(tiny_disk, size_bytes):
    directory = str(tiny_disk / "log")
    cluster = open_embedded(directory, create=True)
    cluster.create_topic("t", configs=SMALL)
    (tiny_disk / "ballast").write_bytes(bytes(200_000))
    acknowledged = append_until_full(cluster, size_bytes)
    assert acknowledged
    other = open_embedded(directory)
    assert keys_of(cluster) == keys_of(other) == acknowledged
    assert [f for f in findings_of(directory, PARTITION) if f.is_damage] == []
    with pytest.raises(DiskFullError):
        other.append(PARTITION, a_numbered_batch(-1, 29_000))

    (tiny_disk / "ballast").unlink()
    more = list(range(len(acknowledged), len(acknowledged) + 5))
    for number in more:
        (other if number % 2 else cluster).append(PARTITION, a_numbered_batch(number, size_bytes))
    assert keys_of(cluster) == keys_of(other) == acknowledged + more
    assert findings_of(directory, PARTITION) == []
    cluster.close()
    other.close()


def test_deleting_records_frees_a_full_disk(tiny_disk):
    cluster = open_embedded(str(tiny_disk / "log"), create=True)
    cluster.create_topic("t", configs=SMALL)
    acknowledged = append_until_full(cluster, 5000)
    cluster.delete_records(PARTITION, len(acknowledged) - 3)
    again = append_until_full(cluster, 5000, first=len(acknowledged))
    assert len(again) > 20
    assert keys_of(cluster) == [*acknowledged[-3:], *again]
    cluster.close()


@pytest.mark.parametrize("free_pages", range(14))
def test_creating_a_topic_on_a_disk_that_fills_up_is_atomic(tiny_disk, free_pages):
    directory = str(tiny_disk / "log")
    cluster = open_embedded(directory, create=True)
    cluster.create_topic("t", configs=SMALL)
    page_bytes = os.statvfs(tiny_disk).f_frsize
    free_bytes = os.statvfs(tiny_disk).f_bavail * page_bytes
    (tiny_disk / "ballast").write_bytes(bytes(free_bytes - free_pages * page_bytes))
    with suppress(DiskFullError):
        cluster.create_topic("u", partition_count=2, configs=SMALL)
    (tiny_disk / "ballast").unlink()
    other = open_embedded(directory)
    assert set(cluster.describe_topics()) == set(other.describe_topics())
    if "u" not in other.describe_topics():
        other.create_topic("u", partition_count=2, configs=SMALL)
    for number in range(2):
        for door in (cluster, other):
            door.append(TopicPartition("u", number), a_numbered_batch(1, 10))
        assert findings_of(directory, TopicPartition("u", number)) == []
    cluster.close()
    other.close()


@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.long)])
def test_a_disk_that_fills_up_at_any_byte_leaves_the_partition_as_it_was_before_the_step(stride):
    """By default at every third of the sizes, other ones at each step."""
    sizes = [0, 1, 7, 8, 12, 33, 34, 60, 61, *range(100, 2400, 137)]
    rehearsal = rehearse()
    found, hits = {}, 0
    for number, step in enumerate(STEPS):
        for free_bytes in sizes[number % stride :: stride]:
            fs = disk_before(number)
            fs.fill_up_after(free_bytes)
            log = StoreLog(fs, CONFIGS)
            wrong = None
            try:
                step.do(log)
            except DiskFullError:
                pass
            except OSError as raw:
                wrong = f"a bare OSError: {raw}"
            struck = fs.hits["disk_full"]
            hits += bool(struck)
            wrong = wrong or _what_is_wrong(fs, log, number, struck=bool(struck))
            if wrong:
                found[step.name, free_bytes] = wrong
            if not struck:
                break
    assert hits > 50 // stride
    assert rehearsal.states
    assert not found


def _what_is_wrong(fs, log, number, *, struck):
    rehearsal, step = rehearse(), STEPS[number]
    before, after = rehearsal.states[number], rehearsal.states[number + 1]
    for reader in (log, StoreLog(fs, CONFIGS)):
        wrong = is_between(state_of(reader), before, after)
        if wrong:
            return wrong
    damage = [finding for finding in log.store.verify() if finding.is_damage]
    if damage:
        return f"verify: {damage}"
    fs.free_space()
    if struck and (step.may_be_repeated or state_of(log) == before) and step.name != "truncate":
        step.do(log)
        found = state_of(StoreLog(fs, CONFIGS))
        if step.name.startswith("append") and found != after:
            return f"done again it is {found}, not {after}"
    end = log.bounds().log_end_offset
    log.append(a_batch_of([Content(1, b"k", b"v")]), 10**12)
    findings = log.store.verify()
    if findings:
        return f"verify, when there was room again: {findings}"
    return None if StoreLog(fs, CONFIGS).bounds().log_end_offset == end + 1 else "appending does not go on"


def disk_before(number):
    """The scenario's disk before step `number`."""
    fs = prepared(FaultyFileSystem())
    create(fs)
    log = StoreLog(fs, CONFIGS)
    for step in STEPS[:number]:
        step.do(log)
    return fs
