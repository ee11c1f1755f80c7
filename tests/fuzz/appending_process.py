"""A writer that will be killed: it appends numbered batches and reports its position before and after each.

A batch follows from (writer, partition, number) alone, so a process after a kill can send the same batch again,
with the same sequence. Messages: `Trying`, then `Acknowledged`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from multiprocessing.connection import Connection

from fuzz.batches import a_batch_of
from fuzz.plain_log import Content

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.identifiers import CompressionType, TopicPartition

START_MS = 1_700_000_000_000


@dataclass(frozen=True)
class WriterPosition:
    """How far a writer is in one partition: the next batch's number, and its first sequence."""

    producer_id: int
    number: int = 0
    sequence: int = 0

    def after(self, writer: str, partition: TopicPartition) -> WriterPosition:
        count = len(contents_of(writer, partition, self.number))
        return WriterPosition(self.producer_id, self.number + 1, self.sequence + count)


@dataclass(frozen=True)
class Trying:
    partition: TopicPartition
    place: WriterPosition


@dataclass(frozen=True)
class Acknowledged:
    partition: TopicPartition
    place: WriterPosition
    base_offset: int
    last_offset: int
    is_duplicate: bool


def contents_of(writer: str, partition: TopicPartition, number: int) -> list[Content]:
    rng = random.Random(f"{writer} {partition} {number}")
    return [
        Content(
            START_MS + number,
            b"key-%d" % rng.randrange(8),
            f"{writer}/{number}/{slot}/".encode() + b"x" * rng.randrange(80),
            (("writer", writer.encode()),) if slot else (),
        )
        for slot in range(rng.randrange(1, 6))
    ]


def batch_of(writer: str, partition: TopicPartition, place: WriterPosition) -> bytearray:
    codec = list(CompressionType)[place.number % len(CompressionType)]
    contents = contents_of(writer, partition, place.number)
    return a_batch_of(contents, codec, producer=(place.producer_id, 0, place.sequence))


def append_until_killed(
    connection: Connection, directory: str, writer: str, places: dict[TopicPartition, WriterPosition], seed: int
) -> None:
    """Its first batches are those that nobody knows the fate of; then it goes from partition to partition."""
    cluster = open_embedded(directory)
    rng = random.Random(seed)
    turns = list(places)
    connection.send("ready")
    while True:
        partition = turns.pop() if turns else rng.choice(list(places))
        place = places[partition]
        batch = batch_of(writer, partition, place)
        connection.send(Trying(partition, place))
        result = cluster.append(partition, batch)
        connection.send(Acknowledged(partition, place, result.base_offset, result.last_offset, result.is_duplicate))
        places[partition] = place.after(writer, partition)
