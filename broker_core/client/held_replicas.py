"""The replicas of a broker that only follows: their machines and folders, under one lock.

The metadata log's thread tells them who leads and opens or drops them; the fetchers take positions and bring answers.
Effects on files are carried out under the lock, by whichever thread brought the event. A replica whose write fails
stays out until the next start.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Final

from broker_core.broker.partition.image_assignments import assignment_of
from broker_core.client.replica_folder import ReplicaFolder, put_stray_aside, read_watermarks, write_watermarks
from broker_core.client.replica_settings import ReplicaSettings
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.partition_state import PartitionState
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_defaults import KAFKAS_DEFAULTS
from broker_core.ports import Clock, FileSystem
from broker_core.replication.partition_replica import PartitionReplica
from broker_core.replication.replica_messages import PartitionId
from broker_core.replication.replication_values import (
    AdvanceLogStart,
    AskLeaderBounds,
    BrokerStanding,
    FetchPosition,
    ReplicaEffect,
    ReplicaFetchAnswer,
    ReplicationSettings,
    SaveLeaderEpoch,
    WatermarkAdvanced,
)

_log: Final = logging.getLogger(__name__)
_WATERMARK_INTERVAL_MS: Final = 5000


class HeldReplica:
    """A replica of this broker. `wanted_bounds` is the leader epoch in which its leader is to be asked for its
    bounds."""

    def __init__(self, topic_partition: TopicPartition, folder: ReplicaFolder, machine: PartitionReplica) -> None:
        self.topic_partition, self.folder, self.machine = topic_partition, folder, machine
        self.wanted_bounds: int | None = None

    @property
    def leader_id(self) -> int:
        """-1 without a leader, or if this broker leads."""
        follower = self.machine.follower
        return -1 if follower is None else follower.assignment.leader_id


class HeldReplicas:
    """Thread-safe. The caller holds the directory's lock."""

    def __init__(self, settings: ReplicaSettings, fs: FileSystem, clock: Clock) -> None:
        self._settings, self._fs, self._clock = settings, fs, clock
        self._lock = threading.RLock()
        self._held: dict[PartitionId, HeldReplica] = {}
        self._unopened: set[PartitionId] = set()
        """Those whose folder could not be opened, so that it is said once."""
        self._watermarks = read_watermarks(fs, settings.log_dir)
        self._watermarks_written_ms = clock.now_ms()
        self._standings: Mapping[int, BrokerStanding] = {}

    # The metadata log

    def learn(self, image: MetadataImage, standings: Mapping[int, BrokerStanding]) -> None:
        """What the image says of this broker's replicas."""
        with self._lock:
            self._standings = standings
            rows = list(image.partitions.held_by(self._settings.node_id))
            listed = {PartitionId(*image.partitions.partition_at(row)): row for row in rows}
            # First, since a topic may have been made again with the same name.
            for partition in self._held.keys() - listed.keys():
                self._drop(partition)
            for partition, row in listed.items():
                self._learn(image, partition, image.partitions.state_at(row))

    def leaders(self) -> set[int]:
        """The brokers that lead a replica of this one."""
        with self._lock:
            return {held.leader_id for held in self._held.values()} - {-1}

    def led_here(self) -> list[TopicPartition]:
        """The partitions that the controller wants this broker to lead."""
        with self._lock:
            return [held.topic_partition for held in self._held.values() if held.machine.leader is not None]

    def _learn(self, image: MetadataImage, partition: PartitionId, state: PartitionState) -> None:
        held = self._held.get(partition) or self._open(image, partition)
        if held is None:
            return
        self._carry_out(held, held.machine.on_assignment(assignment_of(state), self._clock.now_ms()))

    def _open(self, image: MetadataImage, partition: PartitionId) -> HeldReplica | None:
        topic = image.topic_by_id(partition.topic_id)
        assert topic is not None, f"{partition} of a topic that is not in the image"
        topic_partition = TopicPartition(topic.name, partition.number)
        config = KAFKAS_DEFAULTS.config_of(topic.configs)
        try:
            put_stray_aside(self._fs, self._settings.log_dir, topic_partition, topic_id=partition.topic_id)
            folder = ReplicaFolder(
                self._fs, self._settings.log_dir, topic_partition, topic_id=partition.topic_id, config=config
            )
            log = folder.found(self._watermarks.get(topic_partition, 0))
        except (StreamlogError, OSError) as error:
            if partition not in self._unopened:
                self._unopened.add(partition)
                _log.error("partition=%s cannot be opened: %s", topic_partition, error)
            return None
        machine = PartitionReplica(
            own_id=self._settings.node_id,
            log=log,
            standing_of=lambda broker_id: self._standings.get(broker_id),
            settings=ReplicationSettings(fetch_backoff_ms=self._settings.fetch_backoff_ms),
        )
        self._held[partition] = held = HeldReplica(topic_partition, folder, machine)
        return held

    def _drop(self, partition: PartitionId) -> None:
        """The topic was deleted, or the replica moved away."""
        held = self._held.pop(partition)
        self._watermarks.pop(held.topic_partition, None)
        try:
            held.folder.remove(self._fs)
        except OSError as error:
            _log.error("partition=%s: its folder could not be removed: %s", held.topic_partition, error)
        else:
            _log.info("partition=%s is not on this broker any more: its folder was removed", held.topic_partition)

    # Fetching

    def positions_at(self, leader_id: int) -> dict[PartitionId, FetchPosition]:
        """Where the replicas that follow the broker fetch from now."""
        positions = {}
        with self._lock:
            now_ms = self._clock.now_ms()
            self._maybe_write_watermarks(now_ms)
            for partition, held in self._held.items():
                if held.leader_id == leader_id:
                    held.machine.on_time(now_ms)
                    position = held.machine.fetch_position()
                    if position is not None:
                        positions[partition] = position
        return positions

    def on_answer(self, partition: PartitionId, position: FetchPosition, answer: ReplicaFetchAnswer) -> None:
        with self._lock:
            held = self._held.get(partition)
            if held is not None:
                self._carry_out(held, held.machine.on_answer(position, answer, self._clock.now_ms()))

    def on_no_answer(self, partition: PartitionId) -> None:
        with self._lock:
            held = self._held.get(partition)
            if held is not None:
                held.machine.on_no_answer(self._clock.now_ms())

    def wanted_bounds(self, leader_id: int) -> list[tuple[PartitionId, str, int]]:
        """(partition, topic, leader epoch) of those whose leader, that broker, is to be asked for its bounds."""
        with self._lock:
            return [
                (partition, held.topic_partition.topic, held.wanted_bounds)
                for partition, held in self._held.items()
                if held.leader_id == leader_id and held.wanted_bounds is not None
            ]

    def on_bounds(self, partition: PartitionId, leader_epoch: int, start: int | None, end: int | None) -> None:
        """None: the leader did not tell."""
        with self._lock:
            held = self._held.get(partition)
            if held is None:
                return
            held.wanted_bounds = None
            now_ms = self._clock.now_ms()
            if start is None or end is None:
                held.machine.on_no_answer(now_ms)
                return
            effects = held.machine.on_bounds(leader_epoch, log_start_offset=start, log_end_offset=end, now_ms=now_ms)
            self._carry_out(held, effects)

    # Effects

    def _carry_out(self, held: HeldReplica, effects: list[ReplicaEffect]) -> None:
        for effect in effects:
            match effect:
                case WatermarkAdvanced(high_watermark=high_watermark):
                    self._watermarks[held.topic_partition] = high_watermark
                case AskLeaderBounds(leader_epoch=leader_epoch):
                    held.wanted_bounds = leader_epoch
                case SaveLeaderEpoch():
                    pass  # this broker is about to give the leadership away, and appends nothing
                case _:
                    self._write(held, effect)

    def _write(self, held: HeldReplica, effect: ReplicaEffect) -> None:
        now_ms = self._clock.now_ms()
        try:
            end_offset = held.folder.carry_out(effect, now_ms=now_ms)
        except StreamlogError as error:
            _log.error("partition=%s is out until the next start, a write failed: %s", held.topic_partition, error)
            held.machine.on_write_failed()
            return
        if not isinstance(effect, AdvanceLogStart):
            self._carry_out(held, held.machine.on_written(now_ms, log_end_offset=end_offset))

    def _maybe_write_watermarks(self, now_ms: int) -> None:
        if now_ms - self._watermarks_written_ms >= _WATERMARK_INTERVAL_MS:
            self._watermarks_written_ms = now_ms
            write_watermarks(self._fs, self._settings.log_dir, self._watermarks)

    def close(self) -> None:
        with self._lock:
            write_watermarks(self._fs, self._settings.log_dir, self._watermarks)
            for held in self._held.values():
                held.folder.close()
