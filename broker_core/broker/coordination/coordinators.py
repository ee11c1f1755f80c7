"""The coordinators of one node, for groups and transactions, each with its internal topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from broker_core.broker.callback_errors import OnError
from broker_core.broker.coordination.coordinator_runtime import CoordinatorRuntime
from broker_core.broker.coordination.group_service import GroupService, member_id_source
from broker_core.broker.coordination.internal_topic import InternalTopic
from broker_core.broker.coordination.marker_sender import MarkerSender
from broker_core.broker.coordination.producer_id_pool import ProducerIdPool
from broker_core.broker.coordination.transaction_peers import TransactionPeers
from broker_core.broker.coordination.transaction_service import TransactionService
from broker_core.broker.partition.replica_manager import ReplicaManager
from broker_core.broker.settings.broker_config import BrokerConfig
from broker_core.broker.settings.group_config import group_number
from broker_core.broker.timer_queue import TimerQueue
from broker_core.broker.topic_store import TopicStore
from broker_core.cluster import TopicDescription
from broker_core.group.consumer.consumer_groups import ConsumerGroups
from broker_core.group.consumer.consumer_settings import ConsumerGroupSettings
from broker_core.group.group_coordinator import GroupCoordinator
from broker_core.group.group_log import groups_kind
from broker_core.group.group_settings import GroupSettings
from broker_core.group.topic_view import TopicFacts
from broker_core.log_directory.internal_topics import (
    CONSUMER_OFFSETS_PARTITION,
    INTERNAL_TOPIC_CONFIGS,
    TRANSACTION_STATE_PARTITION,
)
from broker_core.metadata.config_resource import ConfigResource
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_name import is_internal_topic
from broker_core.ports import Clock, Entropy, Jobs
from broker_core.txn.transaction_coordinator import TransactionCoordinator
from broker_core.txn.transaction_log import require_none_open, transactions_kind

_MS_PER_MINUTE = 60_000


class NodeCoordinators:
    """The coordinators of a node with open topics and replicas; `start` loads both from their logs."""

    def __init__(
        self,
        config_now: Callable[[], BrokerConfig],
        topics: TopicStore,
        replicas: ReplicaManager,
        jobs: Jobs,
        timers: TimerQueue,
        clock: Clock,
        entropy: Entropy,
        peers: TransactionPeers | None = None,
    ) -> None:
        config = config_now()
        self._config_now = config_now
        self._topics = topics
        self._replicas = replicas
        self._clock = clock
        self._new_id = member_id_source(entropy)
        self._group_runtime = CoordinatorRuntime(
            groups_kind(CONSUMER_OFFSETS_PARTITION, self._new_group_coordinator),
            InternalTopic(CONSUMER_OFFSETS_PARTITION, topics, replicas),
            jobs,
            timers,
            clock,
        )
        self._transaction_runtime = CoordinatorRuntime(
            transactions_kind(
                TRANSACTION_STATE_PARTITION,
                lambda: TransactionCoordinator(
                    coordinator_epoch=self._coordinator_epoch(),
                    longest_timeout_ms=config.transaction_max_timeout_ms,
                    id_expiration_ms=config.transactional_id_expiration_ms,
                ),
            ),
            InternalTopic(TRANSACTION_STATE_PARTITION, topics, replicas),
            jobs,
            timers,
            clock,
        )
        self.groups = GroupService(
            self._group_runtime, timers, clock, expiry_interval_ms=config.offsets_retention_check_interval_ms
        )
        self._markers = MarkerSender(replicas, self._group_runtime, timers, clock, peers)
        self.transactions = TransactionService(
            self._transaction_runtime,
            self._markers,
            ProducerIdPool(topics),
            timers,
            clock,
            expiry_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            forgetting_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
            peers=peers,
        )
        topics.on_change(self._topics_changed)

    def start(self) -> None:
        self._group_runtime.load()
        self._transaction_runtime.load()
        self.groups.start()

    def on_role(self, partition: TopicPartition) -> None:
        """The partition is led or followed here in a new epoch: its coordinator begins or ends."""
        if partition == CONSUMER_OFFSETS_PARTITION:
            self._group_runtime.change_role()
            self.groups.check()
        elif partition == TRANSACTION_STATE_PARTITION:
            self._markers.forget_all()
            self._transaction_runtime.change_role()

    def _coordinator_epoch(self) -> int:
        """The leader epoch of `__transaction_state`: markers of an earlier coordinator are refused by it."""
        try:
            return self._replicas.get(TRANSACTION_STATE_PARTITION).leader_epoch
        except StreamlogError:
            return 0  # not created yet, or led by another broker, which has the coordinator

    def pinned_offset(self, partition: TopicPartition) -> int | None:
        """The lowest offset that a group has asked to keep. 0, so all records, until the coordinator is loaded."""
        now_ms = self._clock.now_ms()

        def pinned(coordinator: GroupCoordinator) -> int | None:
            return coordinator.offsets.pinned_offset(partition, now_ms)

        unknown: int | None = 0
        return self._group_runtime.peek(pinned, unknown)

    def make_topic(
        self,
        name: str,
        *,
        partition_count: int,
        on_reply: Callable[[TopicDescription], None],
        on_error: OnError,
    ) -> None:
        """Creates a topic for a client; an internal topic is created as its coordinator would create it."""
        is_internal = is_internal_topic(name)
        self._topics.create_topic(
            name,
            partition_count=1 if is_internal else partition_count,
            configs=INTERNAL_TOPIC_CONFIGS if is_internal else {},
            on_reply=on_reply,
            on_error=on_error,
        )

    def delete_topic(
        self, topic: TopicDescription, *, on_reply: Callable[[TopicDescription], None], on_error: OnError
    ) -> None:
        """Deletes a topic for a client, with the committed offsets of groups in it; an internal topic with all that
        its coordinator knows. `on_error` gets PolicyViolationError for `__transaction_state` while a transaction is
        open."""

        def deleted(description: TopicDescription) -> None:
            self.groups.forget_topic(description.name, topic_id=description.topic_id)
            on_reply(description)

        if topic.name != TRANSACTION_STATE_PARTITION.topic:
            self._topics.delete_topic(topic.name, on_reply=deleted, on_error=on_error)
            return

        def released() -> None:
            self._topics.delete_topic(topic.name, on_reply=deleted, on_error=kept)

        def kept(error: StreamlogError) -> None:
            self._transaction_runtime.load()
            on_error(error)

        self._transaction_runtime.release_topic(require_none_open, released, on_error)

    def _topics_changed(self) -> None:
        self._group_runtime.topic_changed()
        self._transaction_runtime.topic_changed()
        self.groups.topics_changed()

    def _new_group_coordinator(self) -> GroupCoordinator:
        config = self._config_now()
        coordinator = GroupCoordinator(
            GroupSettings(
                min_session_timeout_ms=config.group_min_session_timeout_ms,
                max_session_timeout_ms=config.group_max_session_timeout_ms,
                max_size=config.group_max_size,
                initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
                max_offset_metadata_bytes=config.offset_metadata_max_bytes,
                offsets_retention_ms=config.offsets_retention_minutes * _MS_PER_MINUTE,
            ),
            new_id=self._new_id,
            topic_id_of=self._topic_id_of,
        )
        if "consumer" in config.group_coordinator_rebalance_protocols:
            coordinator.consumer_groups = ConsumerGroups(
                _consumer_group_settings(config, {}),
                settings_of=self._settings_of_group,
                topics=self._topic_facts,
                classic_groups=coordinator.classic_groups,
                new_id=self._new_id,
            )
        return coordinator

    def _settings_of_group(self, group_id: str) -> ConsumerGroupSettings:
        configs = self._topics.image.configs_of(ConfigResource.GROUP, group_id)
        return _consumer_group_settings(self._config_now(), configs)

    def _topic_id_of(self, name: str) -> UUID | None:
        topic = self._topics.image.topics.get(name)
        return None if topic is None else topic.topic_id

    def _topic_facts(self) -> Mapping[str, TopicFacts]:
        return {
            name: TopicFacts(topic.topic_id, topic.partition_count) for name, topic in self._topics.image.topics.items()
        }


def _consumer_group_settings(config: BrokerConfig, configs: Mapping[str, str]) -> ConsumerGroupSettings:
    """`configs`: the group's own settings."""
    return ConsumerGroupSettings(
        session_timeout_ms=group_number("consumer.session.timeout.ms", configs, config),
        heartbeat_interval_ms=group_number("consumer.heartbeat.interval.ms", configs, config),
        max_size=config.group_consumer_max_size,
        max_classic_size=config.group_max_size,
        assignors=config.group_consumer_assignors,
        assignment_interval_ms=group_number("consumer.assignment.interval.ms", configs, config),
        is_upgrade_enabled=config.group_consumer_migration_policy in ("upgrade", "bidirectional"),
        is_downgrade_enabled=config.group_consumer_migration_policy in ("downgrade", "bidirectional"),
    )
