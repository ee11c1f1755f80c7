"""EndTxn (26), versions 0 to 5: commits or aborts a transaction; answered when the decision is durable.

Markers follow at once. From version 5 on (transactions version 2) each end bumps the producer's epoch, and the answer
has the producer's new id and epoch; older clients keep theirs.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.cluster import TransactionalProducer
from broker_core.handlers.call import Call
from broker_core.handlers.transaction_errors import transaction_error
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from broker_core.txn.transaction_steps import CLIENT_VERSION, OLD_CLIENT_VERSION

_FIRST_VERSION_WITH_FENCED: Final = 2
_FIRST_VERSION_THAT_BUMPS: Final = 5


def handle(call: Call) -> None:
    message = call.message
    if not call.is_allowed(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, message.transactional_id):
        _refuse(call, ErrorCode.transactional_id_authorization_failed)
        return
    if not message.transactional_id:
        _refuse(call, ErrorCode.invalid_request)
        return

    def refused(error: StreamlogError) -> None:
        _refuse(call, transaction_error(error, knows_fenced=call.version >= _FIRST_VERSION_WITH_FENCED))

    call.node.transactions.of(message.transactional_id).end(
        TransactionalProducer(
            transactional_id=message.transactional_id,
            producer_id=message.producer_id,
            producer_epoch=message.producer_epoch,
        ),
        commit=message.committed,
        client_version=CLIENT_VERSION if call.version >= _FIRST_VERSION_THAT_BUMPS else OLD_CLIENT_VERSION,
        on_reply=lambda next_one: call.respond(
            producer_id=next_one.producer_id, producer_epoch=next_one.producer_epoch
        ),
        on_error=refused,
    )


def _refuse(call: Call, error_code: ErrorCode) -> None:
    call.respond(error_code=error_code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
