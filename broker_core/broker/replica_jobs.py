"""What a replica's jobs do, away from the loop: one group of appends, or one other change, under the partition's lock.

They know nothing of the replica but which partition of which topic is meant, and bring back all that the loop is to
learn: what became of each, the bounds that are published now, what the partition remembers of its producers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from broker_core.broker.guarded_call import OnTrouble
from broker_core.cluster import AppendResult, PartitionBounds
from broker_core.log.producer_state import ProducerEntry
from broker_core.log_directory.partition_access import PartitionAccess
from broker_core.model.exceptions import StreamlogError, UnknownTopicError
from broker_core.model.identifiers import TopicPartition
from broker_core.storage.partition_store import AppendOutcome, GroupedAppend, PartitionStore

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedAppend:
    """An append that waits for its turn. `refusal`: what is wrong with it whatever the log holds."""

    append: GroupedAppend
    refusal: StreamlogError | None
    on_done: Callable[[AppendResult], None]
    on_trouble: OnTrouble

    @property
    def size_bytes(self) -> int:
        return len(self.append.batches)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedChange:
    """Any other change of the partition."""

    work: Callable[[PartitionStore], Any]
    on_done: Callable[[Any], None]
    on_trouble: OnTrouble


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What a job brings back; `answers` has one for each that was queued. `producers`: of those that changed, or with
    `has_all_producers` of all that there are."""

    answers: Sequence[Any]
    bounds: PartitionBounds
    producers: Mapping[int, ProducerEntry | None]
    has_all_producers: bool
    has_rolled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTarget:
    """The partition that is meant: of this topic, and not of a later one of its name."""

    access: PartitionAccess
    topic_partition: TopicPartition
    topic_id: UUID

    def append(self, queued: Sequence[QueuedAppend], *, now_ms: int, wants_all_producers: bool) -> Changed:
        """One group. Raises what `PartitionAccess.write` does: then nothing was appended."""

        def write(store: PartitionStore) -> Changed:
            self._require_topic(store)
            accepted = [each.append for each in queued if each.refusal is None]
            outcomes = iter(store.append_group(accepted, now_ms=now_ms, is_synced=True) if accepted else ())
            answers = [each.refusal or next(outcomes) for each in queued]
            done = [each for each in answers if isinstance(each, AppendOutcome)]
            has_rolled = any(each.rolled for each in done)
            # A roll forgets producers that are silent.
            has_all = wants_all_producers or has_rolled
            changed_ids = frozenset[int]().union(*(each.producer_ids for each in done))
            return Changed(
                answers=answers,
                bounds=store.written_bounds(),
                producers=store.producer_entries()
                if has_all
                else {producer_id: store.producer_entry(producer_id) for producer_id in changed_ids},
                has_all_producers=has_all,
                has_rolled=has_rolled,
            )

        return self.access.write(self.topic_partition, write)

    def change(self, queued: QueuedChange) -> Changed:
        """What the change raises is its answer."""

        def write(store: PartitionStore) -> Changed:
            self._require_topic(store)
            try:
                answer = queued.work(store)
            except StreamlogError as trouble:
                answer = trouble
            return Changed(
                answers=[answer],
                bounds=store.written_bounds(),
                producers=store.producer_entries(),
                has_all_producers=True,
            )

        return self.access.write(self.topic_partition, write)

    def ask(self, question: Callable[[PartitionStore], Answer]) -> Answer:
        """The answer of the partition as it is published. Raises what the question and `PartitionAccess.read` do."""

        def asked(store: PartitionStore) -> Answer:
            self._require_topic(store)
            return question(store)

        return self.access.read(self.topic_partition, asked)

    def _require_topic(self, store: PartitionStore) -> None:
        if store.topic_id != self.topic_id:
            raise self.unknown_topic()

    def unknown_topic(self) -> UnknownTopicError:
        name = self.topic_partition.topic
        return UnknownTopicError(f"Topic '{name}' was deleted.", topic=name)
