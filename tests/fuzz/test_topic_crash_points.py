"""A process dies between any two file operations of changes to topics: each change is whole or absent.

On a real directory, with the whole `EmbeddedCluster`; another process comes after it and goes on.
"""

from __future__ import annotations

import gc
import itertools
import shutil
import tempfile
from collections import Counter
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from fuzz.batches import a_batch_of, rows_of
from fuzz.dying_file_system import DyingFileSystem
from fuzz.plain_log import Content
from support.files.faulty_file_system import Killed

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
    "create b": lambda cluster: cluster.create_topic("b"),
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
def test_who_has_the_directory_open_while_another_dies_sees_each_change_of_topics_whole_or_absent(stride):
    assert not _wrong_after_crashes(stride, is_beside_another=True)


def _wrong_after_crashes(stride, *, is_beside_another):
    _, calls = rehearse()
    wrong = {}
    for number, call in list(enumerate(calls))[::stride]:
        folder = a_folder()
        try:
            error = _crash_at(folder / "log", number, is_beside_another=is_beside_another)
        finally:
            shutil.rmtree(folder)
        if error:
            wrong[number, call] = error
    return wrong


def _crash_at(directory, number, *, is_beside_another):
    """The other one looks before every third step, so that he knows some of what the dead one did, and not the rest."""
    states, _ = rehearse()
    reached, neighbours = [0], []

    def on_step(step):
        reached.append(step)
        if is_beside_another and step and step % 3 == number % 3:
            if not neighbours:
                neighbours.append(EmbeddedCluster(directory, create=True))
            state_of(neighbours[0])

    fs = DyingFileSystem(number)
    with suppress(Killed):
        run(directory, fs, on_step)
    if not fs.is_dead:
        return "the fault was not hit"
    gc.collect()  # what a dead process had open is closed, and its locks with it
    before, after = states[reached[-1]], states[reached[-1] + 1]
    survivor = neighbours[0] if neighbours else EmbeddedCluster(directory, create=True)
    try:
        found = state_of(survivor)
        if found not in (before, after):
            return f"{found} is neither {before} nor {after}"
        survivor.maintain()
        survivor.create_topic("later", partition_count=2)
        # A change that was written and not published is no longer in doubt once somebody else wrote.
        found = state_of(survivor)
        del found["later"]
        if found not in (before, after):
            return f"repaired it is {found}, neither {before} nor {after}"
        for name, topic in survivor.describe_topics().items():
            for partition in range(topic.partition_count if not topic.is_internal else 0):
                append(name, partition, b"later")(survivor)
        grown = {name: (configs, [[*k, b"later"] for k in keys]) for name, (configs, keys) in found.items()}
        other = EmbeddedCluster(directory)
        seen = state_of(other)
        other.close()
        if {name: seen[name] for name in found} != grown:
            return f"appending went wrong: {seen}, not {grown}"
        return _rubbish_in(directory, seen)
    finally:
        survivor.close()


def _rubbish_in(directory, seen):
    wanted = {f"{name}-{number}" for name, (_, keys) in seen.items() for number in range(len(keys))}
    folders = {path.name for path in directory.iterdir() if path.is_dir()}
    rubbish = folders - wanted - {"__cluster_metadata-0"}
    return f"left over: {rubbish}" if rubbish else None
