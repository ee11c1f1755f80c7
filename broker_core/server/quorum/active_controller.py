"""Drives the controller of this node while the node leads the quorum: requests, records, answers, timers.

After an unexpected error in a plan or a record the controller's image cannot be trusted: the node resigns, and the next
leader begins with what is committed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.controller.cluster_controller import (
    AppendRecords,
    ClusterController,
    ControllerEffect,
    ControllerTimings,
    SendAnswer,
)
from broker_core.controller.cluster_facts import ClusterDefaults
from broker_core.controller.requests.controller_api import ControllerApi, Values
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_records import MetadataRecord, RegisterBrokerRecord
from broker_core.model.exceptions import CorruptDataError, StreamlogError
from broker_core.model.limits import MAX_WAITING_CONTROLLER_ANSWERS
from broker_core.ports import Clock, Entropy

Respond = Callable[[Values], None]

_log: Final = logging.getLogger(__name__)


class ActiveController:
    """`propose` appends records to the log as one batch, at the given offset; `resign` gives up leading."""

    def __init__(
        self,
        *,
        cluster_id: str | None,
        clock: Clock,
        entropy: Entropy,
        defaults: ClusterDefaults,
        timings: ControllerTimings,
        propose: Callable[[int, tuple[MetadataRecord, ...]], None],
        resign: Callable[[], None],
        leader_id: Callable[[], int],
        first_users: Sequence[MetadataRecord] = (),
    ) -> None:
        """`first_users`: of a cluster that has no record yet."""
        self._first_users = first_users
        self._cluster_id, self._clock, self._entropy = cluster_id, clock, entropy
        self._defaults, self._timings = defaults, timings
        self._propose, self._resign, self._leader_id = propose, resign, leader_id
        self._loop = asyncio.get_running_loop()
        self._controller: ClusterController | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: dict[int, tuple[ControllerApi, Any, Respond]] = {}
        self._last_id = 0

    @property
    def is_active(self) -> bool:
        return self._controller is not None

    def begin(self, image: MetadataImage, *, next_offset: int, own: MetadataRecord, kraft_version: int = 0) -> None:
        """This node leads: `image`, a copy, holds everything below `next_offset`, all of it committed. `own` is the
        record that registers this controller."""
        self.end()
        now_ms = self._clock.now_ms()
        controller = ClusterController(
            image,
            next_offset=next_offset,
            cluster_id=self._cluster_id,
            entropy=self._entropy,
            now_ms=now_ms,
            defaults=replace(self._defaults, kraft_version=kraft_version),
            timings=self._timings,
            own_registration=own,
            first_users=self._first_users,
        )
        self._controller = controller
        self._do(lambda: controller.begin(now_ms))

    def end(self) -> None:
        """This node does not lead any more: waiting requests are told so."""
        self._controller = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, {}
        for api, message, respond in waiting.values():
            respond(self._not_controller(api, message))

    def on_control_records(self, until_offset: int) -> None:
        """The quorum has written records of its own."""
        if self._controller is not None:
            self._controller.on_control_records(until_offset)

    def on_committed(self, until_offset: int) -> None:
        controller = self._controller
        if controller is not None:
            self._do(lambda: controller.on_committed(until_offset))

    @property
    def brokers(self) -> Mapping[int, RegisterBrokerRecord]:
        """As the active controller knows them; none if it is another node."""
        return {} if self._controller is None else self._controller.image.registrations.brokers

    def on_broker_disconnected(self, broker_id: int, broker_epoch: int) -> None:
        """A hint, see `ClusterController`."""
        if self._controller is not None:
            self._controller.on_broker_disconnected(broker_id, broker_epoch)

    def on_broker_gone(self, broker_id: int, broker_epoch: int) -> None:
        """A hint, see `ClusterController`."""
        controller = self._controller
        if controller is not None:
            self._do(lambda: controller.on_broker_gone(broker_id, broker_epoch, self._clock.now_ms()))

    def handle(self, api: ControllerApi, message: Any, respond: Respond) -> None:
        """`respond` is called once, now or when the answer is committed."""
        controller = self._controller
        if controller is None:
            respond(self._not_controller(api, message))
            return
        if len(self._waiting) >= MAX_WAITING_CONTROLLER_ANSWERS:
            respond(api.refuse(message, ErrorCode.request_timed_out, "too many requests wait for the quorum"))
            return
        self._last_id += 1
        request_id = self._last_id
        self._waiting[request_id] = (api, message, respond)

        def plan(active: ClusterController, now_ms: int) -> Any:
            return api.plan(active, message, now_ms)

        try:
            self._do(lambda: controller.request(request_id, plan, self._clock.now_ms()))
        except StreamlogError as error:
            del self._waiting[request_id]
            respond(api.refuse(message, error.error_code, error.message))

    def _do(self, step: Callable[[], Iterable[ControllerEffect]]) -> None:
        """Raises StreamlogError for a request that is refused."""
        try:
            effects = step()
        except Exception as error:
            if isinstance(error, StreamlogError) and not isinstance(error, CorruptDataError):
                raise
            _log.error("the controller resigns after an error", exc_info=error)
            self.end()
            self._resign()
            return
        for effect in effects:
            match effect:
                case AppendRecords(from_offset=from_offset, records=records):
                    self._propose(from_offset, records)
                case SendAnswer(request_id=request_id, reply=reply):
                    _, _, respond = self._waiting.pop(request_id)
                    respond(reply)
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._controller is not None:
            delay_ms = max(0, self._controller.next_timer_ms - self._clock.now_ms())
            self._timer = self._loop.call_later(delay_ms / 1000, self._on_time)

    def _on_time(self) -> None:
        controller = self._controller
        if controller is not None:
            self._do(lambda: controller.on_time(self._clock.now_ms()))

    def _not_controller(self, api: ControllerApi, message: Any) -> Values:
        leader_id = self._leader_id()
        who = f"The active controller appears to be node {leader_id}." if leader_id >= 0 else "No controller is active."
        return api.refuse(message, ErrorCode.not_controller, who)
