"""ListTransactions (66), versions 0 to 2: transactional ids by state, by producer id, by age and by name.

`duration_filter` (version 1): open for longer than that many ms; an id that never had a transaction always matches.
`transactional_id_pattern` (version 2) is an RE2 expression for the whole id.
"""

from __future__ import annotations

from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from broker_core.group.consumer.topic_regex import matches, refusal_of_regex
from broker_core.handlers.call import Call
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StreamlogError
from broker_core.model.transaction_state import TransactionState
from broker_core.txn.txn_records import TransactionValue

_STATES = {state.label: state for state in TransactionState}


def handle(call: Call) -> None:
    filters = call.message.state_filters
    states = {_STATES[name] for name in filters if name in _STATES}
    producer_ids = frozenset(call.message.producer_id_filters)
    duration_ms = call.request_field("duration_filter", -1)
    pattern = call.request_field("transactional_id_pattern", None)
    if pattern and refusal_of_regex(pattern) is not None:
        call.respond(error_code=ErrorCode.invalid_regular_expression)
        return

    def is_wanted(transactional_id: str, value: TransactionValue) -> bool:
        return (
            (not producer_ids or value.producer_id in producer_ids)
            and (not filters or value.state in states)
            and (duration_ms < 0 or call.now_ms - value.start_ms > duration_ms)
            and (not pattern or matches(pattern, transactional_id))
            and call.is_allowed(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        )

    def found(values: Mapping[str, TransactionValue]) -> None:
        call.respond(
            unknown_state_filters=[name for name in filters if name not in _STATES],
            transaction_states=[
                {"transactional_id": each, "producer_id": value.producer_id, "transaction_state": value.state.label}
                for each, value in values.items()
            ],
        )

    def refused(error: StreamlogError) -> None:
        call.respond(error_code=error.error_code)

    call.node.transactions.find(is_wanted, found, refused)
