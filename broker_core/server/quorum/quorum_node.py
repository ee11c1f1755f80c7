"""Drives the voter of a node: its effects on disk and network, its events from there, its image of what is committed.

    loop      steps, appends to the page cache, reads for fetches, replays of committed records, snapshots of them
    thread    quorum-state and flushes of the log, one after the other; each comes back to the loop as an event
    links     one connection to each other voter

While it leads, its controller is active (`active_controller`), and the only one that writes. A write that fails ends
the node: `on_end` is called with the error.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.controller.cluster_bootstrap import CONTROLLER_FEATURES
from broker_core.log_directory.committed_image import CommittedImage
from broker_core.log_directory.quorum_directory import load_voters
from broker_core.metadata.controller import random_id
from broker_core.metadata.metadata_records import ControllerEndpoint, MetadataRecord, RegisterControllerRecord
from broker_core.metadata.metadata_replay import build_metadata_batch
from broker_core.model.exceptions import (
    AuthenticationError,
    QuorumError,
)
from broker_core.ports import Clock, Entropy, File
from broker_core.raft.observer_events import (
    AppendBatches,
    ElectionSaved,
    HighWatermarkAdvanced,
    InstallSnapshot,
    QuorumAnswer,
    QuorumLeaderChanged,
    QuorumRequestFailed,
    SaveElection,
    SnapshotInstalled,
    SnapshotRefused,
    SnapshotTaken,
    TimePassed,
    TruncateLog,
    WriteSnapshotChunk,
)
from broker_core.raft.quorum_values import ReplicaIdentity
from broker_core.raft.quorum_voter import QuorumVoter
from broker_core.raft.voter_events import (
    FlushLog,
    LogFlushed,
    PeerAnswered,
    RecordsAccepted,
    RecordsProposed,
    RecordsRefused,
    RequestReceived,
    ResignRequested,
    SendRecords,
    SendReply,
    SendRequest,
    SendSnapshotChunk,
    StopVoter,
    VoteAnswer,
    VoterEffect,
    VoteRequest,
    VoterEvent,
    VoterRequest,
    VotersAppended,
)
from broker_core.raft.voter_messages import (
    ASKED_VERSIONS,
    PRE_VOTE_VERSION,
    api_key_of,
    read_answer,
    request_message,
)
from broker_core.raft.voter_set import VoterSet
from broker_core.server.quorum.active_controller import ActiveController
from broker_core.server.quorum.broker_watch import BrokerWatch
from broker_core.server.quorum.controller_registrar import ControllerRegistrar
from broker_core.server.quorum.machine_loop import MachineLoop
from broker_core.server.quorum.peer_connection import NO_ANSWER, PeerConnection
from broker_core.server.quorum.peer_dialer import PeerDialer
from broker_core.server.quorum.quorum_settings import QuorumSettings
from broker_core.server.quorum.snapshot_schedule import SnapshotSchedule
from broker_core.storage.quorum_log import QuorumLog

_log: Final = logging.getLogger(__name__)

Respond = Callable[[QuorumAnswer], None]


class QuorumNode:
    """Runs on the running loop from `start` on. `log` is synced as it is."""

    def __init__(
        self,
        settings: QuorumSettings,
        identity: ReplicaIdentity,
        log: QuorumLog,
        *,
        clock: Clock,
        entropy: Entropy,
        on_end: Callable[[Exception], None],
        on_committed: Callable[[], None] = lambda: None,
        first_users: Sequence[MetadataRecord] = (),
    ) -> None:
        """`on_committed`: called on the loop when the committed image has changed, or another took its place.
        `first_users`: of a cluster that has no record yet."""
        self._on_committed = on_committed
        self.settings = settings
        self.identity = identity
        self._log = log
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self.dialer = PeerDialer(settings.links)
        """To controllers: every connection to one comes from it."""
        self._peers: dict[int, PeerConnection] = {}
        self._asking: dict[int, asyncio.Task[None]] = {}
        self._responds: dict[int, Respond] = {}
        self._last_id = 0
        self.committed = CommittedImage(log)
        self._snapshots = SnapshotSchedule(
            self.committed,
            max_bytes=settings.snapshot_bytes,
            interval_ms=settings.snapshot_interval_ms,
            now_ms=clock.now_ms(),
        )
        self.voter = QuorumVoter(
            identity=identity,
            voters=load_voters(log, VoterSet.of_static(settings.voters, settings.listener.name)),
            listener=settings.listener.name,
            endpoints={settings.listener.name: settings.address},
            election=log.election(),
            log=log.reach(),
            snapshot_id=log.snapshot_id,
            random_below=random.randrange,
            now_ms=clock.now_ms(),
            timings=settings.timings,
            bootstrap=settings.bootstrap,
            joins_by_itself=settings.joins_by_itself,
        )
        self._machine: MachineLoop[VoterEvent, VoterEffect] = MachineLoop(
            self.voter, self._carry_out, tick=TimePassed(), clock=clock, on_end=on_end
        )
        self.controller = ActiveController(
            cluster_id=identity.cluster_id,
            clock=clock,
            entropy=entropy,
            defaults=settings.defaults,
            timings=settings.controller_timings,
            propose=self._propose,
            resign=partial(self._machine.feed, ResignRequested()),
            leader_id=lambda: self.voter.election.leader_id,
            first_users=first_users,
        )
        self.brokers = BrokerWatch(
            brokers=lambda: self.controller.brokers,
            on_disconnected=lambda broker: self.controller.on_broker_disconnected(*broker),
            on_gone=lambda broker: self.controller.on_broker_gone(*broker),
        )
        self._expected: dict[int, int] = {}
        self.registration = _registration(settings, entropy)
        self._registrar = ControllerRegistrar(self.registration, self.dialer, image=lambda: self.committed.image)

    def start(self) -> None:
        self._machine.feed(TimePassed())

    def receive(self, request: VoterRequest, cluster_id: str | None, respond: Respond) -> None:
        """`respond` is called once, now or later, or never if this node ends."""
        self._last_id += 1
        self._responds[self._last_id] = respond
        self._machine.feed(RequestReceived(request_id=self._last_id, request=request, cluster_id=cluster_id))

    async def stop(self) -> None:
        """Gives up leading and waits a moment, so that the others know."""
        if self.voter.leading is not None:
            self._machine.feed(ResignRequested())
            waiting = [task for task in self._asking.values() if not task.done()]
            if waiting:
                await asyncio.wait(waiting, timeout=1)
        await self._close()

    async def _close(self) -> None:
        self._machine.close()
        self.controller.end()
        self._registrar.end()
        self.brokers.close()
        for task in self._asking.values():
            task.cancel()
        for peer in self._peers.values():
            peer.close()
        await self._machine.end_disk()
        self._log.close()

    # Effects

    def _carry_out(self, effect: VoterEffect) -> None:
        match effect:
            case SendRequest():
                self._send(effect)
            case SendReply(request_id=request_id, answer=answer):
                self._responds.pop(request_id)(answer)
            case SendRecords(request_id=request_id, answer=answer):
                found = self._log.read(effect.from_offset, until_offset=effect.until_offset, max_bytes=effect.max_bytes)
                self._responds.pop(request_id)(replace(answer, records=found))
            case SendSnapshotChunk(request_id=request_id, answer=answer, position=position):
                size_bytes, chunk = self._log.read_snapshot_chunk(position, effect.max_bytes)
                if not 0 <= position < size_bytes:
                    answer = replace(answer, error=ErrorCode.position_out_of_range)
                self._responds.pop(request_id)(replace(answer, size_bytes=size_bytes, position=position, chunk=chunk))
            case HighWatermarkAdvanced(high_watermark=high_watermark):
                self.committed.replay_to(high_watermark)
                self._on_committed()
                self._maybe_snapshot()
                self.controller.on_committed(high_watermark)
            case QuorumLeaderChanged():
                self._on_leader(effect)
            case RecordsAccepted(proposal_id=proposal_id, from_offset=from_offset):
                if self._expected.pop(proposal_id, None) != from_offset:
                    raise QuorumError(f"records are at offset {from_offset}, and not where the controller has them")
            case RecordsRefused(proposal_id=proposal_id):
                if self._expected.pop(proposal_id, None) is not None:
                    self.controller.end()
            case VotersAppended(until_offset=until_offset):
                self.controller.on_control_records(until_offset)
            case StopVoter(reason=reason):
                raise QuorumError(f"node {self.settings.node_id} leaves the quorum: {reason}")
            case _:
                self._write(effect)

    # Disk

    def _write(self, effect: VoterEffect) -> None:
        match effect:
            case SaveElection(election=election):
                static = None if self.voter.history.is_dynamic else tuple(self.voter.voters.nodes)
                save = partial(self._log.save_election, election, static_voters=static)
                self._machine.on_disk(save, ElectionSaved())
            case FlushLog():
                self._machine.on_disk(partial(_sync, self._log.take_unsynced()), LogFlushed())
            case AppendBatches(records=records):
                self._log.append(records, is_synced=False)
            case TruncateLog(end_offset=end_offset):
                self._log.truncate(end_offset)
            case WriteSnapshotChunk(snapshot_id=snapshot_id, position=position, chunk=chunk):
                self._log.write_snapshot_chunk(snapshot_id, position, chunk)
            case _:
                assert isinstance(effect, InstallSnapshot), effect
                controls = self.committed.maybe_install(effect.snapshot_id)
                self._on_committed()
                self._machine.feed(SnapshotRefused() if controls is None else SnapshotInstalled(controls=controls))

    def _maybe_snapshot(self) -> None:
        now_ms = self._clock.now_ms()
        # A leader may know records as committed that it has not flushed itself.
        if not self._snapshots.is_due(now_ms) or self.committed.offset > self.voter.log.flushed_end:
            return
        snapshot_id = self._snapshots.maybe_take(now_ms)
        if snapshot_id is not None:
            self._machine.feed(SnapshotTaken(snapshot_id=snapshot_id, log_start_offset=self._log.start_offset))

    # Network

    def _send(self, effect: SendRequest) -> None:
        earlier, peer = self._asking.get(effect.to), self._peers.get(effect.to)
        if earlier is not None and not earlier.done():
            earlier.cancel()
            if peer is not None:
                peer.give_up()
        if peer is None or peer.address != effect.address:
            if peer is not None:
                peer.close()
            peer = self._peers[effect.to] = PeerConnection(effect.address, self.dialer)
        self._asking[effect.to] = self._loop.create_task(self._ask(effect, peer))

    async def _ask(self, effect: SendRequest, peer: PeerConnection) -> None:
        request = effect.request
        key = api_key_of(request)

        def make(version: int) -> Any | None:
            if isinstance(request, VoteRequest) and request.is_pre_vote and version < PRE_VOTE_VERSION:
                return None
            return request_message(request, self.identity.cluster_id, version=version)

        try:
            response = await peer.ask(key, ASKED_VERSIONS[key], make)
            answer = VoteAnswer(error=ErrorCode.unsupported_version) if response is None else read_answer(response)
        except NO_ANSWER as error:
            _log.debug("node=%d: %s does not answer: %s", self.settings.node_id, peer.address, error)
            is_gone = not isinstance(error, AuthenticationError) and await peer.is_refused()
            self._machine.feed(QuorumRequestFailed(request_id=effect.request_id, is_gone=is_gone))
            return
        self._machine.feed(PeerAnswered(request_id=effect.request_id, answer=answer))

    # Leading

    def _on_leader(self, effect: QuorumLeaderChanged) -> None:
        node_id, epoch = self.settings.node_id, effect.leader_epoch
        who = "nobody is known to lead" if effect.leader_id < 0 else f"node {effect.leader_id} leads"
        _log.info("node=%d epoch=%d %s, high watermark %d", node_id, epoch, who, self.voter.high_watermark)
        self.controller.end()
        self._registrar.end()
        leader = self.voter.leader_address
        if effect.leader_id != node_id and leader is not None:
            self._registrar.begin(leader)
        if effect.leader_id == node_id:
            end = self.voter.log.end
            assert self.committed.offset == end, (self.committed.offset, end)
            self._expected.clear()
            self.controller.begin(
                self.committed.image.copy(),
                next_offset=end,
                own=self.registration,
                kraft_version=self.voter.history.kraft_version,
            )
            self.brokers.look_at_all()

    def _propose(self, from_offset: int, records: tuple[MetadataRecord, ...]) -> None:
        self._last_id += 1
        self._expected[self._last_id] = from_offset
        batch = build_metadata_batch(records, now_ms=self._clock.now_ms())
        # Before other events, so that the records are where the controller has them.
        self._machine.feed(RecordsProposed(proposal_id=self._last_id, records=bytes(batch)), is_first=True)


def _sync(files: tuple[File, ...]) -> None:
    for file in files:
        file.sync()


def _registration(settings: QuorumSettings, entropy: Entropy) -> RegisterControllerRecord:
    """Of this controller, in this process."""
    address, listener = settings.address, settings.listener
    place = ControllerEndpoint(
        name=listener.name, host=address.host, port=address.port, security_protocol=listener.protocol.wire_id
    )
    return RegisterControllerRecord(
        controller_id=settings.node_id,
        incarnation_id=random_id(entropy),
        zk_migration_ready=False,
        end_points=(place,),
        features=CONTROLLER_FEATURES,
    )
