"""What decisions need to know of the cluster, read from the image of its metadata: live brokers, settings of topics.

Settings of topics are looked up as Kafka's controller does it: the topic's, then the default of all brokers ("" in the
log), then what the controller itself was started with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from broker_core.controller.partition_change import ChangeRules
from broker_core.metadata.config_resource import ConfigResource
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_version import ELIGIBLE_LEADERS_FEATURE, METADATA_VERSION_LEVEL
from broker_core.metadata.partition_state import PartitionState
from broker_core.quota.sampled_rate import QuotaWindow

MIGRATING_DIRECTORY: Final = UUID(int=0)
UNASSIGNED_DIRECTORY: Final = UUID(int=1)
LOST_DIRECTORY: Final = UUID(int=2)

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
_UNCLEAN: Final = "unclean.leader.election.enable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDefaults:
    """What a controller was started with; Kafka's names and defaults."""

    partition_count: int = 1
    replication_factor: int = 1
    min_insync_replicas: int = 1
    is_unclean_allowed: bool = False
    session_timeout_ms: int = 9_000
    """A broker that does not send a heartbeat for so long is fenced."""
    mutation_window: QuotaWindow = field(default_factory=QuotaWindow)
    """Of `controller_mutation_rate`."""
    kraft_version: int = 0
    """The quorum's; it is not in the metadata."""


class ClusterFacts:
    """Reads `image` as it is at each call."""

    def __init__(self, image: MetadataImage, defaults: ClusterDefaults) -> None:
        self.image = image
        self.defaults = defaults

    @property
    def level(self) -> int:
        found = self.image.metadata_version
        return METADATA_VERSION_LEVEL if found is None else found

    @property
    def has_eligible_leaders(self) -> bool:
        return self.image.features.get(ELIGIBLE_LEADERS_FEATURE, 0) > 0

    def is_active(self, broker_id: int) -> bool:
        """Registered, not fenced, not on its way out."""
        broker = self.image.registrations.brokers.get(broker_id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

    def may_lead(self, state: PartitionState, broker_id: int) -> bool:
        """Active, and the directory of its replica is online."""
        return self.is_active(broker_id) and self.has_online_directory(state, broker_id)

    def has_online_directory(self, state: PartitionState, broker_id: int) -> bool:
        broker = self.image.registrations.brokers.get(broker_id)
        if broker is None or broker_id not in state.replicas:
            return False
        directory = state.directories[state.replicas.index(broker_id)]
        if directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY) or not broker.log_dirs:
            return True
        return directory in broker.log_dirs

    def default_directory(self, broker_id: int) -> UUID:
        """That of a new replica: the only one of its broker, else the broker chooses."""
        broker = self.image.registrations.brokers.get(broker_id)
        log_dirs = () if broker is None else broker.log_dirs
        return log_dirs[0] if len(log_dirs) == 1 else UNASSIGNED_DIRECTORY

    def min_insync_replicas(self, topic: str) -> int:
        found = self._setting(topic, MIN_INSYNC_REPLICAS)
        return self.defaults.min_insync_replicas if found is None else int(found)

    def is_unclean_allowed(self, topic: str) -> bool:
        found = self._setting(topic, _UNCLEAN)
        return self.defaults.is_unclean_allowed if found is None else found.lower() == "true"

    def rules_of(
        self, topic: str, state: PartitionState, is_acceptable: Callable[[int], bool] | None = None
    ) -> ChangeRules:
        """Without `is_acceptable` those may lead that live now."""
        return ChangeRules(
            is_acceptable=is_acceptable or (lambda broker_id: self.may_lead(state, broker_id)),
            min_insync_replicas=self.min_insync_replicas(topic),
            level=self.level,
            has_eligible_leaders=self.has_eligible_leaders,
            default_directory=self.default_directory,
        )

    def _setting(self, topic: str, name: str) -> str | None:
        of_topic = self.image.configs_of(ConfigResource.TOPIC, topic).get(name)
        return self.image.broker_configs.get("", {}).get(name) if of_topic is None else of_topic
