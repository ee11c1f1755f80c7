"""Carries out what a replica queued: one group of appends, or one other change, under the partition's lock.

    PartitionTarget.append, .change          in a job, away from the loop
    PartitionTarget.maybe_begin, .publish    on the loop, with the sync of `PendingAppends` in between

Both only know the partition and the topic id, not the replica. They return everything the loop needs: the outcome of
each, the published bounds, and the partition's producer entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from broker_core.broker.callback_errors import OnError
from broker_core.cluster import PartitionBounds
from broker_core.log.append_request import AppendRequest
from broker_core.log.producer_entry import ProducerEntry
from broker_core.log_directory.partition_access import HeldPartition, PartitionAccess
from broker_core.model.exceptions import StreamlogError, UnknownTopicError
from broker_core.model.identifiers import TopicPartition
from broker_core.record.batch_header import ATTRIBUTES_POSITION
from broker_core.storage.append_group import AppendOutcome, PendingAppends
from broker_core.storage.readable_partition import ReadablePartition
from broker_core.storage.writable_partition import WritablePartition

Answer = TypeVar("Answer")

_CODEC_POSITION: Final = ATTRIBUTES_POSITION + 1
"""Position of the lower byte of a batch's attributes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedChange:
    """A queued change other than an append."""

    work: Callable[[WritablePartition], Any]
    on_done: Callable[[Any], None]
    on_error: OnError


class Changed(NamedTuple):
    """The result of a job; `answers` has one for each queued append or change. `producers`: the entries that changed,
    or all entries with `has_all_producers`."""

    answers: Sequence[Any]
    bounds: PartitionBounds
    producers: Mapping[int, ProducerEntry | None]
    has_all_producers: bool
    has_rolled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTarget:
    """A partition of the topic with this id, not of a later topic with the same name."""

    access: PartitionAccess
    topic_partition: TopicPartition
    topic_id: UUID

    def append(self, requests: Sequence[AppendRequest], *, now_ms: int, wants_all_producers: bool) -> Changed:
        """Appends one group. Raises the errors of `PartitionAccess.write`: then nothing was appended."""

        def write(store: WritablePartition) -> Changed:
            self._require_topic(store)
            outcomes = store.append_group(requests, now_ms=now_ms, is_synced=True)
            return _changed(store, outcomes, wants_all_producers=wants_all_producers)

        return self.access.write(self.topic_partition, write)

    def maybe_begin(
        self, requests: Sequence[AppendRequest], *, now_ms: int
    ) -> tuple[HeldPartition, PendingAppends] | None:
        """Writes as many of the first requests as possible without waiting; None: a job must write them. Where
        `access.write` would raise, nothing is refused here. The partition is locked until `publish`."""
        held = self.access.maybe_hold(self.topic_partition)
        if held is None:
            return None
        pending = None
        try:
            if held.store.topic_id == self.topic_id:
                pending = held.store.begin_append(requests, now_ms=now_ms)
        finally:
            if pending is None or not pending.outcomes:
                held.release()
        return (held, pending) if pending is not None and pending.outcomes else None

    def publish(self, held: HeldPartition, pending: PendingAppends) -> Changed:
        """Publishes the begun appends to readers, after the sync if one was needed. Raises StorageError after it has
        rolled all of them back."""
        try:
            pending.publish()
            return _changed(held.store, pending.outcomes, wants_all_producers=False)
        finally:
            held.release()

    def change(self, queued: QueuedChange) -> Changed:
        """Runs the change. If it raises a StreamlogError, that is its answer."""

        def write(store: WritablePartition) -> Changed:
            self._require_topic(store)
            try:
                answer = queued.work(store)
            except StreamlogError as error:
                answer = error
            return Changed(
                answers=[answer],
                bounds=store.written_bounds(),
                producers=store.producer_entries(),
                has_all_producers=True,
            )

        return self.access.write(self.topic_partition, write)

    def ask(self, question: Callable[[ReadablePartition], Answer]) -> Answer:
        """Answers a question on the published partition. Raises the errors of the question and of
        `PartitionAccess.read`."""

        def asked(store: ReadablePartition) -> Answer:
            self._require_topic(store)
            return question(store)

        return self.access.read(self.topic_partition, asked)

    def _require_topic(self, store: ReadablePartition) -> None:
        if store.topic_id != self.topic_id:
            raise self.unknown_topic()

    def unknown_topic(self) -> UnknownTopicError:
        name = self.topic_partition.topic
        return UnknownTopicError(f"Topic '{name}' was deleted.", topic=name)


def _changed(store: WritablePartition, answers: Sequence[Any], *, wants_all_producers: bool) -> Changed:
    has_rolled = False
    changed_ids: set[int] = set()
    for each in answers:
        if isinstance(each, AppendOutcome):
            has_rolled = has_rolled or each.rolled
            changed_ids |= each.producer_ids
    # A roll removes expired producers.
    has_all = wants_all_producers or has_rolled
    return Changed(
        answers=answers,
        bounds=store.written_bounds(),
        producers=store.producer_entries()
        if has_all
        else {producer_id: store.producer_entry(producer_id) for producer_id in changed_ids},
        has_all_producers=has_all,
        has_rolled=has_rolled,
    )
