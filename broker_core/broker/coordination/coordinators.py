"""The coordinators of one node, for groups and transactions: one for each partition of their internal topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from broker_core.broker.callback_errors import OnError
from broker_core.broker.coordination.coordinator_partitions import CoordinatorPart, CoordinatorPartitions
from broker_core.broker.coordination.coordinator_runtime import CoordinatorRuntime
from broker_core.broker.coordination.group_coordinators import GroupCoordinators, GroupPart
from broker_core.broker.coordination.group_service import GroupService, member_id_source
from broker_core.broker.coordination.internal_topic import InternalTopic
from broker_core.broker.coordination.marker_sender import MarkerSender
from broker_core.broker.coordination.node_markers import NodeMarkers
from broker_core.broker.coordination.producer_id_pool import ProducerIdPool
from broker_core.broker.coordination.transaction_coordinators import TransactionCoordinators, TransactionPart
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
from broker_core.group.topic_view import TopicFacts, TopicView
from broker_core.metadata.config_resource import ConfigResource
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_name import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from broker_core.ports import Clock, Entropy, Jobs
from broker_core.txn.transaction_coordinator import TransactionCoordinator
from broker_core.txn.transaction_log import require_none_open, transactions_kind

_MS_PER_MINUTE = 60_000


class NodeCoordinators:
    """The coordinators of a node with open topics and replicas."""

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
        self._config_now = config_now
        self._topics = topics
        self._replicas = replicas
        self._jobs, self._timers, self._clock = jobs, timers, clock
        self._is_started = False
        self._new_id = member_id_source(entropy)
        self._topic_view = TopicView(self._topic_facts)
        self._producer_ids = ProducerIdPool(topics)
        self.groups = GroupCoordinators(CoordinatorPartitions(CONSUMER_OFFSETS_TOPIC, topics, self._new_group_part))
        self._markers = NodeMarkers(replicas, self.groups, clock, peers)
        self.transactions = TransactionCoordinators(
            CoordinatorPartitions(TRANSACTION_STATE_TOPIC, topics, self._new_transaction_part),
            self._markers,
            self._producer_ids,
            peers,
        )
        topics.on_change(self._topics_changed)

    def start(self) -> None:
        """In a cluster a coordinator begins with the leadership of its partition; a node alone leads all."""
        if not self._topics.is_shared:
            self._is_started = True
            self._load_all()

    def _load_all(self) -> None:
        self.groups.partitions.load_all()
        self.transactions.partitions.load_all()

    def on_role(self, partition: TopicPartition) -> None:
        """The partition is led or followed here in a new epoch: its coordinator begins or ends."""
        if partition.topic == CONSUMER_OFFSETS_TOPIC:
            self.groups.partitions.on_role(partition)
        elif partition.topic == TRANSACTION_STATE_TOPIC:
            self.transactions.partitions.on_role(partition)

    def _new_group_part(self, partition: TopicPartition) -> GroupPart:
        runtime = CoordinatorRuntime(
            groups_kind(partition, self._new_group_coordinator),
            InternalTopic(partition, self._topics, self._replicas),
            self._jobs,
            self._timers,
            self._clock,
        )
        service = GroupService(
            runtime,
            self._timers,
            self._clock,
            expiry_interval_ms=self._config_now().offsets_retention_check_interval_ms,
            number=partition.partition,
        )
        return CoordinatorPart(partition=partition, runtime=runtime, service=service)

    def _new_transaction_part(self, partition: TopicPartition) -> TransactionPart:
        runtime = CoordinatorRuntime(
            transactions_kind(partition, lambda: self._new_transaction_coordinator(partition)),
            InternalTopic(partition, self._topics, self._replicas),
            self._jobs,
            self._timers,
            self._clock,
        )
        config = self._config_now()
        service = TransactionService(
            runtime,
            MarkerSender(self._replicas, self._markers, self._timers, self._clock),
            self._producer_ids,
            self._timers,
            self._clock,
            expiry_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            forgetting_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
            number=partition.partition,
        )
        return CoordinatorPart(partition=partition, runtime=runtime, service=service)

    def _new_transaction_coordinator(self, partition: TopicPartition) -> TransactionCoordinator:
        config = self._config_now()
        return TransactionCoordinator(
            coordinator_epoch=self._leader_epoch(partition),
            longest_timeout_ms=config.transaction_max_timeout_ms,
            id_expiration_ms=config.transactional_id_expiration_ms,
        )

    def _leader_epoch(self, partition: TopicPartition) -> int:
        """Markers of an earlier coordinator are refused by it."""
        try:
            return self._replicas.get(partition).leader_epoch
        except StreamlogError:
            return 0  # not created yet

    def pinned_offset(self, partition: TopicPartition) -> int | None:
        return self.groups.pinned_offset(partition, self._clock.now_ms())

    def make_topic(
        self,
        name: str,
        *,
        partition_count: int,
        on_reply: Callable[[TopicDescription], None],
        on_error: OnError,
    ) -> None:
        """Creates a topic for a client; an internal topic is created as its coordinator would create it."""
        if name in (CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC):
            self._topics.make_internal_topic(name, on_reply=on_reply, on_error=on_error)
        else:
            self._topics.create_topic(
                name, partition_count=partition_count, configs={}, on_reply=on_reply, on_error=on_error
            )

    def delete_topic(
        self, topic: TopicDescription, *, on_reply: Callable[[TopicDescription], None], on_error: OnError
    ) -> None:
        """Deletes a topic for a client; an internal topic with all that its coordinators know. `on_error` gets
        PolicyViolationError for `__transaction_state` while a transaction is open."""
        if topic.name != TRANSACTION_STATE_TOPIC:
            self._topics.delete_topic(topic.name, on_reply=on_reply, on_error=on_error)
            return

        def released() -> None:
            self._topics.delete_topic(topic.name, on_reply=on_reply, on_error=kept)

        def kept(error: StreamlogError) -> None:
            self.transactions.reload()
            on_error(error)

        self.transactions.release_topic(require_none_open, released, on_error)

    def _topics_changed(self) -> None:
        self.groups.partitions.topic_changed()
        self.transactions.partitions.topic_changed()
        if self._is_started:
            self._load_all()  # an internal topic may have more partitions now
        before = self._topic_view.facts
        if not self._topic_view.refresh():
            return
        now = self._topic_view.facts
        for name, facts in before.items():
            if name not in now or now[name].topic_id != facts.topic_id:
                self.groups.forget_topic(name, topic_id=facts.topic_id)
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
                topics=self._topic_view,
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
