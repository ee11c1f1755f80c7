"""Committed offsets in a streamlog directory: appended to `__consumer_offsets`, alone or as part of a transaction.

Inside a transaction they are one transactional batch, written like any producer's: verified under the partition's lock,
committed by a marker. So one append decides both a group's offsets and the records that belong to them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from broker_core.cluster import GroupOffset, TopicDescription, TransactionalProducer
from broker_core.embedded.coordinator_log import CoordinatorLog
from broker_core.embedded.transactions import Transactions
from broker_core.group.group_records import GroupRecord
from broker_core.group.offsets.group_offsets import GroupOffsets
from broker_core.log_directory.internal_topics import CONSUMER_OFFSETS_PARTITION, InternalTopics
from broker_core.log_directory.topic_catalog import TopicCatalog, topic_of
from broker_core.model.exceptions import StreamlogError, TopicRecreatedError
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition
from broker_core.ports import Clock
from broker_core.storage.append_group import AppendOutcome
from broker_core.storage.writable_partition import WritablePartition

_log: Final = logging.getLogger(__name__)

OffsetsLog = CoordinatorLog[GroupOffsets, GroupRecord]


class ConsumerOffsets:
    """The group coordinator of one directory, in this process; it only manages offsets."""

    def __init__(
        self,
        log: OffsetsLog,
        transactions: Transactions,
        topics: InternalTopics,
        catalog: TopicCatalog,
        clock: Clock,
    ) -> None:
        self._log = log
        self._transactions = transactions
        self._topics = topics
        self._catalog = catalog
        self._clock = clock

    def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, GroupOffset], *, expected_ids: Mapping[str, UUID]
    ) -> None:
        """Raises UnknownTopicError and UnknownPartitionError, besides the errors that `Cluster` documents."""
        if expected_ids:
            self._catalog.refresh()
        topic_ids = self._topic_ids(offsets)
        for name, expected_id in expected_ids.items():
            if topic_ids.get(name, expected_id) != expected_id:
                raise TopicRecreatedError.of(name, expected_id)
        # They are stored with the ids: a topic that is recreated from now on does not get them.
        self._log.change(
            lambda state: state.plan_commit(group_id, offsets, now_ms=self._clock.now_ms(), topic_ids=topic_ids)
        )

    def commit_in_transaction(
        self, producer: TransactionalProducer, group_id: str, offsets: Mapping[TopicPartition, GroupOffset]
    ) -> None:
        now_ms = self._clock.now_ms()
        topic_ids = self._topic_ids(offsets)
        planned = self._log.state.look(
            lambda state: state.plan_commit(group_id, offsets, now_ms=now_ms, topic_ids=topic_ids)
        )
        self._transactions.add(producer, [CONSUMER_OFFSETS_PARTITION])
        if not planned.records:
            return
        self._topics.make(CONSUMER_OFFSETS_PARTITION.topic)
        writer = ProducerIdAndEpoch(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)
        batch = self._log.state.kind.new_batch(planned.records, timestamp_ms=now_ms, producer=writer)

        def append(store: WritablePartition) -> AppendOutcome:
            return store.append_control(batch, now_ms=now_ms)

        outcome = self._transactions.write_verified(CONSUMER_OFFSETS_PARTITION, writer, append)
        if outcome.rolled:
            self._log.on_rolled(CONSUMER_OFFSETS_PARTITION)

    def delete_group(self, group_id: str) -> None:
        self._transactions.settle()
        self._log.change(lambda state: state.plan_delete_group(group_id))

    def forget_topic(self, topic: TopicDescription) -> None:
        """Deletes the offsets that were committed for a deleted topic. Never raises: the topic is already deleted."""
        try:
            self._log.state.refresh()
            if self._log.state.look(lambda state: state.plan_forget_topic(topic.name, topic_id=topic.topic_id).records):
                self._log.change(lambda state: state.plan_forget_topic(topic.name, topic_id=topic.topic_id))
        except (StreamlogError, OSError) as error:
            _log.warning("could not remove the committed offsets of deleted topic %s: %s", topic.name, error)

    def pinned_offset(self, partition: TopicPartition) -> int | None:
        """The lowest offset that a reader has pinned: a committed offset can say until when its records must be
        kept."""
        self._log.state.refresh()
        return self._log.state.look(lambda state: state.pinned_offset(partition, self._clock.now_ms()))

    def _topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[str, UUID]:
        """Raises UnknownTopicError, UnknownPartitionError. Skips `__consumer_offsets`, which may not exist yet."""
        return {
            partition.topic: topic_of(self._catalog, partition).topic_id
            for partition in partitions
            if partition != CONSUMER_OFFSETS_PARTITION
        }
