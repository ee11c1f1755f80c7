"""The steps of a transactional id: each takes its state and returns the state to record. Nothing is checked here.

Epochs, by transactions version 2 (KIP-890): each end bumps the epoch, and the marker carries the bumped one, so that
what the producer sent before its end and arrives late is fenced by the partition. 32766 is the last epoch a producer is
given: 32767 remains for ending and fencing it. An end with 32766 notes the producer id that comes next, and its
completion changes to that one with epoch 0; after a fence the next init draws a new id.

A client without version 2 does not learn of a bumped epoch, so its own ends bump nothing; fencing it always does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from broker_core.model.identifiers import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition
from broker_core.model.transaction_state import TransactionState
from broker_core.txn.txn_records import TransactionValue
from broker_core.txn.txn_states import COMPLETION, check_transition

MAX_PRODUCER_EPOCH: Final = 2**15 - 1
LAST_GIVEN_EPOCH: Final = MAX_PRODUCER_EPOCH - 1
"""The highest epoch that a producer is given."""

CLIENT_VERSION: Final = 2
"""Transactions version 2: each end bumps the epoch."""

OLD_CLIENT_VERSION: Final = 0
"""The version that Kafka records for requests of clients without version 2."""


def is_exhausted(value: TransactionValue) -> bool:
    """Whether the producer's epoch cannot be bumped again."""
    return value.producer_epoch >= LAST_GIVEN_EPOCH


def first(producer_id: int, *, timeout_ms: int, now_ms: int) -> TransactionValue:
    """A new transactional id. As in Kafka the previous producer id is the id itself, without a client version."""
    return TransactionValue(
        producer_id=producer_id,
        producer_epoch=0,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        last_update_ms=now_ms,
        previous_producer_id=producer_id,
    )


def initialised(value: TransactionValue, *, timeout_ms: int, now_ms: int) -> TransactionValue:
    """The next producer instance takes over, with the next epoch."""
    return _taken_over(value, value.producer_id, value.producer_epoch + 1, timeout_ms=timeout_ms, now_ms=now_ms)


def rotated(value: TransactionValue, producer_id: int, *, timeout_ms: int, now_ms: int) -> TransactionValue:
    """The next producer instance takes over, with a new producer id, since no epoch is left."""
    return _taken_over(value, producer_id, 0, timeout_ms=timeout_ms, now_ms=now_ms)


def kept(value: TransactionValue, *, timeout_ms: int, now_ms: int) -> TransactionValue:
    """The same producer instance continues, with an epoch whose answer it did not receive (KIP-360)."""
    return _taken_over(
        value,
        value.producer_id,
        value.producer_epoch,
        timeout_ms=timeout_ms,
        now_ms=now_ms,
        previous_producer_id=value.previous_producer_id,
    )


def with_partitions(
    value: TransactionValue, partitions: Iterable[TopicPartition], *, now_ms: int, client_version: int = CLIENT_VERSION
) -> TransactionValue:
    """Opens the transaction if none is open."""
    start_ms = value.start_ms if value.state is TransactionState.ONGOING else now_ms
    together = tuple(sorted({*value.partitions, *partitions}))
    return _step(
        value,
        TransactionState.ONGOING,
        now_ms,
        partitions=together,
        start_ms=start_ms,
        client_version=client_version,
    )


def prepared(
    value: TransactionValue,
    state: TransactionState,
    *,
    next_producer_id: int = NO_PRODUCER_ID,
    now_ms: int,
    client_version: int = CLIENT_VERSION,
) -> TransactionValue:
    """Decides the end; from client version 2 on it bumps the epoch. An abort without an open transaction opens one."""
    assert value.producer_epoch < MAX_PRODUCER_EPOCH or state is TransactionState.PREPARE_ABORT, value
    bump = 1 if client_version >= CLIENT_VERSION else 0
    return _step(
        value,
        state,
        now_ms,
        producer_epoch=min(value.producer_epoch + bump, MAX_PRODUCER_EPOCH),
        next_producer_id=next_producer_id,
        start_ms=value.start_ms if value.state is TransactionState.ONGOING else now_ms,
        client_version=client_version,
    )


def completed(value: TransactionValue, *, now_ms: int) -> TransactionValue:
    """Completes the transaction: all markers are written."""
    changes_id = value.next_producer_id != NO_PRODUCER_ID
    return _step(
        value,
        COMPLETION[value.state],
        now_ms,
        producer_id=value.next_producer_id if changes_id else value.producer_id,
        producer_epoch=0 if changes_id else value.producer_epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions=(),
        client_version=value.client_version,
    )


def _taken_over(
    value: TransactionValue,
    producer_id: int,
    producer_epoch: int,
    *,
    timeout_ms: int,
    now_ms: int,
    previous_producer_id: int | None = None,
) -> TransactionValue:
    check_transition(value.state, TransactionState.EMPTY)
    return replace(
        value,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        partitions=(),
        last_update_ms=now_ms,
        start_ms=NO_TIMESTAMP,
        previous_producer_id=value.producer_id if previous_producer_id is None else previous_producer_id,
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_PRODUCER_EPOCH,
    )


def _step(
    value: TransactionValue,
    state: TransactionState,
    now_ms: int,
    *,
    start_ms: int | None = None,
    producer_id: int | None = None,
    producer_epoch: int | None = None,
    next_producer_id: int = NO_PRODUCER_ID,
    partitions: tuple[TopicPartition, ...] | None = None,
    client_version: int,
) -> TransactionValue:
    check_transition(value.state, state)
    return replace(
        value,
        producer_id=value.producer_id if producer_id is None else producer_id,
        producer_epoch=value.producer_epoch if producer_epoch is None else producer_epoch,
        state=state,
        partitions=value.partitions if partitions is None else partitions,
        last_update_ms=now_ms,
        start_ms=value.start_ms if start_ms is None else start_ms,
        previous_producer_id=value.producer_id,
        next_producer_id=next_producer_id,
        client_version=client_version,
    )
