"""Follows a metadata quorum as an observer: its log and snapshots as files, its image in memory.

    with QuorumFollower(settings, identity, QuorumLog(fs, folder)) as follower:
        follower.run(until=lambda: follower.image_offset >= 100)

The driver of `raft.quorum_observer`, blocking and in one thread: it carries out effects in their order and hands back
what came of them. The image is replayed up to the high watermark, so it holds committed records only. An observer that
may lose its newest records in a crash fetches them again, so appends are not synced one by one; an election and a
snapshot are.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from broker_core.client.connection_pool import ConnectionPool
from broker_core.client.deadline import Deadline
from broker_core.log_directory.committed_image import CommittedImage
from broker_core.log_directory.observer_writes import carry_out_write
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.model.client_settings import ClientSettings
from broker_core.model.exceptions import QuorumError, RemoteError
from broker_core.protocol.api_table import ApiKey
from broker_core.raft.observer_events import (
    ElectionSaved,
    HighWatermarkAdvanced,
    ObserverEffect,
    ObserverEvent,
    QuorumAnswered,
    QuorumLeaderChanged,
    QuorumRequestFailed,
    SaveElection,
    SendFetch,
    SendFetchSnapshot,
    StopObserver,
    TimePassed,
)
from broker_core.raft.quorum_messages import (
    FETCH_VERSION,
    OLDER_FETCH_VERSION,
    fetch_answer,
    fetch_request,
    fetch_snapshot_request,
    snapshot_answer,
)
from broker_core.raft.quorum_observer import QuorumObserver
from broker_core.raft.quorum_values import QuorumTimings, ReplicaIdentity
from broker_core.storage.quorum_log import QuorumLog

_log: Final = logging.getLogger(__name__)
_LONGEST_SLEEP_SECONDS: Final = 0.05


class QuorumFollower:
    """`settings.bootstrap_servers` are controllers. `image` is the same object until a snapshot replaces it."""

    def __init__(
        self,
        settings: ClientSettings,
        identity: ReplicaIdentity,
        log: QuorumLog,
        *,
        timings: QuorumTimings | None = None,
        on_leader: Callable[[int, int], None] = lambda leader_id, leader_epoch: None,
    ) -> None:
        self._identity = identity
        self._log = log
        self._timings = timings or QuorumTimings()
        self._on_leader = on_leader
        self._pool = ConnectionPool(settings)
        self._committed = CommittedImage(log)
        self._observer = QuorumObserver(
            bootstrap=settings.bootstrap_servers, election=log.election(), log=log.reach(), timings=self._timings
        )

    def __enter__(self) -> QuorumFollower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def observer(self) -> QuorumObserver:
        return self._observer

    @property
    def image(self) -> MetadataImage:
        return self._committed.image

    @property
    def image_offset(self) -> int:
        """The image holds everything below it."""
        return self._committed.offset

    def run(self, *, until: Callable[[], bool]) -> None:
        """Follows until that is true, asked after each event. Raises QuorumError when it cannot go on, and
        CorruptDataError for a record that it cannot replay."""
        events: deque[ObserverEvent] = deque([TimePassed()])
        while not until():
            if not events:
                self._sleep()
                events.append(TimePassed())
            for effect in self._observer.step(events.popleft(), _now_ms()):
                event = self._carry_out(effect)
                if event is not None:
                    events.append(event)

    def close(self) -> None:
        self._pool.close()
        self._log.close()

    def _sleep(self) -> None:
        timer_ms = self._observer.next_timer_ms
        wait_seconds = 0.0 if timer_ms is None else (timer_ms - _now_ms()) / 1000
        time.sleep(max(0.0, min(wait_seconds, _LONGEST_SLEEP_SECONDS)))

    def _carry_out(self, effect: ObserverEffect) -> ObserverEvent | None:
        match effect:
            case SendFetch() | SendFetchSnapshot():
                return self._ask(effect)
            case HighWatermarkAdvanced(high_watermark=high_watermark):
                self._committed.replay_to(high_watermark)
            case QuorumLeaderChanged(leader_id=leader_id, leader_epoch=leader_epoch):
                _log.info("metadata quorum: leader %d in epoch %d", leader_id, leader_epoch)
                self._on_leader(leader_id, leader_epoch)
            case StopObserver(reason=reason):
                raise QuorumError(f"following the metadata quorum ends: {reason}")
            case SaveElection(election=election):
                self._log.save_election(election)
                return ElectionSaved()
            case _:
                return carry_out_write(self._log, self._committed, effect)
        return None

    def _ask(self, send: SendFetch | SendFetchSnapshot) -> ObserverEvent:
        deadline = Deadline(self._timings.request_timeout_ms, setting="controller.quorum.request.timeout.ms")
        try:
            answer = self._answered(send, deadline)
        except RemoteError as error:
            _log.debug("metadata quorum: %s does not answer: %s", send.to, error)
            return QuorumRequestFailed(request_id=send.request_id)
        return QuorumAnswered(request_id=send.request_id, answer=answer)

    def _answered(self, send: SendFetch | SendFetchSnapshot, deadline: Deadline) -> Any:
        connection = self._pool.connection(send.to, deadline)
        if isinstance(send, SendFetchSnapshot):
            (response,) = connection.ask([fetch_snapshot_request(send, self._identity)], deadline)
            return snapshot_answer(response)
        knows_watermark = connection.supports(ApiKey.FETCH, FETCH_VERSION)
        version = FETCH_VERSION if knows_watermark else OLDER_FETCH_VERSION
        (response,) = connection.ask([fetch_request(send, self._identity, version=version)], deadline)
        return fetch_answer(response)


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
