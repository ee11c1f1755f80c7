"""The committed offsets of consumer groups: the state that `__consumer_offsets` replays to, and plans to change it.

Each `plan_*` looks at the state and returns records and a reply; `replay` and `replay_marker` alone change it
(`coordinator.contract`). A plain commit is valid once it is replayed. A commit inside a transaction is written in a
transactional batch: it is pending, and becomes valid when its producer's commit marker is replayed.

Of two valid commits the later one in the log wins, however late the marker of the other one is written. That is why
each is kept with its offset in the log, and a deleted one too: an older commit whose marker is late must not revive it.

An offset that was committed for a topic of another id is not valid: that topic was deleted, and the process that
deleted it died before it deleted the offsets. A topic recreated under the name begins without them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from broker_core.cluster import GroupOffset
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.coordinator.record_fields import MAX_STRING_BYTES, fits_string
from broker_core.group.group_records import (
    GroupMetadataRecord,
    GroupRecord,
    OffsetCommitRecord,
    OffsetCommitValue,
)
from broker_core.model.exceptions import (
    InvalidGroupError,
    InvalidRequestError,
    OffsetMetadataTooLargeError,
    UnknownGroupError,
)
from broker_core.model.identifiers import NO_LEADER_EPOCH, NO_PRODUCER_ID, TopicPartition
from broker_core.model.limits import MAX_OFFSET, MAX_OFFSET_METADATA_BYTES
from broker_core.model.retention_pin import pinned_until_ms
from broker_core.model.topic_name import validate_topic_name

_MAX_INT32: Final = 2**31 - 1


class _Slot(NamedTuple):
    group_id: str
    partition: TopicPartition


class _Stored(NamedTuple):
    """A slot's value, and the offset of the record that set it. `value` None: deleted."""

    record_offset: int
    value: OffsetCommitValue | None


TopicIdOf = Callable[[str], UUID | None]
"""The id of the topic that has the name now; None if there is none."""


