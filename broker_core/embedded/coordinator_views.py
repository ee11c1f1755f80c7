"""What can be asked of transactions and groups without changing anything, in a directory of ours and in a real Kafka's.

Ours has one partition of each log, whose state is kept; a real Kafka's has many, which are read anew for each question:
these are the questions of tools.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from broker_core.cluster import GroupOffset, TransactionDescription
from broker_core.embedded.coordinator_state import CoordinatorState
from broker_core.group.group_offsets import GroupOffsets
from broker_core.model.identifiers import TopicPartition
from broker_core.model.transaction_state import TransactionState
from broker_core.txn.transaction_coordinator import TransactionCoordinator


class TransactionView:
    """`settle` comes before each look: what the dead left shall not be shown as if it were under way."""

    def __init__(
        self,
        states: Callable[[], Iterable[CoordinatorState[TransactionCoordinator]]],
        settle: Callable[[], object],
    ) -> None:
        self._states = states
        self._settle = settle

    def describe(self, transactional_ids: Collection[str]) -> dict[str, TransactionDescription]:
        self._settle()
        found: dict[str, TransactionDescription] = {}
        for state in self._states():
            state.refresh()
            found |= state.look(lambda coordinator: coordinator.describe(transactional_ids))
        return found

    def list_transactions(
        self, *, prefix: str, states: Collection[TransactionState] | None
    ) -> tuple[TransactionDescription, ...]:
        self._settle()
        found: list[TransactionDescription] = []
        for state in self._states():
            state.refresh()
            found += state.look(lambda coordinator: coordinator.list_transactions(prefix=prefix, states=states))
        return tuple(sorted(found, key=lambda each: each.transactional_id))


class GroupView:
    """The same of committed offsets: a decided transaction's offsets are committed, so it is finished first."""

    def __init__(
        self, states: Callable[[], Iterable[CoordinatorState[GroupOffsets]]], settle: Callable[[], object]
    ) -> None:
        self._states = states
        self._settle = settle

    def groups(self) -> tuple[str, ...]:
        self._settle()
        found: set[str] = set()
        for state in self._states():
            state.refresh()
            found.update(state.look(GroupOffsets.groups))
        return tuple(sorted(found))

    def fetch(self, group_id: str, partitions: Collection[TopicPartition] | None) -> dict[TopicPartition, GroupOffset]:
        self._settle()
        found: dict[TopicPartition, GroupOffset] = {}
        for state in self._states():
            state.refresh()
            found |= state.look(lambda offsets: offsets.fetch(group_id, partitions))
        return found
