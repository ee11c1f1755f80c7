"""A node that follows the quorum without a vote: its machine's effects on disk and network, its image of what is
committed.

    loop      steps, appends to the page cache, replays of committed records, snapshots of them
    thread    quorum-state, which comes back to the loop as an event
    link      a connection to the controller that is asked: the leader, or another one while it does not answer

What a crash loses of the log is fetched again, so appends are not synced; an election and a snapshot are. A write that
fails ends the node: `on_end` is called with the error.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from broker_core.log_directory.committed_image import CommittedImage
from broker_core.log_directory.observer_writes import carry_out_write
from broker_core.log_directory.quorum_directory import open_identity, open_quorum_log
from broker_core.log_directory.system_ports import SystemEntropy
from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import (
    BrokerUnavailableError,
    QuorumError,
)
from broker_core.raft.observer_events import (
    ElectionSaved,
    FetchAnswer,
    HighWatermarkAdvanced,
    InstallSnapshot,
    ObserverEffect,
    ObserverEvent,
    QuorumAnswered,
    QuorumLeaderChanged,
    QuorumRequestFailed,
    SaveElection,
    SendFetch,
    SendFetchSnapshot,
    SnapshotAnswer,
    SnapshotTaken,
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
from broker_core.server.quorum.machine_loop import MachineLoop
from broker_core.server.quorum.observer_settings import ObserverSettings
from broker_core.server.quorum.peer_connection import NO_ANSWER, PeerConnection
from broker_core.server.quorum.peer_dialer import PeerDialer
from broker_core.server.quorum.snapshot_schedule import SnapshotSchedule
from broker_core.server.steady_clock import SteadyClock
from broker_core.storage.os_file_system import OsFileSystem

_log: Final = logging.getLogger(__name__)
_FETCH, _FETCH_SNAPSHOT = 1, 59
_FETCH_VERSIONS: Final = range(OLDER_FETCH_VERSION, FETCH_VERSION + 1)
_FETCH_SNAPSHOT_VERSIONS: Final = range(1, 2)


class ObserverNode:
    """Create it within a running loop. The constructor opens the directory; it raises DirectoryFormatError.
    `on_committed`: called on the loop when the committed image has changed, or another took its place."""

    def __init__(
        self,
        settings: ObserverSettings,
        *,
        cluster_id: str | None,
        on_end: Callable[[Exception], None],
        on_committed: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings, self._on_committed = settings, on_committed
        self._clock, self._loop = SteadyClock(), asyncio.get_running_loop()
        fs, path = OsFileSystem(), os.path.abspath(settings.log_dir)
        os.makedirs(path, exist_ok=True)
        node_id = settings.node_id
        self.identity = open_identity(fs, path, node_id=node_id, cluster_id=cluster_id, entropy=SystemEntropy())
        self._quorum_log = open_quorum_log(fs, path, is_voter=False)
        self.committed = CommittedImage(self._quorum_log)
        self.observer = QuorumObserver(
            bootstrap=settings.controllers,
            voters=settings.voters,
            election=self._quorum_log.election(),
            log=self._quorum_log.reach(),
            timings=settings.timings,
        )
        self._machine: MachineLoop[ObserverEvent, ObserverEffect] = MachineLoop(
            self.observer, self._carry_out, tick=TimePassed(), clock=self._clock, on_end=on_end
        )
        self.dialer = PeerDialer(settings.links)
        """To controllers: every connection to one comes from it."""
        self._peer: PeerConnection | None = None
        self._asking: asyncio.Task[None] | None = None
        self._snapshots = SnapshotSchedule(
            self.committed,
            max_bytes=settings.snapshot_bytes,
            interval_ms=settings.snapshot_interval_ms,
            now_ms=self._clock.now_ms(),
        )

    @property
    def leader_address(self) -> BrokerAddress | None:
        """Of the active controller, None while nobody is known to lead."""
        return self.observer.leader_address

    def start(self) -> None:
        self._machine.feed(TimePassed())

    async def stop(self) -> None:
        self._machine.close()
        if self._asking is not None:
            self._asking.cancel()
        self._hang_up()
        await self._machine.end_disk()
        self._quorum_log.close()

    # Effects

    def _carry_out(self, effect: ObserverEffect) -> None:
        match effect:
            case SendFetch() | SendFetchSnapshot():
                self._send(effect)
            case HighWatermarkAdvanced(high_watermark=high_watermark):
                self.committed.replay_to(high_watermark)
                self._on_committed()
                self._maybe_snapshot()
            case QuorumLeaderChanged(leader_id=leader_id, leader_epoch=epoch):
                who = "nobody is known to lead" if leader_id < 0 else f"controller {leader_id} leads"
                _log.info("node=%d epoch=%d %s", self._settings.node_id, epoch, who)
            case StopObserver(reason=reason):
                raise QuorumError(f"node {self._settings.node_id} cannot follow the metadata quorum: {reason}")
            case SaveElection(election=election):
                self._machine.on_disk(partial(self._quorum_log.save_election, election), ElectionSaved())
            case _:
                written = carry_out_write(self._quorum_log, self.committed, effect)
                if isinstance(effect, InstallSnapshot):
                    self._on_committed()
                self._machine.feed(written)

    def _maybe_snapshot(self) -> None:
        now_ms = self._clock.now_ms()
        if not self._snapshots.is_due(now_ms):
            return
        for file in self._quorum_log.take_unsynced():
            file.sync()  # a log that ends below its snapshot has a hole
        snapshot_id = self._snapshots.maybe_take(now_ms)
        if snapshot_id is not None:
            start = self._quorum_log.start_offset
            self._machine.feed(SnapshotTaken(snapshot_id=snapshot_id, log_start_offset=start))

    # Network

    def _send(self, send: SendFetch | SendFetchSnapshot) -> None:
        """An answer that is still awaited is given up, and its connection with it."""
        if self._asking is not None and not self._asking.done():
            self._asking.cancel()
            if self._peer is not None:
                self._peer.give_up()
        if self._peer is None or self._peer.address != send.to:
            self._hang_up()
            self._peer = PeerConnection(send.to, self.dialer)
        self._asking = self._loop.create_task(self._ask(send, self._peer))

    def _hang_up(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None

    async def _ask(self, send: SendFetch | SendFetchSnapshot, peer: PeerConnection) -> None:
        try:
            answer = await self._answer_to(send, peer)
        except NO_ANSWER as error:
            _log.debug("node=%d: %s does not answer: %s", self._settings.node_id, send.to, error)
            self._machine.feed(QuorumRequestFailed(request_id=send.request_id))
            return
        self._machine.feed(QuorumAnswered(request_id=send.request_id, answer=answer))

    async def _answer_to(
        self, send: SendFetch | SendFetchSnapshot, peer: PeerConnection
    ) -> FetchAnswer | SnapshotAnswer:
        response: Any
        if isinstance(send, SendFetchSnapshot):
            response = await peer.ask(
                _FETCH_SNAPSHOT,
                _FETCH_SNAPSHOT_VERSIONS,
                lambda version: fetch_snapshot_request(send, self.identity),
            )
        else:
            response = await peer.ask(
                _FETCH, _FETCH_VERSIONS, lambda version: fetch_request(send, self.identity, version=version)
            )
        if response is None:
            raise BrokerUnavailableError(f"{send.to} is no controller of Kafka 3.9 or newer", address=str(send.to))
        return snapshot_answer(response) if isinstance(send, SendFetchSnapshot) else fetch_answer(response)
