"""The active controller of a cluster, from the moment when it leads the metadata quorum until it does not any more.

    request ──► plan on the image ──► records: replayed here at once, AppendRecords ──► the quorum's log
                                      reply:   held until everything before it is committed ──► SendAnswer

So the image is ahead of the committed one, and the next plan already uses it; no answer tells of records that can still
be lost. When the leadership ends, the image is dropped with this object, and waiting requests are answered with
NOT_CONTROLLER. A new leader begins with the image of everything in the log, all of it committed.

A machine: no clock, no log. It is the only writer of the log while it is active, so it knows each record's offset.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from broker_core.controller.broker_registrations import plan_fencing
from broker_core.controller.broker_sessions import BrokerSessions
from broker_core.controller.cluster_bootstrap import bootstrap_records
from broker_core.controller.cluster_facts import ClusterDefaults, ClusterFacts
from broker_core.controller.leader_elections import plan_elections_where_allowed, plan_preferred_elections
from broker_core.controller.mutation_limits import MutationLimits
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_records import (
    AbortTransactionRecord,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    NoOpRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from broker_core.model.limits import MAX_PREFERRED_ELECTIONS, MAX_SNAPSHOT_BATCH_RECORDS
from broker_core.ports import Entropy

Plan = Callable[["ClusterController", int], CoordinatorResult[MetadataRecord, Any]]
"""(the controller, now in ms) -> what to do. Raises StreamlogError, and nothing is changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerTimings:
    """Kafka's defaults."""

    no_op_interval_ms: int = 500
    """A record is written at least so often: brokers see that the controller lives."""
    preferred_interval_ms: int | None = 300_000
    """leader.imbalance.check.interval.seconds; None: leaders do not go back by themselves."""
    unclean_interval_ms: int = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRecords:
    """To the log, as one batch, at `from_offset`. If that cannot be, this controller ends."""

    from_offset: int
    records: tuple[MetadataRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendAnswer:
    """Everything that the reply says is committed."""

    request_id: int
    reply: Any


ControllerEffect = AppendRecords | SendAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    request_id: int
    until_offset: int
    reply: Any


class ClusterController:
    """`image` is its own from now on; everything below `next_offset` is in it and committed."""

    def __init__(
        self,
        image: MetadataImage,
        *,
        next_offset: int,
        cluster_id: str | None,
        entropy: Entropy,
        now_ms: int,
        defaults: ClusterDefaults | None = None,
        timings: ControllerTimings | None = None,
        own_registration: MetadataRecord | None = None,
        first_users: Sequence[MetadataRecord] = (),
    ) -> None:
        """`first_users`: of a cluster that has no record yet."""
        self.facts = ClusterFacts(image, defaults or ClusterDefaults())
        self.cluster_id = cluster_id
        self.entropy = entropy
        self.next_offset = next_offset
        self.sessions = BrokerSessions(self.facts.defaults.session_timeout_ms)
        self.mutations = MutationLimits(self.facts.defaults.mutation_window)
        self._timings = timings or ControllerTimings()
        self._own_registration = own_registration
        self._first_users = first_users
        self._activated_at = self._committed = next_offset
        self._register_offsets: dict[int, int] = {}
        self._shutdown_offsets: dict[int, int] = {}
        self._held: deque[_Held] = deque()
        self._effects: list[ControllerEffect] = []
        self._next_no_op_ms = now_ms
        self._next_preferred_ms = now_ms + (self._timings.preferred_interval_ms or 0)
        self._next_unclean_ms = now_ms + self._timings.unclean_interval_ms
        for broker_id, broker in image.registrations.brokers.items():
            if not broker.fenced:
                self.sessions.begin(broker_id, broker.broker_epoch, now_ms)

    @property
    def image(self) -> MetadataImage:
        """Ahead of what is committed."""
        return self.facts.image

    @property
    def held_count(self) -> int:
        """Answers that wait."""
        return len(self._held)

    # What plans ask

    @property
    def own_id(self) -> int:
        """The node that this controller runs on; -1 if it does not register."""
        own = self._own_registration
        return own.controller_id if isinstance(own, RegisterControllerRecord) else -1

    def register_offset(self, broker_id: int) -> int:
        """The offset of the record of the broker's registration. What was registered before this controller was active
        lies below the log's end then."""
        return self._register_offsets.get(broker_id, self._activated_at - 1)

    def is_shutdown_known(self, broker_id: int) -> bool:
        """Whether all other live brokers have replayed that the broker leads nothing any more."""
        others = (other for other in self.image.registrations.brokers if self.facts.is_active(other))
        lowest = self.sessions.lowest_offset(others)
        return lowest is None or lowest >= self._shutdown_offsets.get(broker_id, self._activated_at - 1)

    # Steps

    def begin(self, now_ms: int) -> list[ControllerEffect]:
        """Once, first: an unfinished transaction of records ends, an empty log becomes that of a new cluster, and this
        controller is registered."""
        if self.image.is_in_transaction:
            self._append((AbortTransactionRecord(reason="the controller that began it is gone"),), now_ms)
        if self.image.metadata_version is None:
            minimum = self.facts.defaults.min_insync_replicas
            self._append(bootstrap_records(min_insync_replicas=minimum, users=self._first_users), now_ms)
        own = self._own_registration
        if own is not None and own not in self.image.registrations.controllers.values():
            self._append((own,), now_ms)
        return [*self._take_effects(), *self.on_time(now_ms)]

    def request(self, request_id: int, plan: Plan, now_ms: int) -> list[ControllerEffect]:
        """Raises StreamlogError: refused, and nothing is changed."""
        result = plan(self, now_ms)
        self._append(result.records, now_ms)
        self._held.append(_Held(request_id=request_id, until_offset=self.next_offset, reply=result.reply))
        self._release()
        return self._take_effects()

    def on_control_records(self, until_offset: int) -> None:
        """The quorum has written records of its own behind those of this controller."""
        self.next_offset = until_offset

    def on_committed(self, until_offset: int) -> list[ControllerEffect]:
        """Everything below the offset is committed."""
        self._committed = until_offset
        self._release()
        return self._take_effects()

    def on_broker_disconnected(self, broker_id: int, broker_epoch: int) -> None:
        """It has no connection to this controller any more. A hint, see `BrokerSessions`."""
        self.sessions.disconnect(broker_id, broker_epoch)

    def on_broker_gone(self, broker_id: int, broker_epoch: int, now_ms: int) -> list[ControllerEffect]:
        """There seems to be no process of that registration. It is fenced at once; if that was wrong, until its next
        heartbeat: epochs and the rules of in-sync replicas see to it that this costs no record."""
        broker = self.image.registrations.brokers.get(broker_id)
        if broker is None or broker.broker_epoch != broker_epoch:
            return []
        self.sessions.end(broker_id)
        if not broker.fenced:
            self._append(plan_fencing(self.facts, broker_id).records, now_ms)
        return self._take_effects()

    def on_time(self, now_ms: int) -> list[ControllerEffect]:
        while (broker_id := self.sessions.expired(self._unfenced(), now_ms)) is not None:
            self._append(plan_fencing(self.facts, broker_id).records, now_ms)
            self.sessions.end(broker_id)
        timings = self._timings
        if timings.preferred_interval_ms is not None and now_ms >= self._next_preferred_ms:
            records = plan_preferred_elections(self.facts, MAX_PREFERRED_ELECTIONS)
            self._append(records, now_ms)
            is_more = len(records) == MAX_PREFERRED_ELECTIONS
            self._next_preferred_ms = now_ms + (0 if is_more else timings.preferred_interval_ms)
        if now_ms >= self._next_unclean_ms:
            self._append(plan_elections_where_allowed(self.facts, MAX_SNAPSHOT_BATCH_RECORDS), now_ms)
            self._next_unclean_ms = now_ms + timings.unclean_interval_ms
        if now_ms >= self._next_no_op_ms:
            self._append((NoOpRecord(),), now_ms)
        return self._take_effects()

    @property
    def next_timer_ms(self) -> int:
        timers = [self._next_no_op_ms, self._next_unclean_ms]
        if self._timings.preferred_interval_ms is not None:
            timers.append(self._next_preferred_ms)
        expiry_ms = self.sessions.next_expiry_ms(self._unfenced())
        return min(timers) if expiry_ms is None else min(expiry_ms, *timers)

    def _unfenced(self) -> list[int]:
        brokers = self.image.registrations.brokers
        return [broker_id for broker_id, broker in brokers.items() if not broker.fenced]

    def _append(self, records: Sequence[MetadataRecord], now_ms: int) -> None:
        for start in range(0, len(records), MAX_SNAPSHOT_BATCH_RECORDS):
            batch = tuple(records[start : start + MAX_SNAPSHOT_BATCH_RECORDS])
            self._effects.append(AppendRecords(from_offset=self.next_offset, records=batch))
            self._replay(batch)
            self.next_offset += len(batch)
        if records:
            self._note_shutdowns(records)
            self._next_no_op_ms = now_ms + self._timings.no_op_interval_ms

    def _replay(self, batch: Iterable[MetadataRecord]) -> None:
        for offset, record in enumerate(batch, start=self.next_offset):
            self.image.replay(record)
            if isinstance(record, RegisterBrokerRecord):
                self._register_offsets[record.broker_id] = offset

    def _note_shutdowns(self, records: Iterable[MetadataRecord]) -> None:
        for record in records:
            if isinstance(record, BrokerRegistrationChangeRecord) and record.in_controlled_shutdown:
                self._shutdown_offsets[record.broker_id] = self.next_offset - 1

    def _release(self) -> None:
        while self._held and self._held[0].until_offset <= self._committed:
            held = self._held.popleft()
            self._effects.append(SendAnswer(request_id=held.request_id, reply=held.reply))

    def _take_effects(self) -> list[ControllerEffect]:
        effects, self._effects = self._effects, []
        return effects
