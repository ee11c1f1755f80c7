"""The rows of the kill matrix, and the checks of their copy.

A row of the topic `in` has a key, and as its value its number among the rows of this key. Its copy in `out` (or in
the second topic of `log_place`) has the same key, and the row's place as its value: `number|partition|offset`,
perhaps with padding after it. So a copy shows by itself whether it is a duplicate, whether it is in order and, with
the checkpoint, to which micro-batch it belongs.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
from exactly_once.log_place import SOURCE, LogPlace, Objects, open_log, targets_of

from broker_core.cluster import Cluster
from broker_core.model.identifiers import IsolationLevel, TopicPartition
from broker_core.model.transaction_state import TransactionState
from broker_core.record.columns import AbortedFilter, decode, partition_for_key
from broker_core.topic_producer import TopicProducer, describe_existing

SOURCE_PARTITIONS, TARGET_PARTITIONS = 3, 4
KEYS = [
    [
        key
        for key in (f"key-{number}" for number in range(24))
        if partition_for_key(key.encode(), SOURCE_PARTITIONS) == partition
    ]
    for partition in range(SOURCE_PARTITIONS)
]
COLUMNS = frozenset({"offset", "key", "value"})
UNDER_WAY = (
    TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT,
    TransactionState.PREPARE_ABORT,
)


@dataclass(frozen=True, slots=True)
class Copy:
    """A row of the target topic: the row that it is a copy of, and its offset."""

    key: str
    number: int
    source_partition: int
    source_offset: int
    topic: str
    partition: int
    offset: int


class NumberedRows:
    """Makes both topics in a new log and appends rows to the first one."""

    def __init__(self, place: LogPlace, *, seed: int = 0) -> None:
        self.place = place
        self._rng = random.Random(seed)
        self._numbers: Counter[str] = Counter()
        self.source: list[list[tuple[str, int]]] = [[] for _ in range(SOURCE_PARTITIONS)]
        """The rows of the first topic, by partition: key and number, in offset order."""
        self._cluster = open_log(place, create=True)
        for name in (SOURCE, *targets_of(place)):
            partition_count = SOURCE_PARTITIONS if name == SOURCE else TARGET_PARTITIONS
            # The rows are of 1970, for all that a broker knows.
            self._cluster.create_topic(name, partition_count=partition_count, configs={"retention.ms": "-1"})

    @property
    def row_count(self) -> int:
        return sum(self._numbers.values())

    def add(self, count: int) -> None:
        """The same number in each partition, or one more. A key is in one partition, so its rows have an order."""
        keys, values = [], []
        for slot in range(count):
            key = self._rng.choice(KEYS[slot % SOURCE_PARTITIONS])
            keys.append(key.encode())
            values.append(str(self._numbers[key]).encode())
            self.source[slot % SOURCE_PARTITIONS].append((key, self._numbers[key]))
            self._numbers[key] += 1
        producer = TopicProducer(
            self._cluster, find_topic=lambda name: describe_existing(self._cluster, name), now_ms=lambda: 0
        )
        producer.add(SOURCE, pa.RecordBatch.from_pydict({"key": pa.array(keys), "value": pa.array(values)}))
        producer.flush()

    def expected(self) -> set[tuple[str, int]]:
        return {(key, number) for key, count in self._numbers.items() for number in range(count)}

    def problems(self, *, is_source_order_kept: bool = True) -> list[str]:
        """The errors of the whole copy, after the last write."""
        copies = [copy_of(row) for row in CommittedReader(self._cluster, targets_of(self.place)).read_on()]
        wanted = Counter(self.expected())
        found = Counter((copy.key, copy.number) for copy in copies)
        return [
            *(f"{row} came {count} times" for row, count in found.items() if count > 1),
            *(f"{row} is missing" for row in wanted.keys() - found.keys()),
            *(f"{row} was never there" for row in found.keys() - wanted.keys()),
            *order_problems(copies, is_source_order_kept=is_source_order_kept),
            *self.leftovers(),
        ]

    def leftovers(self) -> Iterable[str]:
        """Open transactions, and partitions that they block. On object storage there are none."""
        if isinstance(self.place, Objects):
            return
        for one in self._cluster.list_transactions(states=UNDER_WAY):
            yield f"{one.transactional_id} is still {one.state.label}"
        for name, topic in self._cluster.describe_topics().items():
            for number in range(topic.partition_count):
                bounds = self._cluster.bounds(TopicPartition(name, number))
                if bounds.last_stable_offset != bounds.log_end_offset:
                    yield f"{name}-{number}: readers are blocked at {bounds}"

    def close(self) -> None:
        self._cluster.close()


@dataclass(frozen=True, slots=True)
class StoredRow:
    key: str
    value: bytes
    topic: str
    partition: int
    offset: int


class CommittedReader:
    """Reads the topics as a read-committed consumer does: each partition continues where it was."""

    def __init__(self, cluster: Cluster, topics: Iterable[str]) -> None:
        self._cluster = cluster
        partitions = [TopicPartition(topic, number) for topic in topics for number in range(TARGET_PARTITIONS)]
        self._offsets = dict.fromkeys(partitions, 0)
        self._aborted = {partition: AbortedFilter() for partition in self._offsets}

    @property
    def partitions(self) -> Iterable[TopicPartition]:
        return self._offsets

    def read_on(self) -> list[StoredRow]:
        """The rows that became readable since the last call, partition by partition in offset order."""
        return [row for partition in self._offsets for row in self._read_partition(partition)]

    def _read_partition(self, partition: TopicPartition) -> Iterable[StoredRow]:
        while True:
            offset = self._offsets[partition]
            fetched = self._cluster.fetch(partition, offset, max_bytes=1 << 20, isolation=IsolationLevel.READ_COMMITTED)
            if fetched.next_offset == offset:
                return
            aborted = self._aborted[partition]
            aborted.add(fetched.aborted_transactions)
            decoded = decode(
                fetched.buffer, from_offset=offset, columns=COLUMNS, aborted=aborted
            ).record_batch.to_pydict()
            self._offsets[partition] = fetched.next_offset
            for where, key, value in zip(decoded["offset"], decoded["key"], decoded["value"], strict=True):
                yield StoredRow(key.decode(), value, partition.topic, partition.partition, where)


def committed_values(place: LogPlace) -> list[bytes]:
    """The values that a read-committed consumer sees."""
    with closing(open_log(place)) as cluster:
        return [row.value for row in CommittedReader(cluster, targets_of(place)).read_on()]


def copy_of(row: StoredRow) -> Copy:
    number, source_partition, source_offset = map(int, row.value.split(b"|")[:3])
    return Copy(row.key, number, source_partition, source_offset, row.topic, row.partition, row.offset)


def order_problems(copies: Collection[Copy], *, is_source_order_kept: bool) -> list[str]:
    """`copies` in the order in which they were read. Duplicates are not an error of order."""
    found = []
    last_numbers: dict[str, int] = {}
    last_offsets: dict[tuple[str, int, int], int] = {}
    for copy in copies:
        if copy.number < last_numbers.get(copy.key, -1):
            found.append(f"{copy} comes behind number {last_numbers[copy.key]}")
        last_numbers[copy.key] = copy.number
        stretch = (copy.topic, copy.partition, copy.source_partition)
        if is_source_order_kept and copy.source_offset < last_offsets.get(stretch, -1):
            found.append(f"{copy} comes behind offset {last_offsets[stretch]} of the same input partition")
        last_offsets[stretch] = copy.source_offset
    return found
