"""The controller: checks requests about topics against the image and plans metadata records.

Every `plan_*` reads the image and returns the records to append with the reply that is valid once they are durable;
none of them changes anything (see `coordinator.contract`). Checks and their order are those of Kafka's
ReplicationControlManager: name, then existence, then collision, then settings, then counts.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from broker_core.cluster import TopicDescription
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.config_resource import ConfigResource
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_records import (
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from broker_core.metadata.metadata_version import METADATA_VERSION_FEATURE, METADATA_VERSION_LEVEL
from broker_core.model.exceptions import (
    InvalidPartitionsError,
    InvalidRequestError,
    InvalidTopicNameError,
    TopicExistsError,
    UnknownTopicError,
)
from broker_core.model.limits import MAX_PARTITION_COUNT, PRODUCER_ID_BLOCK_COUNT
from broker_core.model.topic_config import TopicConfig
from broker_core.model.topic_name import CLUSTER_METADATA_TOPIC, is_internal_topic, validate_topic_name
from broker_core.model.topic_settings import SETTINGS, unknown_setting
from broker_core.ports import Entropy

CLUSTER_METADATA_TOPIC_ID: Final = UUID(int=1)
"""Kafka's id of `__cluster_metadata`; no other topic gets it."""

_RESERVED_ID_COUNT = 100
"""Kafka keeps the first hundred ids for itself (unassigned, lost and migrating directories, the metadata topic)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdBlock:
    """A block of `id_count` producer ids from `first_id` on, which is assigned only once."""

    first_id: int
    id_count: int


def random_id(entropy: Entropy) -> UUID:
    """A random version 4 UUID for a topic or a directory, none of Kafka's reserved ones.

    As in Kafka's Uuid.randomUuid its base64 form does not begin with '-': a command line would take it for an option.
    """
    while True:
        candidate = UUID(bytes=entropy.random_bytes(16), version=4)
        if candidate.int >= _RESERVED_ID_COUNT and not encode_id(candidate).startswith("-"):
            return candidate


def encode_id(uuid: UUID) -> str:
    """An id as Kafka writes it: base64url without padding, 22 characters."""
    return base64.urlsafe_b64encode(uuid.bytes).rstrip(b"=").decode("ascii")


def decode_id(text: str) -> UUID:
    """The id that Kafka wrote as `text`. Raises ValueError if it is none."""
    raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    return UUID(bytes=raw)


class MetadataController:
    """Plans changes of `image` for the node `broker_id`, which keeps all partitions in the directory `directory_id`."""

    def __init__(self, image: MetadataImage, *, broker_id: int, directory_id: UUID) -> None:
        self._image = image
        self._broker_id = broker_id
        self._directory_id = directory_id

    @property
    def image(self) -> MetadataImage:
        """The image that the plans read; for plans in other modules."""
        return self._image

    def plan_bootstrap(self) -> CoordinatorResult[MetadataRecord, None]:
        """The first record of a new metadata log; no record if it exists."""
        if self._image.metadata_version is not None:
            return CoordinatorResult(reply=None)
        record = FeatureLevelRecord(name=METADATA_VERSION_FEATURE, feature_level=METADATA_VERSION_LEVEL)
        return CoordinatorResult(records=(record,), reply=None)

    def plan_create_topic(
        self, name: str, *, partition_count: int, configs: Mapping[str, str], entropy: Entropy
    ) -> CoordinatorResult[MetadataRecord, TopicDescription]:
        """Raises InvalidTopicNameError, TopicExistsError, InvalidPartitionsError, InvalidConfigError."""
        validate_topic_name(name)
        if name == CLUSTER_METADATA_TOPIC:
            raise InvalidRequestError(f"Creation of internal topic {name} is prohibited.", topic=name)
        if name in self._image.topics:
            raise TopicExistsError(f"Topic '{name}' already exists.", topic=name)
        other = self._image.topic_that_collides(name)
        if other is not None:
            raise InvalidTopicNameError(f"Topic '{name}' collides with existing topic: {other}", topic=name)
        TopicConfig.from_strings(configs)
        _check_partition_count(name, partition_count)
        topic = TopicDescription(
            name=name,
            topic_id=random_id(entropy),
            partition_count=partition_count,
            configs=dict(configs),
            is_internal=is_internal_topic(name),
        )
        records: tuple[MetadataRecord, ...] = (
            TopicRecord(name=name, topic_id=topic.topic_id),
            *(_config_record(name, setting, value) for setting, value in configs.items()),
            *self._partition_records(topic.topic_id, range(partition_count)),
        )
        return CoordinatorResult(records=records, reply=topic)

    def plan_delete_topic(self, name: str) -> CoordinatorResult[MetadataRecord, TopicDescription]:
        """The reply is the topic as it was. Raises UnknownTopicError."""
        topic = self._topic(name)
        return CoordinatorResult(records=(RemoveTopicRecord(topic_id=topic.topic_id),), reply=topic)

    def plan_create_partitions(
        self, name: str, total_count: int
    ) -> CoordinatorResult[MetadataRecord, TopicDescription]:
        """Raises UnknownTopicError, and InvalidPartitionsError unless `total_count` is above the current count."""
        topic = self._topic(name)
        _check_partition_count(name, total_count)
        if total_count == topic.partition_count:
            raise InvalidPartitionsError(f"Topic already has {total_count} partition(s).", topic=name)
        if total_count < topic.partition_count:
            raise InvalidPartitionsError(
                f"The topic {name} currently has {topic.partition_count} partition(s); {total_count} would not be an"
                " increase.",
                topic=name,
            )
        return CoordinatorResult(
            records=self._partition_records(topic.topic_id, range(topic.partition_count, total_count)),
            reply=replace(topic, partition_count=total_count),
        )

    def plan_alter_topic_configs(
        self, name: str, changes: Mapping[str, str | None]
    ) -> CoordinatorResult[MetadataRecord, TopicDescription]:
        """None resets a setting to its default; setting the current value gives no record.

        Raises UnknownTopicError, InvalidConfigError for a name or value that is wrong or contradicts another setting.
        """
        topic = self._topic(name)
        for setting in changes:
            # A setting that a newer version stored may be reset here; from_strings refuses to set it.
            if setting not in SETTINGS and setting not in topic.configs:
                raise unknown_setting(setting)
        added = {setting: value for setting, value in changes.items() if value is not None}
        configs = {setting: value for setting, value in topic.configs.items() if setting not in changes}
        TopicConfig.from_strings({setting: value for setting, value in configs.items() if setting in SETTINGS} | added)
        configs.update(added)
        records = tuple(
            _config_record(name, setting, value)
            for setting, value in changes.items()
            if topic.configs.get(setting) != value
        )
        return CoordinatorResult(records=records, reply=replace(topic, configs=configs))

    def plan_alter_configs(
        self, resource: ConfigResource, name: str, changes: Mapping[str, str | None]
    ) -> CoordinatorResult[MetadataRecord, None]:
        """Of a broker or a group. None resets a setting to its default; an unchanged value gives no record. The caller
        has checked the settings."""
        current = self._image.configs_of(resource, name)
        records = tuple(
            ConfigRecord(resource_type=resource, resource_name=name, name=setting, value=value)
            for setting, value in changes.items()
            if current.get(setting) != value
        )
        return CoordinatorResult(records=records, reply=None)

    def plan_allocate_producer_ids(self) -> CoordinatorResult[MetadataRecord, ProducerIdBlock]:
        """The next block of producer ids for one process."""
        first_id = self._image.next_producer_id
        record = ProducerIdsRecord(
            broker_id=self._broker_id, broker_epoch=0, next_producer_id=first_id + PRODUCER_ID_BLOCK_COUNT
        )
        block = ProducerIdBlock(first_id=first_id, id_count=PRODUCER_ID_BLOCK_COUNT)
        return CoordinatorResult(records=(record,), reply=block)

    def _topic(self, name: str) -> TopicDescription:
        topic = self._image.topics.get(name)
        if topic is None:
            raise UnknownTopicError(f"Topic '{name}' does not exist.", topic=name)
        return topic

    def _partition_records(self, topic_id: UUID, partitions: range) -> tuple[PartitionRecord, ...]:
        return tuple(
            PartitionRecord(
                partition_id=partition,
                topic_id=topic_id,
                replicas=(self._broker_id,),
                isr=(self._broker_id,),
                leader=self._broker_id,
                leader_epoch=0,
                partition_epoch=0,
                directories=(self._directory_id,),
            )
            for partition in partitions
        )


def _check_partition_count(name: str, count: int) -> None:
    if count <= 0:
        raise InvalidPartitionsError(
            f"Number of partitions of topic '{name}' must be larger than 0, not {count}.", topic=name
        )
    if count > MAX_PARTITION_COUNT:
        raise InvalidPartitionsError(
            f"Number of partitions of topic '{name}' must be at most {MAX_PARTITION_COUNT}, not {count}.", topic=name
        )


def _config_record(topic: str, setting: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=ConfigResource.TOPIC, resource_name=topic, name=setting, value=value)
