"""A process dies between any two file operations of changes to topics: each change is whole or absent.

On a real directory, with the whole `EmbeddedCluster`; another process comes after it and goes on.
"""

from __future__ import annotations

import gc
import itertools
import random
import shutil
import tempfile
from collections import Counter
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from fuzz.batches import a_batch_of, rows_of
from fuzz.dying_file_system import DyingFileSystem
from fuzz.losing_file_system import LosingFileSystem
from fuzz.plain_log import Content
from support.files.faulty_file_system import Killed

from broker_core.cluster import GroupOffset
from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.model.identifiers import TopicPartition

pytestmark = pytest.mark.usefixtures("frozen_heap")

SETTINGS = {"retention.ms": "-1"}


def append(topic, number, key):
    batch = a_batch_of([Content(1, key, b"v" * 200)])
    return lambda cluster: cluster.append(TopicPartition(topic, number), batch[:])


STEPS = {
    "create a": lambda cluster: cluster.create_topic("a", partition_count=2, configs=SETTINGS),
    "append to a": append("a", 0, b"first"),
    "append more to a": append("a", 0, b"second"),
    "widen a": lambda cluster: cluster.create_partitions("a", 3),
    "append to the new partition": append("a", 2, b"third"),
    "alter a": lambda cluster: cluster.alter_topic_configs("a", {"retention.bytes": "1000000"}),
    "create b": lambda cluster: cluster.create_topic("b", configs=SETTINGS),
    "reserve producer ids": lambda cluster: cluster.init_producer(),
    "delete a": lambda cluster: cluster.delete_topic("a"),
    "create a again": lambda cluster: cluster.create_topic("a", configs=SETTINGS),
    "append to the new a": append("a", 0, b"fourth"),
}


def state_of(cluster):
    """Topics with their settings, and the keys in each partition."""
    found = {}
    for name, topic in cluster.describe_topics().items():
        if topic.is_internal:
            continue
        keys = []
        for number in range(topic.partition_count):
            partition, offset = TopicPartition(name, number), 0
            keys.append([])
            while offset < cluster.bounds(partition).high_watermark:
                fetched = cluster.fetch(partition, offset, max_bytes=10**6)
                keys[-1] += [row.key for row in rows_of(fetched, offset)]
                offset = fetched.next_offset
        found[name] = (dict(topic.configs), keys)
    return found


def run(directory, fs, on_step):
    cluster = EmbeddedCluster(directory, create=True, file_system=fs)
    for number, step in enumerate(STEPS.values()):
        on_step(number)
        step(cluster)
    cluster.close()


def a_folder():
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="streamlog-crash-", dir=memory if memory.is_dir() else None))


@cache
def rehearse():
    """The state before each step and after the last one, and all file operations."""
    folder = a_folder()
    states, fs = [], DyingFileSystem()

    def look(number):
        if not number:
            states.append({})
            return
        other = EmbeddedCluster(folder / "log")
        states.append(state_of(other))
        other.close()

    run(folder / "log", fs, look)
    look(len(STEPS))
    shutil.rmtree(folder)
    return states, fs.calls


def test_the_steps_change_all_that_can_be_changed_of_a_topic():
    states, calls = rehearse()
    assert len(states) == len(STEPS) + 1
    assert sum(before != after for before, after in itertools.pairwise(states)) == len(STEPS) - 1
    assert Counter(kind for kind, _ in calls).keys() >= {"make_directory", "rename", "remove_directory", "write"}


@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.long)])
def test_a_crash_before_any_file_operation_leaves_each_change_of_topics_whole_or_absent(stride):
    assert not _wrong_after_crashes(stride, is_beside_another=False)


@pytest.mark.parametrize("stride", [6, pytest.param(1, marks=pytest.mark.long)])
def test_after_another_process_dies_each_topic_change_is_whole_or_absent(stride):
    assert not _wrong_after_crashes(stride, is_beside_another=True)


