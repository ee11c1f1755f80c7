"""What becomes of a replica's queue: one group of appends, or one other change, under the partition's lock.

    PartitionTarget.append, .change      in a job, away from the loop
    PartitionTarget.maybe_begin          on the loop, up to the sync: see `StartedGroup`

They know nothing of the replica but which partition of which topic is meant, and bring back all that the loop is to
learn: what became of each, the bounds that are published now, what the partition remembers of its producers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from broker_core.broker.callback_errors import OnError
from broker_core.cluster import AppendResult, PartitionBounds
from broker_core.log.producer_state import ProducerEntry
from broker_core.log_directory.partition_access import HeldPartition, PartitionAccess
from broker_core.model.exceptions import StreamlogError, UnknownTopicError
from broker_core.model.identifiers import TopicPartition
from broker_core.record.batch_header import ATTRIBUTES_POSITION, COMPRESSION_MASK
from broker_core.storage.append_group import AppendOutcome, GroupedAppend, StartedAppends
from broker_core.storage.readable_partition import ReadablePartition
from broker_core.storage.writable_partition import WritablePartition

Answer = TypeVar("Answer")

_CODEC_POSITION: Final = ATTRIBUTES_POSITION + 1
"""The lower byte of a batch's attributes."""


class QueuedAppend(NamedTuple):
    """An append that waits for its turn. `refusal`: what is wrong with it whatever the log holds."""

    append: GroupedAppend
    refusal: StreamlogError | None
    on_done: Callable[[AppendResult], None]
    on_error: OnError

    @property
    def size_bytes(self) -> int:
        return len(self.append.batches)

    @property
    def is_plain(self) -> bool:
        """The first batch is not compressed: of a client's, which has no other, the records can be looked at as they
        are. What coordinators write is never compressed."""
        batches = self.append.batches
        return len(batches) > _CODEC_POSITION and not batches[_CODEC_POSITION] & COMPRESSION_MASK


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedChange:
    """Any other change of the partition."""

    work: Callable[[WritablePartition], Any]
    on_done: Callable[[Any], None]
    on_error: OnError


class Changed(NamedTuple):
    """What a job brings back; `answers` has one for each that was queued. `producers`: of those that changed, or with
    `has_all_producers` of all that there are."""

    answers: Sequence[Any]
    bounds: PartitionBounds
    producers: Mapping[int, ProducerEntry | None]
    has_all_producers: bool
    has_rolled: bool = False


class StartedGroup:
    """Appends that are in the page cache; the partition is held until `finish`, which is for the loop, or `rollback`.
    `sync` is for a thread, and comes before if it `needs_sync`."""

    __slots__ = ("_appends", "_held", "_is_held", "_queued", "count")

    def __init__(
        self, held: HeldPartition, appends: StartedAppends, queued: Sequence[QueuedAppend], count: int
    ) -> None:
        self.count = count
        """Of those that were queued, from the first on."""
        self._held = held
        self._is_held = True
        self._appends = appends
        self._queued = queued[:count]

    @classmethod
    def maybe_of(cls, held: HeldPartition, queued: Sequence[QueuedAppend], *, now_ms: int) -> StartedGroup | None:
        accepted = _accepted(queued)
        try:
            appends = held.store.begin_append(accepted, now_ms=now_ms)
        except BaseException:
            held.release()
            raise
        count = len(appends.outcomes)
        if len(accepted) != len(queued):
            count = _count_with_outcome(queued, count)
        if not count:
            held.release()
            return None
        return cls(held, appends, queued, count)

    @property
    def needs_sync(self) -> bool:
        return self._appends.needs_sync

    @property
    def descriptor(self) -> int | None:
        """Of the only file that `sync` syncs."""
        return self._appends.descriptor

    def refusal_of(self, error: Exception) -> Exception:
        """What `sync` raises, where somebody else synced by the descriptor."""
        return self._appends.refusal_of(error)

    def sync(self) -> None:
        """Raises StorageError: then `rollback` is due."""
        self._appends.sync()

    def finish(self) -> Changed:
        """Publishes, and lets go. Raises StorageError, and then has taken everything back."""
        try:
            self._appends.publish()
            answers = _answers(self._queued, self._appends.outcomes)
            return _changed(self._held.store, answers, wants_all_producers=False)
        finally:
            self.release()

    def rollback(self) -> None:
        try:
            self._appends.rollback()
        finally:
            self.release()

    def release(self) -> None:
        """Gives the partition back, if that was not done. Alone: the node goes down as it is, and the next start finds
        out what is whole of it."""
        if self._is_held:
            self._is_held = False
            self._held.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTarget:
    """The partition that is meant: of this topic, and not of a later one of its name."""

    access: PartitionAccess
    topic_partition: TopicPartition
    topic_id: UUID

    def append(self, queued: Sequence[QueuedAppend], *, now_ms: int, wants_all_producers: bool) -> Changed:
        """One group. Raises what `PartitionAccess.write` does: then nothing was appended."""

        def write(store: WritablePartition) -> Changed:
            self._require_topic(store)
            outcomes = store.append_group(_accepted(queued), now_ms=now_ms, is_synced=True)
            return _changed(store, _answers(queued, outcomes), wants_all_producers=wants_all_producers)

        return self.access.write(self.topic_partition, write)

    def maybe_begin(self, queued: Sequence[QueuedAppend], *, now_ms: int) -> StartedGroup | None:
        """Writes as many of them, from the first on, as can be written without waiting; None: only a job will do.
        Nothing is refused here for what `access.write` would raise."""
        held = self.access.maybe_hold(self.topic_partition)
        if held is None:
            return None
        if held.store.topic_id != self.topic_id:
            held.release()
            return None
        return StartedGroup.maybe_of(held, queued, now_ms=now_ms)

    def change(self, queued: QueuedChange) -> Changed:
        """What the change raises is its answer."""

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
        """The answer of the partition as it is published. Raises what the question and `PartitionAccess.read` do."""

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


def _accepted(queued: Sequence[QueuedAppend]) -> list[GroupedAppend]:
    return [each.append for each in queued if each.refusal is None]


def _answers(
    queued: Sequence[QueuedAppend], outcomes: Sequence[AppendOutcome | StreamlogError]
) -> Sequence[AppendOutcome | StreamlogError]:
    """One for each: its refusal, or what became of it as of those that were accepted."""
    if len(outcomes) == len(queued):
        return outcomes
    of_accepted = iter(outcomes)
    return [each.refusal or next(of_accepted) for each in queued]


def _changed(store: WritablePartition, answers: Sequence[Any], *, wants_all_producers: bool) -> Changed:
    has_rolled = False
    changed_ids: set[int] = set()
    for each in answers:
        if isinstance(each, AppendOutcome):
            has_rolled = has_rolled or each.rolled
            changed_ids |= each.producer_ids
    # A roll forgets producers that are silent.
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


def _count_with_outcome(queued: Sequence[QueuedAppend], outcome_count: int) -> int:
    """How many of them, from the first on, are settled when so many of those without a refusal have an outcome."""
    for count, each in enumerate(queued):
        if each.refusal is None:
            if not outcome_count:
                return count
            outcome_count -= 1
    return len(queued)