class GroupOffsets:
    """The committed offsets in one partition of `__consumer_offsets`. Without `topic_id_of` the existing topics are
    unknown and every stored offset is valid. `max_metadata_bytes`: of the text beside an offset, in UTF-16 units."""

    def __init__(
        self, topic_id_of: TopicIdOf | None = None, *, max_metadata_bytes: int = MAX_OFFSET_METADATA_BYTES
    ) -> None:
        self._topic_id_of = topic_id_of
        self._max_metadata_bytes = max_metadata_bytes
        self._committed: dict[str, dict[TopicPartition, _Stored]] = {}
        self._pending: dict[int, dict[_Slot, _Stored]] = {}
        self._pins: dict[TopicPartition, set[str]] = {}
        """Groups whose committed offset is a pin, live or not."""

    # -- queries --

    def fetch(
        self, group_id: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, GroupOffset]:
        """Committed offsets, ordered; None: of all partitions. Partitions without one are missing."""
        held = self._committed.get(group_id, {})
        return {
            partition: committed
            for partition, committed in self.stored(group_id, partitions).items()
            if self._counts(partition, held[partition].value)
        }

    def stored(
        self, group_id: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, GroupOffset]:
        """Like `fetch`, with the offsets of deleted topics; for callers that delete offsets."""
        held = self._committed.get(group_id, {})
        wanted = held if partitions is None else set(partitions)
        return {
            partition: _group_offset(held[partition].value)
            for partition in sorted(wanted)
            if partition in held and held[partition].value is not None
        }

    def groups(self) -> tuple[str, ...]:
        """Ids of the groups that have a committed offset, ordered."""
        return tuple(
            sorted(
                group_id
                for group_id, held in self._committed.items()
                if any(self._counts(partition, stored.value) for partition, stored in held.items())
            )
        )

    def pending_partitions(self, group_id: str) -> frozenset[TopicPartition]:
        """Partitions whose offset a transaction without a marker may still change: it is open, or being ended."""
        return frozenset(
            slot.partition for held in self._pending.values() for slot in held if slot.group_id == group_id
        )

    def pinned_offset(self, partition: TopicPartition, now_ms: int) -> int | None:
        """The smallest offset that a live pin holds in the partition: retention keeps it and all later records."""
        return min(self._pinned_offsets(partition, now_ms), default=None)

    # -- plans --

    def plan_commit(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, GroupOffset],
        *,
        now_ms: int,
        topic_ids: Mapping[str, UUID] | None = None,
        takes_nameless: bool = False,
    ) -> CoordinatorResult[GroupRecord, None]:
        """One record per partition, all or none of them. `topic_ids`: stored beside the offset where known.
        `takes_nameless`: the empty string is a group id like any other, as Kafka has it for old clients.

        Within a transaction the runner writes the same records in a transactional batch of the producer.
        Raises InvalidGroupError, OffsetMetadataTooLargeError, and InvalidRequestError for what cannot be stored.
        """
        if group_id or not takes_nameless:
            _check_group_id(group_id)
        for partition, asked in offsets.items():
            _check_offset(group_id, partition, asked, self._max_metadata_bytes)
        return CoordinatorResult(
            records=tuple(
                OffsetCommitRecord(
                    group_id=group_id,
                    partition=partition,
                    value=OffsetCommitValue(
                        offset=asked.offset,
                        leader_epoch=asked.leader_epoch,
                        metadata=asked.metadata,
                        commit_time_ms=now_ms,
                        topic_id=(topic_ids or {}).get(partition.topic),
                    ),
                )
                for partition, asked in sorted(offsets.items())
            ),
            reply=None,
        )

    def plan_delete_group(self, group_id: str) -> CoordinatorResult[GroupRecord, None]:
        """Deletes all committed offsets, and those that open transactions may still commit. Raises UnknownGroupError.

        As in Kafka this also writes a tombstone for the group's members, whether any were stored or not.
        """
        _check_group_id(group_id)
        slots = {slot for slot, _ in self._slots() if slot.group_id == group_id}
        if not slots:
            raise UnknownGroupError(f"Group {group_id!r} has no committed offsets.", group_id=group_id)
        records = (*_tombstones(slots), GroupMetadataRecord(group_id=group_id))
        return CoordinatorResult(records=records, reply=None)

    def plan_forget_topic(self, topic: str, *, topic_id: UUID | None = None) -> CoordinatorResult[GroupRecord, None]:
        """Deletes what all groups committed for a deleted topic: a recreated one begins at offset 0.

        With `topic_id`, commits that are known to belong to another topic id stay: the topic was recreated already.
        """
        gone: set[_Slot] = set()
        kept: set[_Slot] = set()
        for slot, value in self._slots():
            if slot.partition.topic == topic:
                is_kept = topic_id is not None and value.topic_id not in (None, topic_id)
                (kept if is_kept else gone).add(slot)
        return CoordinatorResult(records=_tombstones(gone - kept), reply=None)

    # -- replay --

    def replay(self, record: GroupRecord, *, record_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Applies the record at `record_offset`. `producer_id`: that of its batch if it is transactional, else -1."""
        if isinstance(record, GroupMetadataRecord):
            return
        slot, stored = _Slot(record.group_id, record.partition), _Stored(record_offset, record.value)
        if producer_id == NO_PRODUCER_ID:
            self._keep_newer(slot, stored)
        else:
            self._pending.setdefault(producer_id, {})[slot] = stored

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """The producer's transaction ended: its pending offsets are committed or dropped."""
        pending = self._pending.pop(producer_id, {})
        if is_commit:
            for slot, stored in pending.items():
                self._keep_newer(slot, stored)

    def held_group_ids(self) -> Iterable[str]:
        """The ids of all groups with any state, deleted offsets included."""
        return self._committed.keys()

    def forget_rolled_back(self, group_id: str) -> None:
        """Deleted offsets are remembered only for earlier commits whose marker is still to come. Without open
        transactions there are none, and remembering them would keep every group that ever existed."""
        if self._pending or group_id not in self._committed:
            return
        held = self._committed[group_id]
        for partition in [partition for partition, stored in held.items() if stored.value is None]:
            del held[partition]
        if not held:
            del self._committed[group_id]

    def _counts(self, partition: TopicPartition, value: OffsetCommitValue | None) -> bool:
        if value is None:
            return False
        if value.topic_id is None or self._topic_id_of is None:
            return True
        return self._topic_id_of(partition.topic) == value.topic_id

    def _slots(self) -> Iterator[tuple[_Slot, OffsetCommitValue]]:
        """All committed offsets, and all that open transactions may still commit."""
        for group_id, held in self._committed.items():
            for partition, stored in held.items():
                if stored.value is not None:
                    yield _Slot(group_id, partition), stored.value
        for pending in self._pending.values():
            for slot, stored in pending.items():
                if stored.value is not None:
                    yield slot, stored.value

    def _keep_newer(self, slot: _Slot, stored: _Stored) -> None:
        held = self._committed.setdefault(slot.group_id, {})
        known = held.get(slot.partition)
        if known is None or known.record_offset < stored.record_offset:
            held[slot.partition] = stored
            self._note_pin(slot, stored)

    def _note_pin(self, slot: _Slot, stored: _Stored) -> None:
        if stored.value is not None and pinned_until_ms(stored.value.metadata) is not None:
            self._pins.setdefault(slot.partition, set()).add(slot.group_id)
        elif slot.partition in self._pins:
            self._pins[slot.partition].discard(slot.group_id)
            if not self._pins[slot.partition]:
                del self._pins[slot.partition]

    def _pinned_offsets(self, partition: TopicPartition, now_ms: int) -> Iterator[int]:
        """Of the pins that are live."""
        for group_id in self._pins.get(partition, ()):
            value = self._committed[group_id][partition].value
            until_ms = pinned_until_ms(value.metadata) if value else None
            if value is None or until_ms is None or not self._counts(partition, value):
                continue
            if until_ms > now_ms:
                yield value.offset


def _group_offset(value: OffsetCommitValue | None) -> GroupOffset:
    assert value is not None, "a deleted offset"
    return GroupOffset(
        offset=value.offset,
        metadata=value.metadata,
        leader_epoch=value.leader_epoch,
        commit_time_ms=value.commit_time_ms,
    )


def _tombstones(slots: Iterable[_Slot]) -> tuple[GroupRecord, ...]:
    return tuple(OffsetCommitRecord(group_id=slot.group_id, partition=slot.partition) for slot in sorted(slots))


def _check_group_id(group_id: str) -> None:
    if not group_id:
        raise InvalidGroupError("The group id is empty.", group_id=group_id)
    if not fits_string(group_id):
        raise InvalidGroupError(
            f"Group id {group_id[:50]!r}… cannot be stored: it must be at most {MAX_STRING_BYTES} bytes of UTF-8.",
            group_id=group_id,
        )


def _check_offset(group_id: str, partition: TopicPartition, asked: GroupOffset, max_metadata_bytes: int) -> None:
    where = f"Group {group_id!r} commits for {partition}"
    validate_topic_name(partition.topic)
    if not 0 <= partition.partition <= _MAX_INT32:
        raise InvalidRequestError(f"{where}: the partition does not exist.")
    if not 0 <= asked.offset <= MAX_OFFSET:
        raise InvalidRequestError(f"{where} the offset {asked.offset}; it must be from 0 to {MAX_OFFSET}.")
    if not NO_LEADER_EPOCH <= asked.leader_epoch <= _MAX_INT32:
        raise InvalidRequestError(
            f"{where} with leader epoch {asked.leader_epoch}; it must be from -1 to {_MAX_INT32}."
        )
    try:
        # In spite of the setting's name, Kafka measures what Java calls a string's length: UTF-16 units.
        metadata_length = len(asked.metadata.encode("utf-16-le")) // 2
    except UnicodeEncodeError as error:
        raise InvalidRequestError(f"{where} with metadata that is not Unicode: {error}.") from error
    if metadata_length > max_metadata_bytes:
        raise OffsetMetadataTooLargeError(
            f"{where} with {metadata_length} characters of metadata; at most {max_metadata_bytes} are allowed"
            " (offset.metadata.max.bytes)."
        )
