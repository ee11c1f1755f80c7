"""Read-only queries on transactions and groups, in a streamlog directory and in a real Kafka's.

A streamlog directory has one partition of each log, and its state is kept. A real Kafka's has many, which are read
again for each query: only tools use these queries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from typing import Any, Generic, TypeVar

from broker_core.cluster import GroupOffset, TransactionDescription
from broker_core.embedded.coordinator_state import CoordinatorState
from broker_core.group.offsets.group_offsets import GroupOffsets
from broker_core.model.identifiers import TopicPartition
from broker_core.model.transaction_state import TransactionState
from broker_core.txn.transaction_coordinator import TransactionCoordinator

Machine = TypeVar("Machine")
Answer = TypeVar("Answer")


class _View(Generic[Machine]):
    """`settle` runs before each query, so that transactions of dead processes are not shown as ongoing."""

    def __init__(
        self, states: Callable[[], Iterable[CoordinatorState[Machine, Any]]], settle: Callable[[], object]
    ) -> None:
        self._states = states
        self._settle = settle

    def _answers(self, question: Callable[[Machine], Answer]) -> Iterator[Answer]:
        """Yields the current answer of each state."""
        self._settle()
        for state in self._states():
            state.refresh()
            yield state.look(question)


class TransactionView(_View[TransactionCoordinator]):
    def describe(self, transactional_ids: Collection[str]) -> dict[str, TransactionDescription]:
        found: dict[str, TransactionDescription] = {}
        for answer in self._answers(lambda coordinator: coordinator.describe(transactional_ids)):
            found |= answer
        return found

    def list_transactions(
        self, *, prefix: str, states: Collection[TransactionState] | None
    ) -> tuple[TransactionDescription, ...]:
        answers = self._answers(lambda coordinator: coordinator.list_transactions(prefix=prefix, states=states))
        return tuple(sorted(chain.from_iterable(answers), key=lambda each: each.transactional_id))


class GroupView(_View[GroupOffsets]):
    """The offsets of a decided transaction are committed, so `settle` finishes it first."""

    def groups(self) -> tuple[str, ...]:
        return tuple(sorted(set(chain.from_iterable(self._answers(GroupOffsets.groups)))))

    def fetch(self, group_id: str, partitions: Collection[TopicPartition] | None) -> dict[TopicPartition, GroupOffset]:
        found: dict[TopicPartition, GroupOffset] = {}
        for answer in self._answers(lambda offsets: offsets.fetch(group_id, partitions)):
            found |= answer
        return found
