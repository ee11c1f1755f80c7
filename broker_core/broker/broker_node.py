"""One node: a log directory with its topics, replicas and coordinators. The driver (`server`, or a test) supplies
sockets, threads and time.

    node = BrokerNode(config, ports)
    node.start(on_ready, on_error)        opens, recovers and loads, through jobs
    node.on_time(now_ms), node.next_timer_ms()
    node.stop(on_done)                      flushes, writes the clean-shutdown marker, releases the directory

Everything except the jobs runs on one loop. Requests come from `handlers.dispatch`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from broker_core.broker.callback_errors import OnError
from broker_core.broker.cluster_view import ClusterView, SingleNodeView
from broker_core.broker.controller_port import ControllerPort
from broker_core.broker.coordination.coordinators import NodeCoordinators
from broker_core.broker.coordination.group_coordinators import GroupCoordinators
from broker_core.broker.coordination.transaction_coordinators import TransactionCoordinators
from broker_core.broker.coordination.transaction_peers import TransactionPeers
from broker_core.broker.node_directory import NodeDirectory
from broker_core.broker.node_quotas import NodeQuotas
from broker_core.broker.parked_fetches import ParkedFetches
from broker_core.broker.partition.append_budget import AppendBudget
from broker_core.broker.partition.replica_manager import ReplicaManager
from broker_core.broker.settings.broker_config import BrokerConfig
from broker_core.broker.settings.broker_settings import BROKER_SETTINGS
from broker_core.broker.settings.dynamic_settings import MIN_INSYNC_REPLICAS, stored_config
from broker_core.broker.settings.listener_settings import Listener
from broker_core.broker.timer_queue import TimerQueue
from broker_core.broker.topic_store import TopicStore
from broker_core.cluster import TopicDescription
from broker_core.coordinator.stored_records import load_decoder
from broker_core.fetch.fetch_session import FetchSessionCache
from broker_core.log_directory.metadata_log import MetadataLog
from broker_core.log_directory.system_ports import SYSTEM_LOCKS
from broker_core.metadata.authorizer import Authorizer
from broker_core.metadata.config_resource import ConfigResource
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.model.exceptions import InvalidConfigError, StreamlogError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.limits import MAX_OPEN_PARTITION_COUNT
from broker_core.model.topic_name import is_internal_topic
from broker_core.ports import Clock, Entropy, FileSystem, Jobs, Locks, LoopWrites

Manager = TypeVar("Manager", bound=ReplicaManager)

_SESSION_ID_BYTES: Final = 4
_SESSION_ID_MASK: Final = 2**31 - 1

_log: Final = logging.getLogger(__name__)


CheckListeners = Callable[[Sequence[Listener], Sequence[Listener]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePorts:
    """The outside world of a node. `loop_writes` None: everything is written in jobs. `answer_room_bytes`: how much
    memory is free for fetch answers; `max_open_count`: the maximum number of open partitions, see
    `model.limits.MAX_OPEN_PARTITION_COUNT`. `check_listeners(old, new)` raises InvalidConfigError for listeners that
    cannot be served: certificates, addresses. `stopwatch_ns` measures what requests take of the loop's time."""

    jobs: Jobs
    clock: Clock
    entropy: Entropy
    file_system: FileSystem
    locks: Locks = SYSTEM_LOCKS
    loop_writes: LoopWrites | None = None
    answer_room_bytes: Callable[[], int] = lambda: sys.maxsize
    max_open_count: int = MAX_OPEN_PARTITION_COUNT
    check_listeners: CheckListeners = lambda old, new: None
    stopwatch_ns: Callable[[], int] = lambda: 0


