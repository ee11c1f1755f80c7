"""Sends what the leaders of this broker propose to the active controller (AlterPartition)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.broker.controller_port import ControllerPort
from broker_core.broker.timer_queue import TimerQueue
from broker_core.model.exceptions import StreamlogError
from broker_core.ports import Clock
from broker_core.protocol.api_table import message_types
from broker_core.protocol.message_builder import build
from broker_core.replication.isr_request_queue import IsrRequestQueue
from broker_core.replication.replica_messages import PartitionId
from broker_core.replication.replication_values import IsrAnswer, MemberProposal

_ALTER_PARTITION, _VERSION = 56, 3
_TIMER_KEY: Final = "isr proposals"


class IsrProposals:
    """`on_answer` is called on the loop with each answer."""

    def __init__(
        self,
        controller: ControllerPort,
        timers: TimerQueue,
        clock: Clock,
        *,
        own_id: int,
        broker_epoch: Callable[[], int],
        on_answer: Callable[[PartitionId, MemberProposal, IsrAnswer], None],
    ) -> None:
        self._controller, self._timers, self._clock = controller, timers, clock
        self._own_id, self._broker_epoch = own_id, broker_epoch
        self._on_answer = on_answer
        self._queue = IsrRequestQueue()

    def propose(self, partition: PartitionId, proposal: MemberProposal) -> None:
        self._queue.submit(partition, proposal)
        self._maybe_send()

    def _maybe_send(self) -> None:
        now_ms = self._clock.now_ms()
        proposals = self._queue.next_request(now_ms)
        if proposals is not None:
            self._controller.ask(self._request(proposals), self._answered, self._failed)
        elif self._queue.next_timer_ms is not None:
            self._timers.set(_TIMER_KEY, self._queue.next_timer_ms, lambda now_ms: self._maybe_send())

    def _request(self, proposals: dict[Any, MemberProposal]) -> Any:
        topics: dict[UUID, list[dict[str, Any]]] = {}
        for partition, proposal in proposals.items():
            topics.setdefault(partition.topic_id, []).append(
                {
                    "partition_index": partition.number,
                    "leader_epoch": proposal.leader_epoch,
                    "new_isr_with_epochs": [
                        {"broker_id": broker_id, "broker_epoch": epoch} for broker_id, epoch in proposal.members
                    ],
                    "leader_recovery_state": 0,
                    "partition_epoch": proposal.partition_epoch,
                }
            )
        values = {
            "broker_id": self._own_id,
            "broker_epoch": self._broker_epoch(),
            "topics": [{"topic_id": topic_id, "partitions": each} for topic_id, each in topics.items()],
        }
        return build(message_types(_ALTER_PARTITION, _VERSION).request, values)

    def _answered(self, response: Any) -> None:
        now_ms = self._clock.now_ms()
        if response.error_code is not ErrorCode.none:
            self._queue.on_failed(now_ms)
            self._maybe_send()
            return
        answers = {
            PartitionId(topic.topic_id, each.partition_index): IsrAnswer(
                error=each.error_code,
                leader_epoch=each.leader_epoch,
                partition_epoch=each.partition_epoch,
                isr=tuple(each.isr),
            )
            for topic in response.topics
            for each in topic.partitions
        }
        answered = self._queue.on_answered([each.error for each in answers.values()], now_ms)
        for key, proposal in answered.items():
            assert isinstance(key, PartitionId)
            unanswered = IsrAnswer(error=ErrorCode.unknown_server_error)
            self._on_answer(key, proposal, answers.get(key, unanswered))
        self._maybe_send()

    def _failed(self, error: StreamlogError) -> None:
        self._queue.on_failed(self._clock.now_ms())
        self._maybe_send()
