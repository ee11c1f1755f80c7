"""When a transaction has been open for too long, and when an id has been idle for too long."""

from __future__ import annotations

from broker_core.model.identifiers import SINGLE_USE_ID_PREFIX
from broker_core.model.limits import (
    NO_TRANSACTION_TIMEOUT_MS,
    SINGLE_USE_ID_EXPIRATION_MS,
)
from broker_core.txn.txn_records import TransactionValue


def has_timeout(value: TransactionValue) -> bool:
    return value.timeout_ms != NO_TRANSACTION_TIMEOUT_MS


def expiry_ms(value: TransactionValue) -> int:
    """When the transaction times out; it must have a timeout."""
    return value.start_ms + value.timeout_ms


def is_expired(value: TransactionValue, now_ms: int) -> bool:
    return has_timeout(value) and expiry_ms(value) <= now_ms


def is_idle(transactional_id: str, value: TransactionValue, now_ms: int, *, id_expiration_ms: int) -> bool:
    """Whether the id was unused for so long that it may be forgotten, if it has no open transaction."""
    is_single_use = transactional_id.startswith(SINGLE_USE_ID_PREFIX)
    return value.last_update_ms <= now_ms - (SINGLE_USE_ID_EXPIRATION_MS if is_single_use else id_expiration_ms)
