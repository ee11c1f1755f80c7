"""Sends transaction markers: the control batches that end decided transactions in their partitions.

    send(endings)   one marker into each partition ─► all of one transaction durable ─► on_written(ending)

A marker is queued after everything that was admitted to its partition while the transaction was open, so no record of
the transaction follows its marker. After a disk error the marker is retried until it is written: the decision is final.
Sending twice is harmless until the transaction is complete: its producer cannot begin another one before that.
A partition that has the marker of the other kind is an error: such a transaction is never completed, and each start
logs it. Partitions of deleted topics are skipped, and so are logs that only their coordinator writes: no transaction
has records there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final

from broker_core.broker.callback_errors import OnError
from broker_core.broker.coordination.node_markers import NodeMarkers, Replicas
from broker_core.broker.timer_queue import TimerQueue
from broker_core.log.producer_entry import ProducerEntry
from broker_core.model.exceptions import (
    ContradictingMarkerError,
    CoordinatorFencedError,
    InvalidTopicNameError,
    ProducerFencedError,
    ReplicaError,
    StreamlogError,
    UnknownPartitionError,
    UnknownTopicError,
)
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition
from broker_core.model.topic_name import CONSUMER_OFFSETS_TOPIC
from broker_core.ports import Clock
from broker_core.record.control_records import EndTransactionMarker
from broker_core.txn.transaction_replies import EndingTransaction
from broker_core.txn.written_markers import check_written_marker, has_marker

_log: Final = logging.getLogger(__name__)

_RETRY_MS: Final = 1_000


class MarkerSender:
    """Of one coordinator. Runs on the node's loop."""

    def __init__(self, replicas: Replicas, writer: NodeMarkers, timers: TimerQueue, clock: Clock) -> None:
        self._replicas = replicas
        self._writer = writer
        self._timers = timers
        self._clock = clock
        self._missing: dict[EndingTransaction, set[TopicPartition]] = {}

    @property
    def under_way(self) -> Mapping[EndingTransaction, set[TopicPartition]]:
        """By transaction, the partitions that still need a marker."""
        return self._missing

    def send(self, endings: Sequence[EndingTransaction], on_written: Callable[[EndingTransaction], None]) -> None:
        """Sends the markers of each ending, except of those under way."""
        for ending in endings:
            if ending in self._missing:
                continue
            self._missing[ending] = set(ending.partitions)
            for partition in ending.partitions:
                self._send_to(partition, ending, on_written)
            self._maybe_written(ending, on_written)

    def forget_all(self) -> None:
        """The coordinator moves, and its successor sends them: a late marker could end the producer's next
        transaction."""
        self._missing.clear()

    def _send_to(
        self, partition: TopicPartition, ending: EndingTransaction, on_written: Callable[[EndingTransaction], None]
    ) -> None:
        producer = ProducerIdAndEpoch(producer_id=ending.producer_id, producer_epoch=ending.producer_epoch)

        def done() -> None:
            missing = self._missing.get(ending)
            if missing is not None:
                missing.discard(partition)
                self._maybe_written(ending, on_written)

        def failed(error: StreamlogError) -> None:
            if isinstance(error, UnknownTopicError | UnknownPartitionError | InvalidTopicNameError):
                done()
            elif isinstance(error, ContradictingMarkerError):
                _log.error("transactional_id=%s: %s", ending.transactional_id, error)
            elif isinstance(error, CoordinatorFencedError):
                _log.warning("transactional_id=%s: its coordinator moved: %s", ending.transactional_id, error)
                self._missing.pop(ending, None)
            elif isinstance(error, ProducerFencedError):
                _log.warning("transactional_id=%s: a marker was not written: %s", ending.transactional_id, error)
                done()
            else:
                _log.warning(
                    "transactional_id=%s: writing a marker failed, will retry: %s", ending.transactional_id, error
                )
                self._retry(partition, ending, on_written)

        def checked(entry: ProducerEntry | None) -> None:
            newest = ending.coordinator_epoch
            if not self._writer.has_peers and entry is not None:
                # Another broker may have served the directory before, with a higher coordinator epoch than ours.
                newest = max(newest, entry.coordinator_epoch)
            marker = EndTransactionMarker(is_commit=ending.is_commit, coordinator_epoch=newest)
            self._writer.write(partition, producer, marker, done, failed)

        self._when_checked(partition, ending, checked, failed)

    def _when_checked(
        self,
        partition: TopicPartition,
        ending: EndingTransaction,
        on_checked: Callable[[ProducerEntry | None], None],
        on_error: OnError,
    ) -> None:
        """Passes the producer's entry in the partition; None: there is none. After a start it is read from the log.
        `on_error` gets ContradictingMarkerError if the log has a marker of this end that is of the other kind."""
        try:
            replica = self._replicas.get(partition)
        except StreamlogError as error:
            if partition.topic == CONSUMER_OFFSETS_TOPIC and isinstance(error, UnknownTopicError):
                # Its coordinator, here or at another broker, may be creating it, for records of this transaction: it
                # takes the marker after them.
                on_checked(None)
            elif isinstance(error, ReplicaError) and self._writer.has_peers:
                on_checked(None)  # its leader looks
            else:
                on_error(error)
            return

        def known() -> None:
            entry = replica.producer_entries().get(ending.producer_id)
            if ending.is_epoch_bumped and has_marker(entry, ending):
                replica.change(lambda store: store.last_marker(ending.producer_id), found, on_error)
            else:
                on_checked(entry)

        def found(written: EndTransactionMarker | None) -> None:
            try:
                check_written_marker(partition, written, ending)
            except ContradictingMarkerError as error:
                on_error(error)
                return
            on_checked(replica.producer_entries().get(ending.producer_id))

        replica.when_producers_known(known, on_error)

    def _retry(
        self, partition: TopicPartition, ending: EndingTransaction, on_written: Callable[[EndingTransaction], None]
    ) -> None:
        def again(now_ms: int) -> None:
            if ending in self._missing:
                self._send_to(partition, ending, on_written)

        key: Hashable = ("marker", partition, ending)
        self._timers.set(key, self._clock.now_ms() + _RETRY_MS, again)

    def _maybe_written(self, ending: EndingTransaction, on_written: Callable[[EndingTransaction], None]) -> None:
        if self._missing.get(ending, True):
            return
        del self._missing[ending]
        on_written(ending)
