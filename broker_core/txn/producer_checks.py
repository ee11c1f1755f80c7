"""Checks of requests for a transactional id; `transaction_coordinator` has the rules as a table.

The checks change nothing: each one passes, or raises an error that names the producer, the request and the reason.
"""

from __future__ import annotations

from collections.abc import Collection

from broker_core.cluster import TransactionalProducer
from broker_core.coordinator.record_fields import MAX_STRING_BYTES, fits_string
from broker_core.model.exceptions import (
    ConcurrentTransactionsError,
    InvalidProducerIdMappingError,
    InvalidRequestError,
    InvalidTransactionStateError,
    InvalidTransactionTimeoutError,
    ProducerFencedError,
    UnsupportedFormatError,
)
from broker_core.model.identifiers import NO_PRODUCER_ID
from broker_core.model.limits import MAX_TRANSACTION_TIMEOUT_MS, NO_TRANSACTION_TIMEOUT_MS
from broker_core.model.transaction_state import TransactionState
from broker_core.txn.transaction_steps import CLIENT_VERSION, LAST_GIVEN_EPOCH
from broker_core.txn.txn_records import TransactionValue
from broker_core.txn.txn_states import COMMITS, COMPLETION, PREPARED

_COMPLETE = frozenset(COMPLETION.values())


def check_readable(transactional_id: str, unreadable: Collection[str]) -> None:
    """`unreadable` ids have a state that only a newer version can read. Their records are kept, and they are refused:
    raises UnsupportedFormatError."""
    if transactional_id in unreadable:
        raise UnsupportedFormatError(
            f"Transactional id {transactional_id!r} has a record of a newer version, which cannot be read."
        )


def check_transactional_id(transactional_id: str) -> None:
    if not transactional_id:
        raise InvalidRequestError("the transactional id is empty")
    if not fits_string(transactional_id):
        raise InvalidRequestError(
            f"transactional id {transactional_id[:50]!r}… cannot be stored: it must be at most {MAX_STRING_BYTES}"
            " bytes of UTF-8"
        )


def checked_timeout_ms(timeout_ms: int, *, is_two_phase: bool, longest_ms: int = MAX_TRANSACTION_TIMEOUT_MS) -> int:
    """The timeout to record. A two-phase transaction has none."""
    if is_two_phase:
        return NO_TRANSACTION_TIMEOUT_MS
    if not 0 < timeout_ms <= longest_ms:
        raise InvalidTransactionTimeoutError(
            f"transaction timeout is {timeout_ms} ms; it must be from 1 to {longest_ms} ms (transaction.max.timeout.ms)"
        )
    return timeout_ms


def is_repeated_end(
    producer: TransactionalProducer, value: TransactionValue, *, commit: bool, client_version: int = CLIENT_VERSION
) -> bool:
    """Whether the end is a retry of one that was decided before. Raises if the producer may not end now.

    Ends of older clients bump no epoch: repeating the same end is a retry, and an abort without an open transaction is
    refused.
    """
    if client_version < CLIENT_VERSION:
        check_owner(producer, value)
        check_not_ending(producer.transactional_id, value)
        if value.state in _COMPLETE:
            _check_decided_so(producer.transactional_id, value, commit=commit)
            return True
    elif _is_retry(producer, value):
        _check_decided_so(producer.transactional_id, value, commit=commit)
        return True
    check_owner(producer, value)
    check_not_ending(producer.transactional_id, value)
    if (commit or client_version < CLIENT_VERSION) and value.state is not TransactionState.ONGOING:
        raise InvalidTransactionStateError(
            f"transactional id {producer.transactional_id!r} cannot {_verb(commit)}: no transaction is open, since no"
            f" partition was added to one ({value.state.label})"
        )
    return False


def _check_decided_so(transactional_id: str, value: TransactionValue, *, commit: bool) -> None:
    if (value.state in COMMITS) != commit:
        was = "committed" if value.state in COMMITS else "aborted, by its producer or because it was fenced"
        raise InvalidTransactionStateError(
            f"transactional id {transactional_id!r} cannot {_verb(commit)}: its transaction was {was}"
            f" ({value.state.label})"
        )


def _verb(commit: bool) -> str:
    return "commit" if commit else "abort"


def _is_retry(producer: TransactionalProducer, value: TransactionValue) -> bool:
    if value.state in (TransactionState.EMPTY, TransactionState.ONGOING):
        return False
    if producer.producer_id == value.producer_id:
        return producer.producer_epoch == value.producer_epoch - 1
    return (
        producer.producer_id == value.previous_producer_id
        and producer.producer_epoch == LAST_GIVEN_EPOCH
        and value.producer_epoch == 0
    )


def is_next_producer_id(producer_id: int, value: TransactionValue) -> bool:
    """Whether the producer has been told this id, and the id before it, which has no epoch left, is still ending its
    last transaction: its requests are early, not wrong."""
    return value.state in PREPARED and producer_id == value.next_producer_id != NO_PRODUCER_ID


def check_owner(producer: TransactionalProducer, value: TransactionValue) -> None:
    if is_next_producer_id(producer.producer_id, value):
        check_not_ending(producer.transactional_id, value)
    if producer.producer_id != value.producer_id:
        raise InvalidProducerIdMappingError(
            f"transactional id {producer.transactional_id!r} has the producer id {value.producer_id}, not"
            f" {producer.producer_id}"
        )
    check_epoch(producer.transactional_id, value, producer.producer_epoch)


def check_epoch(transactional_id: str, value: TransactionValue, producer_epoch: int) -> None:
    who = f"transactional id {transactional_id!r}: producer {value.producer_id}"
    if producer_epoch < value.producer_epoch:
        raise ProducerFencedError(
            f"{who} has epoch {producer_epoch}, but the current epoch is {value.producer_epoch}: its transaction was"
            " ended, or a newer instance took over"
        )
    if producer_epoch > min(value.producer_epoch, LAST_GIVEN_EPOCH):
        raise ProducerFencedError(
            f"{who} has epoch {producer_epoch}, which was never assigned: the current epoch is {value.producer_epoch}"
        )


def check_not_ending(transactional_id: str, value: TransactionValue) -> None:
    if value.state in PREPARED:
        raise ConcurrentTransactionsError(
            f"transactional id {transactional_id!r} is still ending its last transaction ({value.state.label}):"
            " retry the request"
        )
