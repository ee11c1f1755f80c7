"""The replicas of a broker of a cluster: those that the metadata log assigns to it, led or followed.

learn(image)      assigned: opened and told who leads; not assigned any more: dropped, and its folder removed
get(partition)    for clients: only partitions that this broker leads; get_readable: or follows
positions_at(n)   for the fetcher of broker n: where the replicas that follow it stand
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.broker.cluster.isr_proposals import IsrProposals
from broker_core.broker.controller_port import ControllerPort
from broker_core.broker.partition.image_assignments import assignment_of, standings_of
from broker_core.broker.partition.replica import Replica
from broker_core.broker.partition.replica_manager import ReplicaManager
from broker_core.broker.partition.replicated_replica import ReplicatedReplica
from broker_core.broker.partition.replication_services import ReplicationServices
from broker_core.broker.timer_queue import TimerQueue
from broker_core.cluster import TopicDescription
from broker_core.log_directory.replica_folders import ReplicaFolders
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.partition_table import PartitionTable
from broker_core.model.exceptions import ReplicaError, StreamlogError
from broker_core.model.identifiers import TopicPartition
from broker_core.ports import Clock
from broker_core.replication.replica_messages import PartitionId
from broker_core.replication.replication_values import (
    BrokerStanding,
    FetchPosition,
    IsrAnswer,
    MemberProposal,
    ReplicaFetchAnswer,
    ReplicationSettings,
)
from broker_core.storage.checkpoints import WATERMARK_FILE_NAME, read_offset_checkpoint, write_offset_checkpoint

_WATERMARK_INTERVAL_MS: Final = 5000
_log: Final = logging.getLogger(__name__)


class ClusterReplicas(ReplicaManager):
    """`join` comes before `learn`."""

    def join(
        self,
        folders: ReplicaFolders,
        controller: ControllerPort,
        settings: ReplicationSettings,
        timers: TimerQueue,
        clock: Clock,
        *,
        own_id: int,
        broker_epoch: Callable[[], int],
        on_role: Callable[[TopicPartition], None],
        on_follow: Callable[[int], None],
    ) -> None:
        self._folders = folders
        self._timers, self._clock = timers, clock
        self._own_id = own_id
        self._lag_check_ms = settings.max_lag_ms // 4
        self._held: dict[PartitionId, ReplicatedReplica] = {}
        self._known_epochs: dict[PartitionId, tuple[int, int]] = {}
        self._seen: tuple[PartitionTable | None, int] = (None, -1)
        """The table that was learned last, and how often it had been changed."""
        self._standings: Mapping[int, BrokerStanding] = {}
        self._watermarks = read_offset_checkpoint(self._directory.fs, self._watermark_path)
        self._broker_epoch = broker_epoch
        self.is_caught_up = False
        """Whether this process's registration was in an image that was learned."""
        self._has_looked_for_strays = False
        self._leaving: set[PartitionId] = set()
        """Their folders are being removed: one that comes back is opened when that is over."""
        self._proposals = IsrProposals(
            controller,
            self._timers,
            self._clock,
            own_id=own_id,
            broker_epoch=broker_epoch,
            on_answer=self._on_isr_answer,
        )
        self._replication = ReplicationServices(
            own_id=own_id,
            settings=settings,
            standing_of=lambda broker_id: self._standings.get(broker_id),
            watermark_of=lambda partition: self._watermarks.get(partition, 0),
            has_folder=lambda partition: self._directory.fs.exists(folders.path_of(partition)),
            propose=self._proposals.propose,
            on_role=on_role,
            on_follow=on_follow,
        )
        now_ms = self._clock.now_ms()
        self._timers.set("replica lag", now_ms + self._lag_check_ms, self._check_lag)
        self._timers.set("watermarks", now_ms + _WATERMARK_INTERVAL_MS, self._save_watermarks)

    # -- the metadata log --

    def learn(self, image: MetadataImage) -> None:
        """What the image says of this broker's replicas, and of the brokers.

        Nothing is learned before this process's own registration is in the image: an older one has leaders of the past,
        and may lack topics whose folders are here.
        """
        if not self.is_caught_up:
            own = image.registrations.brokers.get(self._own_id)
            if own is None or own.broker_epoch != self._broker_epoch():
                return
            self.is_caught_up = True
        standings = standings_of(image)
        has_new_standings, self._standings = standings != self._standings, standings
        table = image.partitions
        seen, change_count = self._seen
        if seen is not table or change_count != table.change_count:
            self._seen = (table, table.change_count)
            self._learn_assignments(image)
        if has_new_standings:
            for replica in list(self._held.values()):
                replica.on_standings()

    def _learn_assignments(self, image: MetadataImage) -> None:
        table = image.partitions
        listed = {PartitionId(*table.partition_at(row)): row for row in table.held_by(self._own_id)}
        # First, since a topic may have been made again with the same name.
        for partition_id in self._held.keys() - listed.keys():
            self._give_up(partition_id, is_deleted=image.topic_by_id(partition_id.topic_id) is None)
        for partition_id, row in listed.items():
            state = table.state_at(row)
            epochs = (state.leader_epoch, state.partition_epoch)
            if self._known_epochs.get(partition_id) == epochs or partition_id in self._leaving:
                continue
            self._known_epochs[partition_id] = epochs
            topic = image.topic_by_id(partition_id.topic_id)
            assert topic is not None, f"{partition_id} of a topic that is not in the image"
            self._held_replica(partition_id, topic).assign(assignment_of(state))
        if not self._has_looked_for_strays:
            self._has_looked_for_strays = True
            held = {(each.topic_id, each.number) for each in listed}
            self._in_job(lambda: self._folders.put_strays_aside(held), "stray folders")

    def _held_replica(self, partition_id: PartitionId, topic: TopicDescription) -> ReplicatedReplica:
        replica = self._held.get(partition_id)
        if replica is None:
            partition = TopicPartition(topic.name, partition_id.number)
            made = self._make(partition)
            assert isinstance(made, ReplicatedReplica)
            replica = self._held[partition_id] = made
        return replica

    def _give_up(self, partition_id: PartitionId, *, is_deleted: bool) -> None:
        """The topic was deleted, or the replica moved away."""
        replica = self._held.pop(partition_id)
        self._known_epochs.pop(partition_id, None)
        partition = replica.topic_partition
        self._watermarks.pop(partition, None)
        if self._replicas.get(partition) is replica:
            del self._replicas[partition]
            replica.leave(is_deleted=is_deleted)
        access, folders = self._directory.access, self._folders
        self._leaving.add(partition_id)

        def remove() -> None:
            access.drop_topic(partition.topic)
            folders.remove_replica(partition, partition_id.topic_id)

        def removed() -> None:
            self._leaving.discard(partition_id)
            self._learn_assignments(self._topics.image)

        # A write under way would make the folder again.
        replica.when_idle(lambda: self._in_job(remove, f"the folder of {partition}", removed))

    def _in_job(self, work: Callable[[], None], what: str, on_over: Callable[[], None] = lambda: None) -> None:
        def failed(error: Exception) -> None:
            _log.error("%s could not be removed: %s", what, error)
            on_over()

        self._jobs.submit(work, lambda _: on_over(), failed)

    def _new_replica(self, partition: TopicPartition, topic: TopicDescription) -> Replica:
        return ReplicatedReplica(partition, topic, self._services, self._replication)

    # -- for clients --

    def get(self, partition: TopicPartition) -> Replica:
        """Raises ReplicaError, too: another broker leads the partition."""
        replica = self._replica_here(partition)
        replica.require_leader()
        return replica

    def get_readable(self, partition: TopicPartition) -> Replica:
        """One that follows, too."""
        replica = self._replica_here(partition)
        replica.require_role()
        return replica

    def _replica_here(self, partition: TopicPartition) -> ReplicatedReplica:
        replica = self._replicas.get(partition)
        if replica is None:
            self._topic_of(partition)
            raise ReplicaError(
                f"{partition}: this broker has no replica of the partition",
                error_code=ErrorCode.not_leader_or_follower,
            )
        if replica.error is not None:
            raise replica.error
        assert isinstance(replica, ReplicatedReplica)
        return replica

    def _partitions(self) -> list[TopicPartition]:
        """Those that are here."""
        return list(self._replicas)

    def _stable_until(self, partition: TopicPartition) -> int | None:
        """What is not committed may be truncated: it must not have replaced older records of its keys."""
        replica = self._replicas.get(partition)
        return None if replica is None else replica.bounds.last_stable_offset

    def high_watermark_of(self, partition: TopicPartition) -> int | None:
        replica = self._replicas.get(partition)
        return replica.high_watermark if isinstance(replica, ReplicatedReplica) else None

    # -- for fetchers --

    def leaders(self) -> set[int]:
        """The brokers that lead a replica of this one."""
        return {replica.followed_leader_id for replica in self._held.values()} - {-1}

    def positions_at(self, leader_id: int) -> dict[PartitionId, FetchPosition]:
        """Where the replicas that follow the broker fetch from now."""
        positions = {}
        for partition_id, replica in self._held.items():
            if replica.followed_leader_id == leader_id and replica.error is None:
                replica.on_time()
                position = replica.fetch_position()
                if position is not None:
                    positions[partition_id] = position
        return positions

    def is_writing(self, leader_id: int) -> bool:
        """Whether a replica that follows the broker writes what it fetched: the next fetch is for all together."""
        return any(replica.is_writing for replica in self._held.values() if replica.followed_leader_id == leader_id)

    def wanted_bounds(self, leader_id: int) -> list[tuple[PartitionId, str, int]]:
        """(partition, topic, leader epoch) of those whose leader, that broker, is to be asked for its bounds."""
        return [
            (partition_id, replica.topic_partition.topic, replica.wanted_bounds)
            for partition_id, replica in self._held.items()
            if replica.followed_leader_id == leader_id and replica.wanted_bounds is not None
        ]

    def on_answer(self, partition_id: PartitionId, position: FetchPosition, answer: ReplicaFetchAnswer) -> None:
        replica = self._held.get(partition_id)
        if replica is not None:
            replica.on_answer(position, answer)

    def on_no_answer(self, partition_id: PartitionId) -> None:
        replica = self._held.get(partition_id)
        if replica is not None:
            replica.on_no_answer()

    def on_bounds(self, partition_id: PartitionId, leader_epoch: int, start: int | None, end: int | None) -> None:
        """None: the leader did not tell."""
        replica = self._held.get(partition_id)
        if replica is not None:
            replica.on_bounds(leader_epoch, start, end)

    # -- the controller, time --

    def _on_isr_answer(self, partition_id: PartitionId, proposal: MemberProposal, answer: IsrAnswer) -> None:
        replica = self._held.get(partition_id)
        if replica is not None:
            replica.on_isr_answer(proposal, answer)

    def _check_lag(self, now_ms: int) -> None:
        self._timers.set("replica lag", now_ms + self._lag_check_ms, self._check_lag)
        for replica in list(self._held.values()):
            if replica.is_leader:
                replica.on_time()
            elif replica.error is not None:
                replica.maybe_reopen()

    @property
    def _watermark_path(self) -> str:
        return f"{self._directory.path}/{WATERMARK_FILE_NAME}"

    def _save_watermarks(self, now_ms: int) -> None:
        self._timers.set("watermarks", now_ms + _WATERMARK_INTERVAL_MS, self._save_watermarks)
        watermarks = self._watermarks_now()
        if watermarks != self._watermarks:
            self._watermarks = watermarks
            self._jobs.submit(lambda: self._write_watermarks(watermarks), lambda _: None, _log_unwritten)

    def _watermarks_now(self) -> dict[TopicPartition, int]:
        """Of a replica that is not open yet, as it was."""
        return {
            replica.topic_partition: replica.high_watermark
            if replica.is_found
            else self._watermarks.get(replica.topic_partition, 0)
            for replica in self._held.values()
        }

    def _write_watermarks(self, watermarks: Mapping[TopicPartition, int]) -> None:
        write_offset_checkpoint(self._directory.fs, self._watermark_path, watermarks)

    def stop(self, on_done: Callable[[], None]) -> None:
        watermarks = self._watermarks_now()
        for key in ("replica lag", "watermarks"):
            self._timers.cancel(key)

        def over() -> None:
            self._jobs.submit(lambda: self._write_watermarks(watermarks), lambda _: on_done(), failed)

        def failed(error: Exception) -> None:
            _log_unwritten(error)
            on_done()

        super().stop(over)


def _log_unwritten(error: Exception) -> None:
    known = error if isinstance(error, StreamlogError) else repr(error)
    _log.warning("the high watermarks could not be written: %s", known)
