"""Damage to the files that say what is in a directory: all of the truth, or a refusal that names the file.

Never an empty topic where there were records, and never a topic less.
"""

from __future__ import annotations

import random
import shutil

import pytest
from fuzz.batches import a_batch_of, rows_of
from fuzz.plain_log import Content

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.exceptions import DirectoryReadOnlyError, StreamlogError
from broker_core.model.identifiers import TopicPartition

FILES = [
    "meta.properties",
    "__cluster_metadata-0/00000000000000000000.log",
    "__cluster_metadata-0/00000000000000000000.index",
    "__cluster_metadata-0/partition.bounds",
    "__cluster_metadata-0/partition.metadata",
    "__cluster_metadata-0/leader-epoch-checkpoint",
    "a-0/partition.metadata",
    "a-0/partition.bounds",
    "a-0/leader-epoch-checkpoint",
]
REBUILT = ("index", "partition.bounds", "leader-epoch-checkpoint")
TRUTH = {"a": [[b"a0 first", b"a0 second"], [b"a1"]], "b": [[b"b"]]}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    directory = tmp_path_factory.mktemp("whole") / "log"
    cluster = open_embedded(directory, create=True)
    cluster.create_topic("gone")
    cluster.create_topic("a", partition_count=2, configs={"retention.ms": "-1"})
    cluster.create_topic("b", configs={"retention.ms": "-1"})
    cluster.delete_topic("gone")
    for topic, partitions in TRUTH.items():
        for number, keys in enumerate(partitions):
            for key in keys:
                cluster.append(TopicPartition(topic, number), a_batch_of([Content(1, key, b"value")]))
    cluster.close()
    return directory


def keys_in(cluster):
    found = {}
    for topic, partitions in TRUTH.items():
        found[topic] = []
        for number in range(len(partitions)):
            partition, offset = TopicPartition(topic, number), 0
            keys = []
            while offset < cluster.bounds(partition).high_watermark:
                fetched = cluster.fetch(partition, offset, max_bytes=10**6)
                keys += [row.key for row in rows_of(fetched, offset)]
                offset = fetched.next_offset
            found[topic].append(keys)
    return found


def what_goes_wrong(directory, name):
    """None if a reader and a writer find all there is, or are told which file is damaged."""
    return _for_a_reader(directory, name) or _for_a_writer(directory, name) or _moved_aside(directory)


def _for_a_reader(directory, name):
    try:
        with open_embedded(directory) as cluster:
            found, topics = keys_in(cluster), set(cluster.describe_topics())
    except StreamlogError as refusal:
        return _refused(refusal, directory, name)
    except Exception as bare:
        return f"a bare {type(bare).__name__}: {bare}"
    if name.endswith("partition.bounds") and found["a"][0] == TRUTH["a"][0][: len(found["a"][0])]:
        return None  # the older slot is also true, until the next writer reads what follows it
    return None if found == TRUTH and topics >= {"a", "b"} else f"a reader finds {found}"


def _for_a_writer(directory, name):
    try:
        with open_embedded(directory) as cluster:
            cluster.append(TopicPartition("a", 0), a_batch_of([Content(1, b"new", b"value")]))
            found = keys_in(cluster)
    except StreamlogError as refusal:
        return _refused(refusal, directory, name)
    except Exception as bare:
        return f"a bare {type(bare).__name__}: {bare}"
    return None if found == {**TRUTH, "a": [[*TRUTH["a"][0], b"new"], TRUTH["a"][1]]} else f"a writer finds {found}"


def _refused(refusal, directory, name):
    if name.endswith(REBUILT):
        return f"refused instead of rebuilt: {refusal!r}"
    if name == "meta.properties" and isinstance(refusal, DirectoryReadOnlyError):
        return None  # without our line in it the directory belongs to a real Kafka: read, and never written
    return None if f"{directory}/{name}" in str(refusal) else f"does not name the file: {refusal!r}"


def _moved_aside(directory):
    moved = [path.name for path in directory.iterdir() if path.name.endswith(("-stray", "-delete"))]
    return f"data was moved aside: {moved}" if moved else None


def damaged_copies(whole, folder, name, damages):
    for damage in damages:
        target = folder / "log"
        shutil.copytree(whole, target)
        (target / name).write_bytes(damage)
        yield target
        shutil.rmtree(target)


@pytest.mark.parametrize(("bits", "cuts"), [(23, 8), pytest.param(90, 25, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", FILES)
def test_damaged_directory_metadata_is_reported_or_harmless(whole, tmp_path, name, bits, cuts):
    """So many `bits` and `cuts` of each file, evenly spread."""
    content = (whole / name).read_bytes()
    rng = random.Random(name)
    stride = max(1, len(content) // bits)
    damages = {}
    for position in range(0, len(content), stride):
        if name.endswith(".log") and position in leader_epoch_positions(content):
            continue
        flipped = bytearray(content)
        flipped[position] ^= 1 << rng.randrange(8)
        damages[f"bit at {position}"] = bytes(flipped)
    for size in range(0, len(content), max(1, len(content) // cuts)):
        damages[f"cut to {size}"] = content[:size]
    copies = damaged_copies(whole, tmp_path, name, damages.values())
    found = {
        damage: wrong for damage, copy in zip(damages, copies, strict=True) if (wrong := what_goes_wrong(copy, name))
    }
    assert not found, f"{len(found)} of {len(damages)}: {dict(list(found.items())[:8])}"


def leader_epoch_positions(content):
    found, position = set(), 0
    while position < len(content):
        found.update(range(position + 12, position + 16))
        position += 12 + int.from_bytes(content[position + 8 : position + 12])
    return found
