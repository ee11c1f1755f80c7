"""All partitions of a cluster as columns, and the indexes over them.

A partition is a row. A row takes 13 numbers, 49 bytes; lists of brokers and of directories are kept once each, however
many partitions share them (`tuple_pool`). Rows of removed topics are used again.

    topic   partition   leader   leader epoch   …   replicas   isr   …        rows of topic 2: [0, 1, 5]
        2           0        3              7            #4    #4           broker 3 leads     {0, …}   bitmaps, one bit
        2           1        1              7            #9    #4           broker 3 holds     {0, 1, …}   a row each

Indexes by broker: which partitions it holds and which it leads. Over all: partitions without a leader, being
reassigned, with eligible leader replicas.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

from broker_core.metadata.metadata_records import PartitionChangeRecord
from broker_core.metadata.partition_state import LEADER_UNCHANGED, NO_LEADER, PartitionState, changed_state, next_epoch
from broker_core.metadata.row_set import RowSet
from broker_core.metadata.tuple_pool import TuplePool
from broker_core.model.exceptions import InconsistentMetadataError
from broker_core.model.limits import MAX_PARTITION_ID

_NO_ROW: Final = -1
_NUMBERS: Final = ("leader", "leader_epoch", "partition_epoch")
_LISTS: Final = (
    "replicas", "isr", "removing_replicas", "adding_replicas", "eligible_leader_replicas", "last_known_elr",
)  # fmt: skip
_CHANGEABLE_LISTS: Final = _LISTS[1:]
"""Those that a change may name without the replicas."""
_NO_ROWS: Final = RowSet()


class PartitionTable:
    """Topics are ids here; names stand in the image."""

    def __init__(self) -> None:
        self._topic_ids: list[UUID | None] = []
        self._topic_numbers: dict[UUID, int] = {}
        self._rows: dict[UUID, array[int]] = {}
        self._free_topics: list[int] = []
        self._free_rows: list[int] = []
        self._topic, self._partition = array("i"), array("i")
        self._recovery = array("b")
        self._numbers = {name: array("i") for name in _NUMBERS}
        self._lists = {name: array("i") for name in (*_LISTS, "directories")}
        self._brokers, self._directories = TuplePool(), TuplePool()
        self._held: dict[int, RowSet] = {}
        self._led: dict[int, RowSet] = {}
        self.leaderless = RowSet()
        self.reassigning = RowSet()
        self.with_eligible_leaders = RowSet()
        self.change_count = 0
        """Grows with each change, so that who has read the table knows whether to read it again."""

    def __len__(self) -> int:
        return len(self._topic) - len(self._free_rows)

    def __eq__(self, other: object) -> bool:
        """Whether the same topics have the same partitions in the same state; rows do not count."""
        if not isinstance(other, PartitionTable) or self._rows.keys() != other._rows.keys():
            return False
        return all(self._states_of(topic_id) == other._states_of(topic_id) for topic_id in self._rows)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def _states_of(self, topic_id: UUID) -> dict[int, PartitionState]:
        return {number: self.state_at(row) for number, row in self.rows_of(topic_id)}

    def add_topic(self, topic_id: UUID) -> None:
        """A topic without partitions; one that exists loses those it has."""
        self.remove_topic(topic_id)
        if self._free_topics:
            number = self._free_topics.pop()
            self._topic_ids[number] = topic_id
        else:
            number = len(self._topic_ids)
            self._topic_ids.append(topic_id)
        self._topic_numbers[topic_id] = number
        self._rows[topic_id] = array("i")

    def remove_topic(self, topic_id: UUID) -> None:
        """A topic that is not there changes nothing."""
        self.change_count += 1
        for row in self._rows.pop(topic_id, ()):
            if row != _NO_ROW:
                self._remove_row(row)
        number = self._topic_numbers.pop(topic_id, None)
        if number is not None:
            self._topic_ids[number] = None
            self._free_topics.append(number)

    def count_of(self, topic_id: UUID) -> int:
        """One more than the highest partition of an existing topic."""
        return len(self._rows[topic_id])

    def rows_of(self, topic_id: UUID) -> Iterator[tuple[int, int]]:
        """(partition, row), in the order of partitions; nothing for an unknown topic."""
        return ((number, row) for number, row in enumerate(self._rows.get(topic_id, ())) if row != _NO_ROW)

    def row_of(self, topic_id: UUID, partition: int) -> int | None:
        rows = self._rows.get(topic_id, ())
        row = rows[partition] if 0 <= partition < len(rows) else _NO_ROW
        return None if row == _NO_ROW else row

    def partition_at(self, row: int) -> tuple[UUID, int]:
        """The topic's id and the partition's number."""
        topic_id = self._topic_ids[self._topic[row]]
        assert topic_id is not None, f"row {row} is free"
        return topic_id, self._partition[row]

    def state_at(self, row: int) -> PartitionState:
        """As a value of its own: what is replayed later does not change it."""
        numbers: dict[str, Any] = {name: column[row] for name, column in self._numbers.items()}
        lists: dict[str, Any] = {name: self._brokers[self._lists[name][row]] for name in _LISTS}
        directories = self._directories[self._lists["directories"][row]]
        return PartitionState(**numbers, **lists, directories=directories, leader_recovery_state=self._recovery[row])

    def put(self, topic_id: UUID, partition: int, state: PartitionState) -> int:
        """Creates or replaces a partition of an existing topic; returns its row. Raises InconsistentMetadataError."""
        if not 0 <= partition <= MAX_PARTITION_ID:
            raise InconsistentMetadataError(f"partition {partition} of topic {topic_id}: at most {MAX_PARTITION_ID}")
        self.change_count += 1
        row = self.row_of(topic_id, partition)
        if row is None:
            row = self._new_row(topic_id, partition)
        else:
            self._unindex(row)
        for name, column in self._numbers.items():
            column[row] = getattr(state, name)
        self._recovery[row] = state.leader_recovery_state
        for name in _LISTS:
            items = getattr(state, name)
            if items or self._lists[name][row]:
                self._set_list(self._brokers, name, row, items)
        self._set_list(self._directories, "directories", row, state.directories)
        self._index(row, state)
        return row

    def change(self, row: int, record: PartitionChangeRecord) -> None:
        """Makes of the partition what `changed_state` makes of its state. Raises InconsistentMetadataError.

        A broker that is fenced changes thousands of partitions: what a record does not name is not touched.
        """
        if record.replicas is not None or record.directories is not None or record.leader_recovery_state != -1:
            self.put(*self.partition_at(row), changed_state(self.state_at(row), record))
            return
        self.change_count += 1
        leader_epochs, partition_epochs = self._numbers["leader_epoch"], self._numbers["partition_epoch"]
        has_leader = record.leader != LEADER_UNCHANGED
        leader_epoch = next_epoch(leader_epochs[row]) if has_leader else leader_epochs[row]
        partition_epochs[row] = next_epoch(partition_epochs[row])
        for name in _CHANGEABLE_LISTS:
            items = getattr(record, name)
            if items is not None:
                self._set_list(self._brokers, name, row, items)
        if has_leader:
            self._set_leader(row, record.leader)
        leader_epochs[row] = leader_epoch
        self._index_lists(row)

    def held_by(self, broker_id: int) -> RowSet:
        """The rows of the partitions with a replica on the broker. Not to be changed."""
        return self._held.get(broker_id, _NO_ROWS)

    def led_by(self, broker_id: int) -> RowSet:
        """The rows of the partitions that the broker leads. Not to be changed."""
        return self._led.get(broker_id, _NO_ROWS)

    def copy(self) -> PartitionTable:
        """Copies columns as memory: some ms for 100,000 partitions."""
        other = PartitionTable()
        other._topic_ids, other._topic_numbers = self._topic_ids[:], self._topic_numbers.copy()
        other._rows = {topic_id: rows[:] for topic_id, rows in self._rows.items()}
        other._free_topics, other._free_rows = self._free_topics[:], self._free_rows[:]
        other._topic, other._partition, other._recovery = self._topic[:], self._partition[:], self._recovery[:]
        other._numbers = {name: column[:] for name, column in self._numbers.items()}
        other._lists = {name: column[:] for name, column in self._lists.items()}
        other._brokers, other._directories = self._brokers.copy(), self._directories.copy()
        other._held = {broker_id: rows.copy() for broker_id, rows in self._held.items()}
        other._led = {broker_id: rows.copy() for broker_id, rows in self._led.items()}
        other.leaderless, other.reassigning = self.leaderless.copy(), self.reassigning.copy()
        other.with_eligible_leaders = self.with_eligible_leaders.copy()
        return other

    def _new_row(self, topic_id: UUID, partition: int) -> int:
        if self._free_rows:
            row = self._free_rows.pop()
        else:
            row = len(self._topic)
            for column in self._columns():
                column.append(0)
        self._topic[row], self._partition[row] = self._topic_numbers[topic_id], partition
        rows = self._rows[topic_id]
        if partition >= len(rows):
            rows.extend([_NO_ROW] * (partition + 1 - len(rows)))
        rows[partition] = row
        return row

    def _set_leader(self, row: int, leader: int) -> None:
        self._unindex_leader(row)
        self._numbers["leader"][row] = leader
        self._index_leader(row, leader)

    def _columns(self) -> tuple[array[int], ...]:
        return (self._topic, self._partition, self._recovery, *self._numbers.values(), *self._lists.values())

    def _set_list(self, pool: TuplePool, name: str, row: int, items: tuple[object, ...]) -> None:
        """A row that was just made uses nothing yet: its 0 is the empty tuple, which is never dropped."""
        column = self._lists[name]
        before = column[row]
        if pool[before] == items:
            return
        column[row] = pool.acquire(items) if items else 0
        if before:
            pool.release(before)

    def _remove_row(self, row: int) -> None:
        self._unindex(row)
        for name in _LISTS:
            self._set_list(self._brokers, name, row, ())
        self._set_list(self._directories, "directories", row, ())
        self._free_rows.append(row)

    def _index(self, row: int, state: PartitionState) -> None:
        for broker_id in state.replicas:
            self._held.setdefault(broker_id, RowSet()).add(row)
        self._index_leader(row, state.leader)
        self._index_lists(row)

    def _index_leader(self, row: int, leader: int) -> None:
        if leader == NO_LEADER:
            self.leaderless.add(row)
        else:
            self._led.setdefault(leader, RowSet()).add(row)

    def _index_lists(self, row: int) -> None:
        is_reassigning = self._lists["removing_replicas"][row] or self._lists["adding_replicas"][row]
        (self.reassigning.add if is_reassigning else self.reassigning.discard)(row)
        has_eligible = self._lists["eligible_leader_replicas"][row]
        (self.with_eligible_leaders.add if has_eligible else self.with_eligible_leaders.discard)(row)

    def _unindex(self, row: int) -> None:
        for broker_id in self._brokers[self._lists["replicas"][row]]:
            _discard(self._held, broker_id, row)
        self._unindex_leader(row)
        for index in (self.reassigning, self.with_eligible_leaders):
            index.discard(row)

    def _unindex_leader(self, row: int) -> None:
        leader = self._numbers["leader"][row]
        if leader == NO_LEADER:
            self.leaderless.discard(row)
        else:
            _discard(self._led, leader, row)


def _discard(index: dict[int, RowSet], broker_id: int, row: int) -> None:
    rows = index.get(broker_id)
    if rows is not None:
        rows.discard(row)
        if not rows:
            del index[broker_id]
