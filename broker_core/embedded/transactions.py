"""Transactions in a streamlog directory: the coordinator's decisions, and which process carries them out.

    init / add      appended to `__transaction_state`, planned on the appends of all processes
    end             ONE append decides for all transactions that are ended together (Prepare*). It is final; then the
                    markers are written, and one more append completes the transactions
    settle          a process may die between decision and completion. The next process that reads the coordinator's
                    state finishes decided transactions and aborts those that have timed out
    append          is verified under the partition's lock (KIP-890): the transaction must be open, of that producer and
                    epoch, and hold the partition. An end is decided before its marker waits for that lock. So either
                    the records are before the marker or the append is refused, and there are no hanging transactions

May be lost in a power failure: the initialisation of an id (the process that owns it is dead as well) and a completion
(the markers are durable; the next process completes it again). Must not be lost: an added partition, before its first
record; a decision, before the first marker; a marker, before the completion.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from typing import Final, TypeVar

from broker_core.cluster import TopicDescription, TransactionalProducer
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.embedded.coordinator_log import CoordinatorLog, never
from broker_core.embedded.marker_writer import MarkerWriter
from broker_core.log_directory.internal_topics import require_no_internal_topic
from broker_core.log_directory.metadata_log import MetadataLog
from broker_core.log_directory.partition_access import PartitionAccess
from broker_core.log_directory.partition_lock import LOCK_FILE_NAME
from broker_core.log_directory.producer_ids import NoIdHeldError, ProducerIds
from broker_core.log_directory.topic_catalog import topic_of
from broker_core.metadata.controller import MetadataController
from broker_core.metadata.metadata_records import MetadataRecord
from broker_core.model.exceptions import ConcurrentTransactionsError, StreamlogError
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition
from broker_core.ports import Clock
from broker_core.record.batch_header import HEADER_BYTES, read_header
from broker_core.storage.writable_partition import WritablePartition
from broker_core.txn.transaction_coordinator import TransactionCoordinator
from broker_core.txn.transaction_log import require_none_open
from broker_core.txn.transaction_replies import EndingTransaction, InitReply
from broker_core.txn.txn_records import TransactionRecord

Answer = TypeVar("Answer")
TopicPlan = Callable[[MetadataController], CoordinatorResult[MetadataRecord, TopicDescription]]
TransactionLog = CoordinatorLog[TransactionCoordinator, TransactionRecord]
TransactionPlan = Callable[[TransactionCoordinator], CoordinatorResult[TransactionRecord, Answer]]

_logger: Final = logging.getLogger(__name__)

_ATTEMPT_COUNT: Final = 10
"""How many times other processes may begin transactions under the same id, or replace the log, during one operation."""

_FORGETTING_EVERY_MS: Final = 3_600_000
"""How often a process checks for ids that were idle for too long."""


def _always(reply: object) -> bool:
    return True


def _is_initialised(reply: InitReply) -> bool:
    return reply.producer is not None


class Transactions:
    """The transaction coordinator of one directory, in this process."""

    def __init__(
        self,
        log: TransactionLog,
        markers: MarkerWriter,
        producer_ids: ProducerIds,
        access: PartitionAccess,
        metadata_log: MetadataLog,
        clock: Clock,
    ) -> None:
        self._log = log
        self._metadata_log = metadata_log
        self._markers = markers
        self._producer_ids = producer_ids
        self._access = access
        self._clock = clock
        self._forgot_at_ms: int | None = None

    def init_producer(self, transactional_id: str, *, timeout_ms: int, is_two_phase: bool) -> ProducerIdAndEpoch:
        self.settle()
        for _ in range(_ATTEMPT_COUNT):
            reply = self._change(
                lambda coordinator: coordinator.plan_init_producer(
                    transactional_id,
                    timeout_ms=timeout_ms,
                    is_two_phase=is_two_phase,
                    new_producer_id=self._producer_ids.held_id,
                    now_ms=self._clock.now_ms(),
                ),
                may_be_lost=_is_initialised,
            )
            if reply.producer is not None:
                return reply.producer
            self._finish(self._ending(transactional_id))
        raise ConcurrentTransactionsError(
            f"Transactional id '{transactional_id}' was taken over by other instances {_ATTEMPT_COUNT} times:"
            " each instance"
            " needs its own id."
        )

    def add_partitions(self, producer: TransactionalProducer, partitions: Collection[TopicPartition]) -> None:
        """Only for users' topics. Raises UnknownTopicError, UnknownPartitionError, InvalidTopicNameError."""
        for partition in partitions:
            require_no_internal_topic(partition.topic, "write to")
            topic_of(self._metadata_log, partition)
        self.add(producer, partitions)

    def add(self, producer: TransactionalProducer, partitions: Collection[TopicPartition]) -> None:
        self._change_ended(
            lambda coordinator: coordinator.plan_add_partitions(producer, partitions, now_ms=self._clock.now_ms())
        )

    def end(self, producers: Sequence[TransactionalProducer], *, commit: bool) -> None:
        endings = self._change_ended(
            lambda coordinator: coordinator.plan_end(
                producers,
                commit=commit,
                new_producer_id=self._producer_ids.held_id,
                now_ms=self._clock.now_ms(),
            )
        )
        self._finish(endings)

    def abort(self, transactional_id: str) -> bool:
        self.settle()
        ending = self._log.change(
            lambda coordinator: coordinator.plan_abort(transactional_id, now_ms=self._clock.now_ms())
        )
        if ending is None:
            return False
        self._finish([ending])
        return not ending.is_commit

    def settle(self) -> bool:
        """Finishes decided transactions and aborts those that have timed out. Returns whether there were any.

        Errors are only logged: the transactions may belong to other processes.
        """
        state = self._log.state
        state.refresh()
        now_ms = self._clock.now_ms()
        is_expiry_due = state.look(partial(self._is_expiry_due, now_ms=now_ms))
        if not is_expiry_due and not state.look(TransactionCoordinator.ending):
            return False
        try:
            if is_expiry_due:
                self._log.change(lambda coordinator: coordinator.plan_expire(now_ms))
            self._finish(state.look(TransactionCoordinator.ending))
        except (StreamlogError, OSError) as error:
            _logger.warning("could not complete the transactions of other producers: %s", error)
        return True

    def delete_log(self, plan: TopicPlan) -> TopicDescription:
        """Deletes `__transaction_state` in the metadata log by this plan. Raises PolicyViolationError while a
        transaction is open, and what the plan raises."""
        self.settle()

        def delete() -> TopicDescription:
            with ExitStack() as held:

                def plan_without_transactions(
                    controller: MetadataController,
                ) -> CoordinatorResult[MetadataRecord, TopicDescription]:
                    # Held until the topic is gone: a transaction that begins meanwhile could not be ended.
                    held.enter_context(self._none_open())
                    return plan(controller)

                return self._metadata_log.change(plan_without_transactions)

        return self._log.state.retrying(delete)

    @contextmanager
    def _none_open(self) -> Iterator[None]:
        """Inside, no transaction is open, and none can begin. Needs the metadata log's lock."""
        state = self._log.state
        with closing(self._access.lock_of(state.partition, LOCK_FILE_NAME)) as lock, ExitStack() as held:
            # Without the folder a transaction cannot begin either: to make it needs the metadata log's lock.
            with suppress(FileNotFoundError):
                held.enter_context(lock.exclusive())
            state.look_held(require_none_open)
            yield

    def write_verified(
        self,
        partition: TopicPartition,
        producer: ProducerIdAndEpoch,
        operation: Callable[[WritablePartition], Answer],
    ) -> Answer:
        """Runs `operation` under the partition's lock if the producer has an open transaction that holds the partition.

        Raises InvalidTransactionStateError, ProducerFencedError, and what the operation raises.
        """

        def verified(store: WritablePartition) -> Answer:
            self._log.state.look_held(
                lambda coordinator: coordinator.check_append(producer.producer_id, producer.producer_epoch, partition)
            )
            return operation(store)

        return self._log.state.retrying(lambda: self._access.write(partition, verified))

    def _change_ended(self, plan: TransactionPlan[Answer]) -> Answer:
        """If the last transaction is still being ended, ends it and plans again."""
        try:
            return self._change(plan)
        except ConcurrentTransactionsError:
            self.settle()
        return self._change(plan)

    def _change(self, plan: TransactionPlan[Answer], *, may_be_lost: Callable[[Answer], bool] = never) -> Answer:
        """A plan may need a producer id, but must not wait for one while it holds the log."""
        while True:
            try:
                return self._log.change(plan, may_be_lost=may_be_lost)
            except NoIdHeldError:
                self._producer_ids.fetch()

    def _ending(self, transactional_id: str) -> tuple[EndingTransaction, ...]:
        endings = self._log.state.look(TransactionCoordinator.ending)
        return tuple(ending for ending in endings if ending.transactional_id == transactional_id)

    def _is_expiry_due(self, coordinator: TransactionCoordinator, *, now_ms: int) -> bool:
        next_expiry_ms = coordinator.next_expiry_ms()
        if next_expiry_ms is not None and next_expiry_ms <= now_ms:
            return True
        if self._forgot_at_ms is not None and abs(now_ms - self._forgot_at_ms) < _FORGETTING_EVERY_MS:
            return False
        self._forgot_at_ms = now_ms
        return bool(coordinator.plan_expire(now_ms).records)

    def _finish(self, endings: Sequence[EndingTransaction]) -> None:
        """Writes the markers and completes the transactions that have all of theirs. Raises the error of the others."""
        if not endings:
            return
        errors = self._markers.write(endings)
        whole = [ending for ending in endings if ending not in errors]
        if whole:
            # Only those that no other process completed meanwhile: their ids may have begun another transaction.
            self._log.change(
                lambda coordinator: coordinator.plan_complete(whole, now_ms=self._clock.now_ms()), may_be_lost=_always
            )
        for error in errors.values():
            raise error


def transactional_writer(batches: bytearray) -> ProducerIdAndEpoch | None:
    """The producer of transactional batches; None for others. The header of the first batch is used: an append must be
    of one producer, and mixed batches are refused later."""
    if len(batches) < HEADER_BYTES:
        return None
    header = read_header(batches)
    if not header.is_transactional:
        return None
    return ProducerIdAndEpoch(producer_id=header.producer_id, producer_epoch=header.producer_epoch)
