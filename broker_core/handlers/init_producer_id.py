"""InitProducerId (22), versions 0 to 5: a producer id, and with a transactional id its next epoch.

From version 3 on a producer may send its current id and epoch (KIP-360). While the transaction of the last instance is
being ended the answer is CONCURRENT_TRANSACTIONS, and the client retries. Left out on purpose: version 6 with two-phase
commit, which Kafka's brokers do not serve either.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.handlers.call import Call
from broker_core.handlers.transaction_errors import transaction_error
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.durations import milliseconds_of
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdAndEpoch

_FIRST_VERSION_WITH_FENCED: Final = 4


def handle(call: Call) -> None:
    transactional_id = call.message.transactional_id
    refusal = _access_refusal(call, transactional_id)
    if refusal is not ErrorCode.none:
        _refuse(call, refusal)
        return
    producer_id = call.request_field("producer_id", NO_PRODUCER_ID)
    producer_epoch = call.request_field("producer_epoch", NO_PRODUCER_EPOCH)
    if (producer_id == NO_PRODUCER_ID) != (producer_epoch == NO_PRODUCER_EPOCH):
        _refuse(call, ErrorCode.invalid_request)
        return
    known = ProducerIdAndEpoch(producer_id=producer_id, producer_epoch=producer_epoch)

    def refused(error: StreamlogError) -> None:
        _refuse(call, transaction_error(error, knows_fenced=call.version >= _FIRST_VERSION_WITH_FENCED))

    def answered(given: ProducerIdAndEpoch) -> None:
        call.respond(producer_id=given.producer_id, producer_epoch=given.producer_epoch)

    transactions = call.node.transactions
    if transactional_id is None:
        transactions.new_producer_id(answered, refused)
        return
    transactions.of(transactional_id).init_producer_id(
        transactional_id,
        timeout_ms=milliseconds_of(call.message.transaction_timeout),
        expected=None if producer_id == NO_PRODUCER_ID else known,
        on_reply=answered,
        on_error=refused,
    )


def _access_refusal(call: Call, transactional_id: str | None) -> ErrorCode:
    if transactional_id is not None:
        is_allowed = call.is_allowed(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        return ErrorCode.none if is_allowed else ErrorCode.transactional_id_authorization_failed
    authorizer = call.node.authorizer
    may_write_somewhere = authorizer is None or authorizer.authorize_by_resource_type(
        call.principal, call.client_host, Operation.WRITE, ResourceType.TOPIC
    )
    if may_write_somewhere or call.is_allowed(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER):
        return ErrorCode.none
    return ErrorCode.cluster_authorization_failed


def _refuse(call: Call, error_code: ErrorCode) -> None:
    call.respond(error_code=error_code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