class BrokerNode:
    """See the module's docstring. The attributes below are set once the node is ready."""

    topics: TopicStore
    replicas: ReplicaManager
    groups: GroupCoordinators
    transactions: TransactionCoordinators
    authorizer: Authorizer | None
    cluster: ClusterView
    directory_path: str
    controller: ControllerPort | None = None
    """The active controller of a cluster; None: this node decides alone."""

    def __init__(self, config: BrokerConfig, ports: NodePorts) -> None:
        self.config = config
        """The current settings; replaced when dynamic settings change."""
        self._stored_settings: Mapping[str, Mapping[str, str]] = {}
        self._settings_listeners: list[Callable[[BrokerConfig], None]] = []
        self.jobs = ports.jobs
        self.clock = ports.clock
        self.entropy = ports.entropy
        self.timers = TimerQueue()
        self.fetch_sessions = FetchSessionCache(
            max_session_count=config.max_incremental_fetch_session_cache_slots, new_id=self._new_session_id
        )
        self.parked_fetches = ParkedFetches(self.timers)
        self.quotas = NodeQuotas(config)
        self.stopwatch_ns = ports.stopwatch_ns
        self._file_system = ports.file_system
        self._locks = ports.locks
        self._loop_writes = ports.loop_writes
        self._max_open_count = ports.max_open_count
        self._directory: NodeDirectory | None = None
        self._being_made: dict[str, list[Callable[[], None]]] = {}
        self.answer_room_bytes = ports.answer_room_bytes
        self.check_listeners = ports.check_listeners
        self.is_closed_cleanly = False
        """Whether `stop` flushed everything and wrote the clean-shutdown marker: the next start needs no recovery."""

    # -- start and stop --

    def start(self, on_ready: Callable[[], None], on_error: Callable[[Exception], None]) -> None:
        """`on_error` gets the directory's error: locked, not a Streamlog directory, not writable, or of another
        node."""

        def opened(found: tuple[NodeDirectory, MetadataImage]) -> None:
            directory, image = found
            self._directory = directory
            self._put_together(directory, image)
            directory.recover(self.jobs, recovered)

        def recovered(errors: Mapping[TopicPartition, StreamlogError]) -> None:
            self.replicas.start(self.clock.now_ms(), errors=errors)
            self._coordinators.start()
            self._keep_min_insync_replicas()
            on_ready()

        self.jobs.submit(self._open, opened, on_error)

    def next_timer_ms(self) -> int | None:
        """When `on_time` is due; None: no timer is set."""
        return self.timers.next_ms()

    def on_time(self, now_ms: int) -> None:
        self.timers.fire(now_ms)

    @property
    def is_full(self) -> bool:
        """Unanswered appends have reached their memory limit: the driver should read no more requests for now."""
        return self.replicas.budget.is_full

    def stop(self, on_done: Callable[[], None]) -> None:
        """Waits for queued appends. Parked requests are no longer answered."""
        directory = self._directory
        if directory is None:
            self.is_closed_cleanly = True
            on_done()
            return

        def failed(error: Exception) -> None:
            _log.error("directory=%s was not closed cleanly: %s", directory.path, error)
            on_done()

        def flushed() -> None:
            is_clean = self.replicas.is_flushed

            def closed(_: None) -> None:
                self.is_closed_cleanly = is_clean
                on_done()

            self.jobs.submit(lambda: directory.close(is_clean=is_clean), closed, failed)

        self.replicas.stop(flushed)

    def abandon(self) -> None:
        """Closes files and releases the directory without a flush or a marker: the next start recovers. Blocks."""
        if self._directory is not None:
            self.replicas.abandon()
            self._directory.close(is_clean=False)

    # -- operations for handlers --

    def forget_client(self, connection_id: int) -> None:
        """The connection was closed: its parked fetches need no answer any more."""
        self.parked_fetches.forget_client(connection_id)

    def throttle_ms_of(self, address: str, now_ms: int) -> int:
        """A new connection: 0, or the address opens them too fast."""
        return self.quotas.connections.on_connection(address, now_ms)

    def make_topic_automatically(self, name: str, when_over: Callable[[], None] | None = None) -> None:
        """Starts creating the topic, unless that is in progress. `when_over` is called after success and after failure:
        the image shows which."""
        callbacks = [] if when_over is None else [when_over]
        if name in self._being_made:
            self._being_made[name] += callbacks
            return
        self._being_made[name] = callbacks

        def over() -> None:
            for callback in self._being_made.pop(name):
                callback()

        def made(topic: TopicDescription) -> None:
            over()

        def refused(error: StreamlogError) -> None:
            _log.warning("topic=%s: auto-creation failed: %s", name, error)
            over()

        self._coordinators.make_topic(name, partition_count=self.config.num_partitions, on_reply=made, on_error=refused)

    def delete_topic(
        self, topic: TopicDescription, *, on_reply: Callable[[TopicDescription], None], on_error: OnError
    ) -> None:
        self._coordinators.delete_topic(topic, on_reply=on_reply, on_error=on_error)

    def on_settings(self, callback: Callable[[BrokerConfig], None]) -> None:
        """Called on the loop with the current settings, once after each dynamic change, even of no value, and at the
        start if there are stored changes."""
        self._settings_listeners.append(callback)

    def announce_settings(self) -> None:
        """Settings were changed, or set to the values that they have: a file that one names may be another one."""
        for listener in self._settings_listeners:
            listener(self.config)

    # -- assembly --

    def _open(self) -> tuple[NodeDirectory, MetadataImage]:
        """Runs in a job."""
        directory = NodeDirectory.open(
            self._file_system,
            self.config.log_dir,
            self.clock,
            self.entropy,
            node_id=self.config.node_id,
            topic_defaults=lambda: self.config.topic_defaults,
            max_open_count=self._max_open_count,
            locks=self._locks,
        )
        try:
            if directory.properties.node_id != self.config.node_id:
                raise InvalidConfigError(
                    f"node.id={self.config.node_id}, but the log in {directory.path} belongs to node"
                    f" {directory.properties.node_id} (meta.properties): change node.id, or set log.dirs to"
                    " another directory"
                )
            # The loop has an image of its own: only the loop replays records to it.
            reading = MetadataLog(self._file_system, directory.directory, self.clock)
            reading.refresh()
            reading.close()
            if any(map(is_internal_topic, reading.image.topics)):
                # Before the first client connects, to keep loading short: while a coordinator is loading, some clients
                # take offsets as not committed (aiokafka ignores the error).
                load_decoder()
        except BaseException:
            directory.close(is_clean=directory.was_clean)
            raise
        return directory, reading.image

    def _put_together(self, directory: NodeDirectory, image: MetadataImage) -> None:
        self._learn_settings(image)
        config = self.config
        self.directory_path = directory.path
        self.topics = self._new_topics(directory, image)
        # The first listener of the image: the other listeners need the current settings.
        self.topics.on_change(lambda: self._learn_settings(self.topics.image))
        self.topics.on_change(lambda: self.quotas.learn(self.topics.image.client_quotas))
        self.quotas.learn(image.client_quotas)
        self.replicas = self._new_replicas(directory)
        self.replicas.on_advance(self.parked_fetches.wake)
        self.cluster = self._new_view(directory)
        self._coordinators = NodeCoordinators(
            lambda: self.config,
            self.topics,
            self.replicas,
            self.jobs,
            self.timers,
            self.clock,
            self.entropy,
            self._new_peers(),
        )
        self.groups = self._coordinators.groups
        self.transactions = self._coordinators.transactions
        self.authorizer = config.access.authorizer(lambda: self.topics.image.access_control)

    def _new_topics(self, directory: NodeDirectory, image: MetadataImage) -> TopicStore:
        return TopicStore(
            image,
            directory.metadata_log,
            directory.folders,
            self.jobs,
            self.entropy,
            topic_defaults=lambda: self.config.topic_defaults,
        )

    def _new_replicas(self, directory: NodeDirectory) -> ReplicaManager:
        return self._assemble_replicas(directory, ReplicaManager)

    def _assemble_replicas(self, directory: NodeDirectory, kind: type[Manager]) -> Manager:
        config = self.config
        return kind(
            directory,
            self.topics,
            self.jobs,
            self.timers,
            self.clock,
            self.entropy,
            retention_check_interval_ms=config.log_retention_check_interval_ms,
            compaction_memory_bytes=lambda: self.config.log_cleaner_dedupe_buffer_size,
            is_cleaner_enabled=config.log_cleaner_enable,
            budget=_append_budget(config),
            pinned_offset=self._pinned_offset,
            loop_writes=self._loop_writes,
        )

    def _pinned_offset(self, partition: TopicPartition) -> int | None:
        return self._coordinators.pinned_offset(partition)

    def _new_view(self, directory: NodeDirectory) -> ClusterView:
        return SingleNodeView(
            cluster_id=directory.properties.cluster_id,
            node_id=self.config.node_id,
            endpoints=lambda: self.config.endpoints,
            rack=self.config.broker_rack,
            is_offline=self.replicas.is_offline,
        )

    def _new_peers(self) -> TransactionPeers | None:
        return None

    def _learn_settings(self, image: MetadataImage) -> None:
        if image.broker_configs is self._stored_settings:
            return
        self._stored_settings = image.broker_configs
        self.config = stored_config(self.config, self._stored_settings)
        self.announce_settings()

    def _keep_min_insync_replicas(self) -> None:
        """Stores the value at the first start, as Kafka does; from then on the file's value is ignored (KIP-966)."""
        if MIN_INSYNC_REPLICAS in self._stored_settings.get("", {}):
            return
        given = self.config.layers.of_file.get(MIN_INSYNC_REPLICAS, BROKER_SETTINGS[MIN_INSYNC_REPLICAS].default or "")

        def failed(error: StreamlogError) -> None:
            _log.warning("%s could not be stored: %s", MIN_INSYNC_REPLICAS, error)

        self.topics.change(
            lambda controller: controller.plan_alter_configs(
                ConfigResource.BROKER, "", {MIN_INSYNC_REPLICAS: given.strip()}
            ),
            lambda _: None,
            failed,
        )

    def _new_session_id(self) -> int:
        return int.from_bytes(self.entropy.random_bytes(_SESSION_ID_BYTES), "big") & _SESSION_ID_MASK


def _append_budget(config: BrokerConfig) -> AppendBudget:
    if config.queued_max_request_bytes < 0:
        return AppendBudget()
    return AppendBudget(max_queued_bytes=config.queued_max_request_bytes)
