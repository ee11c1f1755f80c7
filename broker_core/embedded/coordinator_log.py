"""Writes to a coordinator's log, one process at a time: `__transaction_state-0` or `__consumer_offsets-0`.

    log.change(lambda machine: machine.plan_something(...))

takes the partition's lock, replays the appends of other processes, plans on that state, appends the plan's records as
one batch and replays them. So the changes of all processes are serialized, and after a crash a change is complete or
absent.

Lock order: the metadata log's, then `__transaction_state`, then any other partition's. A plan runs under the lock and
must not take another: what it needs from the metadata log (a producer id) is fetched before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Generic, TypeVar

from broker_core.coordinator.contract import CoordinatorResult
from broker_core.embedded.coordinator_state import CoordinatorState
from broker_core.log_directory.internal_topics import InternalTopics
from broker_core.log_directory.partition_access import PartitionAccess
from broker_core.model.exceptions import UnknownTopicError
from broker_core.model.identifiers import TopicPartition
from broker_core.ports import Clock
from broker_core.storage.append_group import AppendOutcome
from broker_core.storage.writable_partition import WritablePartition

Machine = TypeVar("Machine")
Planned = TypeVar("Planned")
Reply = TypeVar("Reply")

_ATTEMPT_COUNT: Final = 3
"""How many times the internal topic may be deleted by other processes during one change."""


def never(reply: object) -> bool:
    """For a change that must not be lost."""
    return False


class CoordinatorLog(Generic[Machine, Planned]):
    """`state` follows the log; `on_rolled` is called after a new segment was started."""

    def __init__(
        self,
        state: CoordinatorState[Machine, Planned],
        access: PartitionAccess,
        topics: InternalTopics,
        clock: Clock,
        *,
        on_rolled: Callable[[TopicPartition], None],
    ) -> None:
        self.state = state
        self._access = access
        self._topics = topics
        self._clock = clock
        self.on_rolled = on_rolled

    def change(
        self,
        plan: Callable[[Machine], CoordinatorResult[Planned, Reply]],
        *,
        may_be_lost: Callable[[Reply], bool] = never,
    ) -> Reply:
        """Returns the plan's reply once its records are in the log. Raises what the plan raises, and StorageError.

        `may_be_lost(reply)`: the change may be lost in a power failure, because that also ends all processes that know
        of it. Then the append is not synced; the next change that must not be lost syncs it, too. Creates the log if it
        does not exist, unless an empty log would refuse the plan.
        """
        partition = self.state.partition
        for attempt in range(_ATTEMPT_COUNT):
            if not self._topics.exists(partition.topic):
                self.state.refresh()
                self.state.look(plan)
                self._topics.make(partition.topic)
            try:
                reply, outcome = self._access.write(partition, partial(self._change, plan, may_be_lost))
            except UnknownTopicError:
                if attempt == _ATTEMPT_COUNT - 1:
                    raise
            else:
                if outcome is not None and outcome.rolled:
                    self.on_rolled(partition)
                return reply
        raise AssertionError("the last attempt returns or raises")

    def _change(
        self,
        plan: Callable[[Machine], CoordinatorResult[Planned, Reply]],
        may_be_lost: Callable[[Reply], bool],
        store: WritablePartition,
    ) -> tuple[Reply, AppendOutcome | None]:
        self.state.follow(store)
        result = self.state.look(plan)
        if not result.records:
            return result.reply, None
        now_ms = self._clock.now_ms()
        batch = self.state.kind.new_batch(result.records, timestamp_ms=now_ms)
        outcome = store.append_control(batch, now_ms=now_ms, is_synced=not may_be_lost(result.reply))
        self.state.follow(store)
        return result.reply, outcome
