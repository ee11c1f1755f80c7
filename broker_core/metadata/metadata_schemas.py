"""How the fields of metadata records are written. GENERATED, see below.

`tests/golden/metadata/generate_records.py` makes this file from the definitions in Kafka 4.3.1's own jar.
"""

from __future__ import annotations

from typing import Final

from broker_core.metadata import metadata_records as records
from broker_core.metadata.record_schema import FieldSchema as Field
from broker_core.metadata.record_schema import StructSchema

SCHEMAS: Final[dict[type, StructSchema]] = {
    records.BrokerEndpoint: StructSchema(
        versions=range(128),
        fields=(
            Field("name", "string"),
            Field("host", "string"),
            Field("port", "uint16"),
            Field("security_protocol", "int16"),
        ),
    ),
    records.BrokerFeature: StructSchema(
        versions=range(128),
        fields=(
            Field("name", "string"),
            Field("min_supported_version", "int16"),
            Field("max_supported_version", "int16"),
        ),
    ),
    records.RegisterBrokerRecord: StructSchema(
        versions=range(5),
        fields=(
            Field("broker_id", "int32"),
            Field("is_migrating_zk_broker", "bool", since=2),
            Field("incarnation_id", "uuid"),
            Field("broker_epoch", "int64"),
            Field("end_points", records.BrokerEndpoint, is_array=True),
            Field("features", records.BrokerFeature, is_array=True),
            Field("rack", "string", is_nullable=True),
            Field("fenced", "bool"),
            Field("in_controlled_shutdown", "bool", since=1),
            Field("log_dirs", "uuid", is_array=True, since=3, tag=0, default=()),
            Field("cordoned_log_dirs", "uuid", is_array=True, is_nullable=True, since=4, tag=1, default=None),
        ),
    ),
    records.UnregisterBrokerRecord: StructSchema(
        versions=range(1),
        fields=(
            Field("broker_id", "int32"),
            Field("broker_epoch", "int64"),
        ),
    ),
    records.TopicRecord: StructSchema(
        versions=range(1),
        fields=(
            Field("name", "string"),
            Field("topic_id", "uuid"),
        ),
    ),
    records.PartitionRecord: StructSchema(
        versions=range(3),
        fields=(
            Field("partition_id", "int32"),
            Field("topic_id", "uuid"),
            Field("replicas", "int32", is_array=True),
            Field("isr", "int32", is_array=True),
            Field("removing_replicas", "int32", is_array=True),
            Field("adding_replicas", "int32", is_array=True),
            Field("leader", "int32"),
            Field("leader_recovery_state", "int8", tag=0, default=0),
            Field("leader_epoch", "int32"),
            Field("partition_epoch", "int32"),
            Field("directories", "uuid", is_array=True, since=1),
            Field("eligible_leader_replicas", "int32", is_array=True, is_nullable=True, since=2, tag=1, default=None),
            Field("last_known_elr", "int32", is_array=True, is_nullable=True, since=2, tag=2, default=None),
        ),
    ),
    records.ConfigRecord: StructSchema(
        versions=range(1),
        fields=(
            Field("resource_type", "int8"),
            Field("resource_name", "string"),
            Field("name", "string"),
            Field("value", "string", is_nullable=True),
        ),
    ),
    records.PartitionChangeRecord: StructSchema(
        versions=range(3),
        fields=(
            Field("partition_id", "int32"),
            Field("topic_id", "uuid"),
            Field("isr", "int32", is_array=True, is_nullable=True, tag=0, default=None),
            Field("leader", "int32", tag=1, default=-2),
            Field("replicas", "int32", is_array=True, is_nullable=True, tag=2, default=None),
            Field("removing_replicas", "int32", is_array=True, is_nullable=True, tag=3, default=None),
            Field("adding_replicas", "int32", is_array=True, is_nullable=True, tag=4, default=None),
            Field("leader_recovery_state", "int8", tag=5, default=-1),
            Field("directories", "uuid", is_array=True, is_nullable=True, since=1, tag=8, default=None),
            Field("eligible_leader_replicas", "int32", is_array=True, is_nullable=True, since=2, tag=6, default=None),
            Field("last_known_elr", "int32", is_array=True, is_nullable=True, since=2, tag=7, default=None),
        ),
    ),
    records.FenceBrokerRecord: StructSchema(
        versions=range(1),
        fields=(
            Field("id", "int32"),
            Field("epoch", "int64"),
        ),
    ),
    records.UnfenceBrokerRecord: StructSchema(
        versions=range(1),
        fields=(
            Field("id", "int32"),
            Field("epoch", "int64"),
        ),
    ),
    records.RemoveTopicRecord: StructSchema(versions=range(1), fields=(Field("topic_id", "uuid"),)),
    records.DelegationTokenRecord: StructSchema(
        versions=range(1),
        fields=(
            Field("owner", "string"),
            Field("requester", "string"),
            Field("renewers", "string", is_array=True),
            Field("issue_timestamp", "int64"),
            Field("max_timestamp", "int64"),
            Field("expiration_timestamp", "int64"),
            Field("token_id", "string"),
        ),
    ),
    records.UserScramCredentialRecord: StructSchema(
        versions=range(1),
        fields=(
            Field("name", "string"),
            Field("mechanism", "int8"),
            Field("salt", "bytes"),
            Field("stored_key", "bytes"),
            Field("server_key", "bytes"),
            Field("iterations", "int32"),
        ),
    ),
    records.FeatureLevelRecord: StructSchema(
        versions=range(1),
        fields=(
            Field("name", "string"),
            Field("feature_level", "int16"),
        ),
    ),
    records.EntityData: StructSchema(
        versions=range(128),
        fields=(
            Field("entity_type", "string"),
            Field("entity_name", "string", is_nullable=True),
        ),
    ),
    records.ClientQuotaRecord: StructSchema(
        versions=range(1),
        fields=(
            Field("entity", records.EntityData, is_array=True),
            Field("key", "string"),
            Field("value", "float64"),
            Field("remove", "bool"),
        ),
    ),
    records.ProducerIdsRecord: StructSchema(
        versions=range(1),
        fields=(
            Field("broker_id", "int32"),
            Field("broker_epoch", "int64"),
            Field("next_producer_id", "int64"),
        ),
    ),
    records.BrokerRegistrationChangeRecord: StructSchema(
        versions=range(4),
        fields=(
            Field("broker_id", "int32"),
            Field("broker_epoch", "int64"),
            Field("fenced", "int8", tag=0, default=0),
            Field("in_controlled_shutdown", "int8", since=1, tag=1, default=0),
            Field("log_dirs", "uuid", is_array=True, since=2, tag=2, default=()),
            Field("cordoned_log_dirs", "uuid", is_array=True, is_nullable=True, since=3, tag=3, default=None),
        ),
    ),
    records.AccessControlEntryRecord: StructSchema(
        versions=range(1),
        fields=(
            Field("id", "uuid"),
            Field("resource_type", "int8"),
            Field("resource_name", "string"),
            Field("pattern_type", "int8"),
            Field("principal", "string"),
            Field("host", "string"),
            Field("operation", "int8"),
            Field("permission_type", "int8"),
        ),
    ),
    records.RemoveAccessControlEntryRecord: StructSchema(versions=range(1), fields=(Field("id", "uuid"),)),
    records.NoOpRecord: StructSchema(versions=range(1), fields=()),
    records.ZkMigrationStateRecord: StructSchema(versions=range(1), fields=(Field("zk_migration_state", "int8"),)),
    records.RemoveUserScramCredentialRecord: StructSchema(
        versions=range(1),
        fields=(
            Field("name", "string"),
            Field("mechanism", "int8"),
        ),
    ),
    records.BeginTransactionRecord: StructSchema(
        versions=range(1), fields=(Field("name", "string", is_nullable=True, tag=0, default=None),)
    ),
    records.EndTransactionRecord: StructSchema(versions=range(1), fields=()),
    records.AbortTransactionRecord: StructSchema(
        versions=range(1), fields=(Field("reason", "string", is_nullable=True, tag=0, default=None),)
    ),
    records.RemoveDelegationTokenRecord: StructSchema(versions=range(1), fields=(Field("token_id", "string"),)),
    records.ControllerEndpoint: StructSchema(
        versions=range(128),
        fields=(
            Field("name", "string"),
            Field("host", "string"),
            Field("port", "uint16"),
            Field("security_protocol", "int16"),
        ),
    ),
    records.ControllerFeature: StructSchema(
        versions=range(128),
        fields=(
            Field("name", "string"),
            Field("min_supported_version", "int16"),
            Field("max_supported_version", "int16"),
        ),
    ),
    records.RegisterControllerRecord: StructSchema(
        versions=range(1),
        fields=(
            Field("controller_id", "int32"),
            Field("incarnation_id", "uuid"),
            Field("zk_migration_ready", "bool"),
            Field("end_points", records.ControllerEndpoint, is_array=True),
            Field("features", records.ControllerFeature, is_array=True),
        ),
    ),
    records.ClearElrRecord: StructSchema(versions=range(1), fields=(Field("topic_name", "string"),)),
}
"""By the class of a record, and of the structures in it."""

RECORD_TYPES: Final[tuple[type[records.MetadataRecord], ...]] = (
    records.RegisterBrokerRecord,
    records.UnregisterBrokerRecord,
    records.TopicRecord,
    records.PartitionRecord,
    records.ConfigRecord,
    records.PartitionChangeRecord,
    records.FenceBrokerRecord,
    records.UnfenceBrokerRecord,
    records.RemoveTopicRecord,
    records.DelegationTokenRecord,
    records.UserScramCredentialRecord,
    records.FeatureLevelRecord,
    records.ClientQuotaRecord,
    records.ProducerIdsRecord,
    records.BrokerRegistrationChangeRecord,
    records.AccessControlEntryRecord,
    records.RemoveAccessControlEntryRecord,
    records.NoOpRecord,
    records.ZkMigrationStateRecord,
    records.RemoveUserScramCredentialRecord,
    records.BeginTransactionRecord,
    records.EndTransactionRecord,
    records.AbortTransactionRecord,
    records.RemoveDelegationTokenRecord,
    records.RegisterControllerRecord,
    records.ClearElrRecord,
)
"""All record types, in the order of their numbers."""