@pytest.mark.parametrize("survivors", ["no sectors", "some sectors"])
@pytest.mark.parametrize("stride", [12, pytest.param(1, marks=pytest.mark.long)])
def test_a_power_failure_loses_no_acknowledged_topic_change(stride, survivors):
    _, calls = rehearse()
    lost = []

    def crash_at(directory, number):
        fs = LosingFileSystem(str(directory.parent), number)
        reached = _dies(directory, fs)
        fs.lose_power(random.Random(number) if survivors == "some sectors" else None)
        lost.append(fs.hits)
        fs.close()
        with EmbeddedCluster(directory, create=True) as survivor:
            return _what_is_wrong(survivor, reached)

    assert not _wrong_after(crash_at, calls[stride // 2 :: stride], range(stride // 2, len(calls), stride))
    assert sum(lost) > len(lost) // 2


def test_offsets_of_an_interrupted_deletion_do_not_apply_to_a_recreated_topic():
    partition, other = TopicPartition("a", 0), TopicPartition("kept", 0)
    outcomes = Counter()
    for number in itertools.count():
        folder = a_folder()
        with EmbeddedCluster(folder / "log", create=True) as neighbour:
            for name in ("a", "kept"):
                neighbour.create_topic(name, configs=SETTINGS)
            neighbour.commit_offsets("readers", {partition: GroupOffset(offset=0), other: GroupOffset(offset=0)})
            fs = DyingFileSystem(number)
            with suppress(Killed):
                EmbeddedCluster(folder / "log", file_system=fs).delete_topic("a")
            gc.collect()
            is_deleted = "a" not in neighbour.describe_topics()
            assert list(neighbour.fetch_offsets("readers")) == ([other] if is_deleted else [partition, other])
            if is_deleted:
                neighbour.create_topic("a", configs=SETTINGS)
                assert list(neighbour.fetch_offsets("readers")) == [other]
                neighbour.commit_offsets("readers", {partition: GroupOffset(offset=0)})
                neighbour.maintain()
            with EmbeddedCluster(folder / "log") as fresh:
                assert list(fresh.fetch_offsets("readers")) == [partition, other]
        shutil.rmtree(folder)
        outcomes["deleted" if is_deleted else "there"] += 1
        if not fs.is_dead:
            break
    assert outcomes["there"] > 2
    assert outcomes["deleted"] > 5


def _wrong_after_crashes(stride, *, is_beside_another):
    _, calls = rehearse()

    def crash_at(directory, number):
        return _crash_at(directory, number, is_beside_another=is_beside_another)

    return _wrong_after(crash_at, calls[::stride], range(0, len(calls), stride))


def _wrong_after(crash_at, calls, numbers):
    wrong = {}
    for number, call in zip(numbers, calls, strict=True):
        folder = a_folder()
        try:
            error = crash_at(folder / "log", number)
        finally:
            shutil.rmtree(folder)
        if error:
            wrong[number, call] = error
    return wrong


def _crash_at(directory, number, *, is_beside_another):
    """The other one looks before every third step, so that he knows some of what the dead one did, and not the rest."""
    neighbours = []

    def on_step(step):
        if is_beside_another and step and step % 3 == number % 3:
            if not neighbours:
                neighbours.append(EmbeddedCluster(directory, create=True))
            state_of(neighbours[0])

    reached = _dies(directory, DyingFileSystem(number), on_step)
    with neighbours[0] if neighbours else EmbeddedCluster(directory, create=True) as survivor:
        return _what_is_wrong(survivor, reached)


def _dies(directory, fs, on_step=lambda step: None):
    """The number of the step that it was killed in."""
    reached = []

    def note(step):
        reached.append(step)
        on_step(step)

    with suppress(Killed):
        run(directory, fs, note)
    assert fs.is_dead, "the fault was not hit"
    gc.collect()  # what a dead process had open is closed, and its locks with it
    return reached[-1]


def _what_is_wrong(survivor, step):
    states, _ = rehearse()
    before, after = states[step], states[step + 1]
    told = state_of(survivor)
    if told not in (before, after):
        return f"{told} is neither {before} nor {after}"
    # It acts on what it has read; from now on nothing that the dead process began may change that.
    _append_everywhere(survivor, b"beside")
    survivor.maintain()
    survivor.create_topic("later", configs=SETTINGS)
    _append_everywhere(survivor, b"later")
    with EmbeddedCluster(survivor.path) as other:
        seen = state_of(other)
    kept = {name: keys for name, keys in seen.items() if name != "later"}
    if kept not in [_grown(told, _written_by_the_dead(before, after)), _grown(told, {})]:
        return f"told of {told}, then there was {seen}"
    return _rubbish_in(Path(survivor.path), seen)


def _append_everywhere(cluster, key):
    for name, topic in cluster.describe_topics().items():
        for partition in range(topic.partition_count if not topic.is_internal else 0):
            append(name, partition, key)(cluster)


def _written_by_the_dead(before, after):
    """The record of the interrupted step: no process learned whether it was written."""
    return {
        (name, number): keys[len(before[name][1][number]) :]
        for name, (_, partitions) in after.items()
        for number, keys in enumerate(partitions)
        if name in before and number < len(before[name][1])
    }


def _grown(told, unacknowledged):
    return {
        name: (
            configs,
            [[*keys, *unacknowledged.get((name, n), ()), b"beside", b"later"] for n, keys in enumerate(partitions)],
        )
        for name, (configs, partitions) in told.items()
    }


def _rubbish_in(directory, seen):
    wanted = {f"{name}-{number}" for name, (_, keys) in seen.items() for number in range(len(keys))}
    folders = {path.name for path in directory.iterdir() if path.is_dir()}
    rubbish = folders - wanted - {"__cluster_metadata-0"}
    return f"left over: {rubbish}" if rubbish else None
