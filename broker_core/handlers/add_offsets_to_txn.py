"""AddOffsetsToTxn (25), versions 0 to 4: the partition that a group's offsets are kept in joins a transaction.

Clients of transactions version 2 do not need it: TxnOffsetCommit from version 5 on adds that partition itself.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.cluster import TransactionalProducer
from broker_core.handlers.call import Call
from broker_core.handlers.transaction_errors import transaction_error
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StreamlogError
from broker_core.model.topic_name import CONSUMER_OFFSETS_TOPIC
from broker_core.txn.transaction_steps import OLD_CLIENT_VERSION

_FIRST_VERSION_WITH_FENCED: Final = 2


def handle(call: Call) -> None:
    message = call.message
    if not call.is_allowed(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, message.transactional_id):
        call.respond(error_code=ErrorCode.transactional_id_authorization_failed)
        return
    if not call.is_allowed(Operation.READ, ResourceType.GROUP, message.group_id):
        call.respond(error_code=ErrorCode.group_authorization_failed)
        return
    if not message.transactional_id:
        call.respond(error_code=ErrorCode.invalid_request)
        return

    def refused(error: StreamlogError) -> None:
        knows_fenced = call.version >= _FIRST_VERSION_WITH_FENCED
        call.respond(error_code=transaction_error(error, knows_fenced=knows_fenced))

    node = call.node
    if node.topics.is_shared and CONSUMER_OFFSETS_TOPIC not in node.topics.image.topics:
        # Not known here yet: its partition of the group is not known either, nor who would get the marker.
        call.respond(error_code=ErrorCode.coordinator_load_in_progress)
        return
    node.transactions.of(message.transactional_id).add_partitions(
        TransactionalProducer(
            transactional_id=message.transactional_id,
            producer_id=message.producer_id,
            producer_epoch=message.producer_epoch,
        ),
        [node.groups.partition_of(message.group_id)],
        client_version=OLD_CLIENT_VERSION,
        on_done=lambda: call.respond(error_code=ErrorCode.none),
        on_error=refused,
    )
