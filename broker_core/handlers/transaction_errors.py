"""Error codes for requests of transactional producers that the coordinator refuses."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker_core.model.exceptions import ProducerFencedError, StreamlogError, UnknownTransactionalIdError


def transaction_error(error: StreamlogError, *, knows_fenced: bool = True) -> ErrorCode:
    """`knows_fenced`: the request's version has PRODUCER_FENCED (KIP-588); else it is INVALID_PRODUCER_EPOCH."""
    if isinstance(error, UnknownTransactionalIdError):
        return ErrorCode.invalid_producer_id_mapping
    if isinstance(error, ProducerFencedError):
        return ErrorCode.producer_fenced if knows_fenced else ErrorCode.invalid_producer_epoch
    return error.error_code
