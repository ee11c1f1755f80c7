"""The records of a snapshot: replayed by an empty image they make an equal one.

They come in the groups and the order of Kafka's MetadataImage.write: features with `metadata.version` first, brokers,
controllers, topics each with its partitions, settings, quotas, producer ids, access rules, SCRAM credentials,
delegation tokens. Inside a group Kafka's order is that of hash maps; here it is by id or by name, so equal images give
equal records. Records are written in the versions of the image's level; what that level cannot hold is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from broker_core.metadata.access_control_list import rule_record
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_records import (
    ClientQuotaRecord,
    ConfigRecord,
    EntityData,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from broker_core.metadata.metadata_version import (
    CONTROLLER_REGISTRATION_LEVEL,
    CORDONED_DIRECTORIES_LEVEL,
    DELEGATION_TOKENS_LEVEL,
    DIRECTORY_ASSIGNMENT_LEVEL,
    ELIGIBLE_LEADERS_FEATURE,
    METADATA_VERSION_FEATURE,
    METADATA_VERSION_LEVEL,
    MIGRATION_LEVEL,
    SCRAM_LEVEL,
    partition_version,
    register_broker_version,
)


def snapshot_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    """The image must not change meanwhile: pass a copy if it goes on."""
    level = METADATA_VERSION_LEVEL if image.metadata_version is None else image.metadata_version
    yield FeatureLevelRecord(name=METADATA_VERSION_FEATURE, feature_level=level)
    for name, feature_level in sorted(image.features.items()):
        if name != METADATA_VERSION_FEATURE:
            yield FeatureLevelRecord(name=name, feature_level=feature_level)
    for _, broker in sorted(image.registrations.brokers.items()):
        yield _broker_record(broker, level)
    if level >= CONTROLLER_REGISTRATION_LEVEL:
        for _, controller in sorted(image.registrations.controllers.items()):
            yield replace(controller, version=0, unknown_fields=())
    yield from _topic_records(image, level)
    yield from _config_records(image)
    yield from _other_records(image, level)


def _broker_record(broker: RegisterBrokerRecord, level: int) -> RegisterBrokerRecord:
    return replace(
        broker,
        version=register_broker_version(level),
        unknown_fields=(),
        is_migrating_zk_broker=broker.is_migrating_zk_broker and level >= MIGRATION_LEVEL,
        log_dirs=broker.log_dirs if level >= DIRECTORY_ASSIGNMENT_LEVEL else (),
        cordoned_log_dirs=broker.cordoned_log_dirs if level >= CORDONED_DIRECTORIES_LEVEL else None,
    )


def _topic_records(image: MetadataImage, level: int) -> Iterator[MetadataRecord]:
    version = partition_version(level)
    has_elr = image.features.get(ELIGIBLE_LEADERS_FEATURE, 0) > 0
    for _, topic in sorted(image.topics.items()):
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for number, row in image.partitions.rows_of(topic.topic_id):
            state = image.partitions.state_at(row)
            yield PartitionRecord(
                version=version,
                partition_id=number,
                topic_id=topic.topic_id,
                replicas=state.replicas,
                isr=state.isr,
                removing_replicas=state.removing_replicas,
                adding_replicas=state.adding_replicas,
                leader=state.leader,
                leader_recovery_state=state.leader_recovery_state,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                directories=state.directories if level >= DIRECTORY_ASSIGNMENT_LEVEL else (),
                eligible_leader_replicas=(state.eligible_leader_replicas or None) if has_elr else None,
                last_known_elr=(state.last_known_elr or None) if has_elr else None,
            )


def _config_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    for resource_type in image.config_types:
        for resource, configs in sorted(image.configs_of_type(resource_type).items()):
            for name, value in sorted(configs.items()):
                yield ConfigRecord(resource_type=resource_type, resource_name=resource, name=name, value=value)


def _other_records(image: MetadataImage, level: int) -> Iterator[MetadataRecord]:
    for entity, quotas in sorted(image.client_quotas.by_entity.items(), key=repr):
        parts = tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity)
        for key, value in sorted(quotas.items()):
            yield ClientQuotaRecord(entity=parts, key=key, value=value, remove=False)
    if image.has_producer_ids:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    for rule_id, rule in sorted(image.access_control.rules.items(), key=lambda item: item[0].bytes):
        yield rule_record(rule_id, rule)
    for user in image.scram_credentials.users if level >= SCRAM_LEVEL else ():
        for mechanism, credential in image.scram_credentials.of_user(user).items():
            yield UserScramCredentialRecord(
                name=user,
                mechanism=mechanism,
                salt=credential.salt,
                stored_key=credential.stored_key,
                server_key=credential.server_key,
                iterations=credential.iterations,
            )
    if level >= DELEGATION_TOKENS_LEVEL:
        for _, token in sorted(image.delegation_tokens.items()):
            yield replace(token, version=0, unknown_fields=())
