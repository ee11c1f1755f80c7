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
from typing import Final, Protocol

from broker_core.broker.callback_errors import OnError
from broker_core.broker.coordination.transaction_peers import TransactionPeers
from broker_core.broker.partition.replica import Replica
from broker_core.broker.timer_queue import TimerQueue
from broker_core.log.append_request import AppendRequest
from broker_core.log.producer_entry import ProducerEntry
from broker_core.log.producer_state import AppendOrigin
from broker_core.log_directory.internal_topics import CONSUMER_OFFSETS_PARTITION
from broker_core.model.exceptions import (
    ContradictingMarkerError,
    CoordinatorFencedError,
    InvalidTopicNameError,
    NotCoordinatorError,
    ProducerFencedError,
    ReplicaError,
    StreamlogError,
    UnknownPartitionError,
    UnknownTopicError,
)
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition
from broker_core.model.topic_name import is_internal_topic
from broker_core.ports import Clock
from broker_core.record.control_records import EndTransactionMarker, build_end_transaction_marker
from broker_core.txn.transaction_replies import EndingTransaction
from broker_core.txn.written_markers import check_written_marker, has_marker

_log: Final = logging.getLogger(__name__)

_RETRY_MS: Final = 1_000


class Replicas(Protocol):
    """The part of ReplicaManager that markers need."""

    def get(self, partition: TopicPartition) -> Replica: ...


class GroupLog(Protocol):
    """The part of the group coordinator's runtime that markers need."""

    def append_marker(
        self,
        producer: ProducerIdAndEpoch,
        marker: EndTransactionMarker,
        on_done: Callable[[], None],
        on_error: OnError,
    ) -> None: ...


class MarkerSender:
    """Runs on the node's loop."""

    def __init__(
        self,
        replicas: Replicas,
        groups: GroupLog,
        timers: TimerQueue,
        clock: Clock,
        peers: TransactionPeers | None = None,
    ) -> None:
        self._peers = peers
        self._replicas = replicas
        self._groups = groups
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
        """The coordinator moved, and its successor sends them: a late marker could end the producer's next
        transaction."""
        self._missing.clear()

    def write(
        self,
        partition: TopicPartition,
        producer: ProducerIdAndEpoch,
        marker: EndTransactionMarker,
        on_done: Callable[[], None],
        on_error: OnError,
    ) -> None:
        """The same as `write_here`, at whichever broker leads the partition."""
        peers = self._peers

        def refused(error: StreamlogError) -> None:
            if peers is not None and isinstance(error, ReplicaError | NotCoordinatorError):
                peers.write_marker(partition, producer, marker, on_done, on_error)
            else:
                on_error(error)

        self.write_here(partition, producer, marker, on_done, refused)

    def write_here(
        self,
        partition: TopicPartition,
        producer: ProducerIdAndEpoch,
        marker: EndTransactionMarker,
        on_done: Callable[[], None],
        on_error: OnError,
    ) -> None:
        """Writes one marker unchanged, without retries. Raises nothing: `on_error` gets UnknownTopicError,
        UnknownPartitionError, InvalidTopicNameError, ProducerFencedError, CoordinatorFencedError, CoordinatorError,
        ReplicaError and StorageError."""
        if self._peers is not None:
            self._peers.on_marker(partition, producer.producer_id)
        if partition == CONSUMER_OFFSETS_PARTITION:
            self._groups.append_marker(producer, marker, on_done, on_error)
            return
        if is_internal_topic(partition.topic):
            on_error(
                InvalidTopicNameError(
                    f"Cannot write a marker to internal topic {partition.topic}: only its coordinator writes it.",
                    topic=partition.topic,
                )
            )
            return
        try:
            replica = self._replicas.get(partition)
        except StreamlogError as error:
            on_error(error)
            return
        batch = build_end_transaction_marker(
            marker,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            timestamp_ms=self._clock.now_ms(),
        )
        replica.append(
            AppendRequest(
                batches=batch,
                origin=AppendOrigin.COORDINATOR,
                on_done=lambda result: on_done(),
                on_error=on_error,
            )
        )

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
            if self._peers is None and entry is not None:
                # Another broker may have served the directory before, with a higher coordinator epoch than ours.
                newest = max(newest, entry.coordinator_epoch)
            marker = EndTransactionMarker(is_commit=ending.is_commit, coordinator_epoch=newest)
            self.write(partition, producer, marker, done, failed)

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
            if partition == CONSUMER_OFFSETS_PARTITION and isinstance(error, UnknownTopicError):
                # Its coordinator may be creating it, for records of this transaction: it takes the marker after them.
                on_checked(None)
            elif isinstance(error, ReplicaError) and self._peers is not None:
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
