"""Lists and describes transactions."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.types import TransactionalId

from broker_core.client.broker_errors import broker_error
from broker_core.client.broker_router import BrokerRouter
from broker_core.client.coordinator_finder import CoordinatorType
from broker_core.client.deadline import Deadline
from broker_core.client.wire_values import milliseconds
from broker_core.cluster import TransactionDescription
from broker_core.model.identifiers import TopicPartition
from broker_core.model.transaction_state import TransactionState
from broker_core.protocol.api_table import ApiKey

_PATTERN_VERSION: Final = 2
"""The first version of ListTransactions with a filter by transactional id."""

_STATES: Final = {state.label: state for state in TransactionState}


class TransactionListing:
    """`Cluster` documents the methods."""

    def __init__(self, router: BrokerRouter) -> None:
        self._router = router

    def describe(self, transactional_ids: Collection[str]) -> dict[str, TransactionDescription]:
        if not transactional_ids:
            return {}
        return self._router.run("describe transactions", lambda deadline: self._describe(transactional_ids, deadline))

    def list_all(self, prefix: str, states: Collection[TransactionState] | None) -> tuple[TransactionDescription, ...]:
        if states is not None and not states:
            return ()

        def attempt(deadline: Deadline) -> dict[str, TransactionDescription]:
            ids: set[str] = set()
            for node_id in sorted(self._router.view(deadline).brokers):
                ids.update(self._ids_at(node_id, prefix, states, deadline))
            return self._describe(ids, deadline)

        found = self._router.run("list transactions", attempt)
        # It may have ended since it was listed.
        chosen = [one for one in found.values() if states is None or one.state in states]
        return tuple(sorted(chosen, key=lambda one: one.transactional_id))

    def _ids_at(
        self, node_id: int, prefix: str, states: Collection[TransactionState] | None, deadline: Deadline
    ) -> set[str]:
        """The transactions that this broker coordinates."""
        labels = () if states is None else tuple(sorted(state.label for state in states))
        connection = self._router.node(node_id, deadline)
        if connection.supports(ApiKey.LIST_TRANSACTIONS, _PATTERN_VERSION):
            request = _request_by_pattern(prefix, labels)
        else:
            request = _request_of_all(labels)
        (answer,) = connection.ask([request], deadline)
        if answer.error_code != ErrorCode.none:
            raise broker_error(answer.error_code, "list transactions")
        return {
            str(found.transactional_id)
            for found in answer.transaction_states
            if found.transactional_id.startswith(prefix)
        }

    def _describe(self, transactional_ids: Collection[str], deadline: Deadline) -> dict[str, TransactionDescription]:
        from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest

        by_node: dict[int, list[str]] = {}
        if transactional_ids:
            found = self._router.coordinators(CoordinatorType.TRANSACTION, transactional_ids, deadline)
            for name, node_id in found.items():
                by_node.setdefault(node_id, []).append(name)
        described = {}
        for node_id, names in by_node.items():
            request = DescribeTransactionsRequest(transactional_ids=tuple(map(TransactionalId, sorted(names))))
            (answer,) = self._router.ask_node(node_id, [request], deadline)
            for entry in answer.transaction_states:
                if entry.error_code == ErrorCode.transactional_id_not_found:
                    continue
                if entry.error_code != ErrorCode.none:
                    raise broker_error(entry.error_code, f"describe the transaction of {entry.transactional_id!r}")
                described[str(entry.transactional_id)] = _description(entry)
        return described


def _request_by_pattern(prefix: str, labels: tuple[str, ...]) -> Any:
    from kio.schema.list_transactions.v2.request import ListTransactionsRequest

    # The broker uses RE2; escaped characters mean the same there.
    pattern = f"{re.escape(prefix)}.*" if prefix else None
    return ListTransactionsRequest(state_filters=labels, transactional_id_pattern=pattern)


def _request_of_all(labels: tuple[str, ...]) -> Any:
    from kio.schema.list_transactions.v0.request import ListTransactionsRequest

    return ListTransactionsRequest(state_filters=labels)


def _description(entry: Any) -> TransactionDescription:
    partitions = (TopicPartition(topic.topic, number) for topic in entry.topics for number in topic.partitions)
    return TransactionDescription(
        transactional_id=str(entry.transactional_id),
        state=_STATES.get(entry.transaction_state, TransactionState.DEAD),
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        timeout_ms=milliseconds(entry.transaction_timeout),
        start_time_ms=milliseconds(entry.transaction_start_time),
        partitions=tuple(sorted(partitions)),
    )
