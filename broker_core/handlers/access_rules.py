"""The access that each API needs: the checks of Kafka's KafkaApis, ControllerApis and ConfigHelper, in their order.

A handler calls `call.is_allowed(operation, resource_type, name)` for each need of its API below, in this order. A
denied resource gets the need's refusal in the answer; a refusal of None means that it is left out as if it did not
exist. Without an authorizer everything is allowed.

Rules for all APIs:

* Check access before existence: an unknown topic that may not be described looks like an existing forbidden one.
* Check each name of a request once, not once for each of its partitions.
* Topics that come by id: an unknown id is UNKNOWN_TOPIC_ID first; then access to the name that the id has. Where it is
  refused, the name is not in the answer, unless the client may DESCRIBE it.
* READ, WRITE, DELETE and ALTER imply DESCRIBE; ALTER_CONFIGS implies DESCRIBE_CONFIGS (the authorizer knows).
* The fields `…authorized_operations` (asked for by `include_…_authorized_operations`) are the bit field of what
  `SUPPORTED_OPERATIONS` lists and the principal may do, by `operations_bit_field`; not asked for, they stay at
  -2147483648. Those of the cluster are 0 without DESCRIBE on CLUSTER.

`is_whole_request_allowed` checks the APIs of administrators, which have one need on the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.handlers.call import Call
from broker_core.model.access_control import Operation, ResourceType
from broker_core.protocol.api_table import ApiKey


@dataclass(frozen=True, slots=True)
class AccessNeed:
    """`operation` on `resource_type`, checked for `each` resource of the request; `note` has conditions and
    exceptions."""

    operation: Operation
    resource_type: ResourceType
    each: str
    refusal: ErrorCode | None
    note: str = ""


_READ, _WRITE, _CREATE, _DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
_ALTER, _DESCRIBE = Operation.ALTER, Operation.DESCRIBE
_DESCRIBE_CONFIGS, _ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
_TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
_NO_TOPIC, _NO_GROUP = ErrorCode.topic_authorization_failed, ErrorCode.group_authorization_failed
_NO_CLUSTER = ErrorCode.cluster_authorization_failed
_NO_TRANSACTION = ErrorCode.transactional_id_authorization_failed

_WHOLE = "the whole request"
_INSTEAD_OF_EACH = "if allowed, nothing is asked of each topic; a refusal is no refusal and is not logged"

REQUIRED_ACCESS: Final[Mapping[ApiKey, tuple[AccessNeed, ...]]] = MappingProxyType(
    {
        ApiKey.PRODUCE: (
            AccessNeed(
                _WRITE, _TRANSACTIONAL_ID, _WHOLE, _NO_TRANSACTION,
                "only if some batch of the request is transactional by its own attributes; refused too when such a "
                "request names no transactional id. Every partition then carries the refusal",
            ),
            AccessNeed(_WRITE, _TOPIC, "topic", _NO_TOPIC, "on each of its partitions; the other topics are written"),
        ),
        ApiKey.FETCH: (
            AccessNeed(
                Operation.CLUSTER_ACTION, _CLUSTER, _WHOLE, _NO_TOPIC,
                "only if replica_id >= 0 (a follower), and then instead of READ",
            ),
            AccessNeed(_READ, _TOPIC, "topic", _NO_TOPIC, "of the whole session, at each fetch"),
        ),
        ApiKey.LIST_OFFSETS: (AccessNeed(_DESCRIBE, _TOPIC, "topic", _NO_TOPIC, "timestamp and offset -1"),),
        ApiKey.METADATA: (
            AccessNeed(
                _DESCRIBE, _TOPIC, "topic", _NO_TOPIC,
                "asked before existence. Of a request for all topics those refused are left out (None) and not logged. "
                "By id: refused without the name, with the id",
            ),
            AccessNeed(
                _CREATE, _CLUSTER, "auto-creation", None,
                f"only for unknown topics with allow_auto_topic_creation and auto.create.topics.enable; "
                f"{_INSTEAD_OF_EACH}",
            ),
            AccessNeed(_CREATE, _TOPIC, "topic to be auto-created", _NO_TOPIC, "unless CREATE on CLUSTER is allowed"),
            AccessNeed(_DESCRIBE, _CLUSTER, "cluster_authorized_operations", None, "versions 8 to 10; refused: 0"),
        ),
        ApiKey.OFFSET_COMMIT: (
            AccessNeed(_READ, _GROUP, _WHOLE, _NO_GROUP, "on each partition"),
            AccessNeed(_READ, _TOPIC, "topic", _NO_TOPIC, "on each of its partitions; the rest is committed"),
        ),
        ApiKey.OFFSET_FETCH: (
            AccessNeed(_DESCRIBE, _GROUP, "group", _NO_GROUP, "as the group's error (version 1: on each partition)"),
            AccessNeed(
                _DESCRIBE, _TOPIC, "topic", _NO_TOPIC,
                "offset -1, metadata ''. Where all topics are asked for (null), those refused are left out",
            ),
        ),
        ApiKey.FIND_COORDINATOR: (
            AccessNeed(_DESCRIBE, _GROUP, "key of type group (0)", _NO_GROUP),
            AccessNeed(_DESCRIBE, _TRANSACTIONAL_ID, "key of type transaction (1)", _NO_TRANSACTION),
        ),
        ApiKey.JOIN_GROUP: (AccessNeed(_READ, _GROUP, _WHOLE, _NO_GROUP),),
        ApiKey.HEARTBEAT: (AccessNeed(_READ, _GROUP, _WHOLE, _NO_GROUP),),
        ApiKey.LEAVE_GROUP: (AccessNeed(_READ, _GROUP, _WHOLE, _NO_GROUP),),
        ApiKey.SYNC_GROUP: (AccessNeed(_READ, _GROUP, _WHOLE, _NO_GROUP),),
        ApiKey.DESCRIBE_GROUPS: (AccessNeed(_DESCRIBE, _GROUP, "group", _NO_GROUP, "the others are described"),),
        ApiKey.LIST_GROUPS: (
            AccessNeed(_DESCRIBE, _CLUSTER, _WHOLE, None, "if allowed, all groups are listed; not logged"),
            AccessNeed(_DESCRIBE, _GROUP, "group", None, "unless DESCRIBE on CLUSTER is allowed; not logged"),
        ),
        ApiKey.SASL_HANDSHAKE: (),
        ApiKey.API_VERSIONS: (),
        ApiKey.CREATE_TOPICS: (
            AccessNeed(_CREATE, _CLUSTER, _WHOLE, None, _INSTEAD_OF_EACH),
            AccessNeed(
                _CREATE, _TOPIC, "topic", _NO_TOPIC,
                "unless CREATE on CLUSTER is allowed; message 'Authorization failed.'",
            ),
            AccessNeed(
                _DESCRIBE_CONFIGS, _TOPIC, "topic that was created", _NO_TOPIC,
                "as topic_config_error_code: without it num_partitions and replication_factor are -1 and configs "
                "empty; not logged",
            ),
        ),
        ApiKey.DELETE_TOPICS: (
            AccessNeed(_DELETE, _CLUSTER, _WHOLE, None, _INSTEAD_OF_EACH),
            AccessNeed(_DESCRIBE, _TOPIC, "topic", _NO_TOPIC, "by id: without the name. Before UNKNOWN_TOPIC"),
            AccessNeed(_DELETE, _TOPIC, "topic", _NO_TOPIC, "after UNKNOWN_TOPIC for those that may be described"),
        ),
        ApiKey.DELETE_RECORDS: (AccessNeed(_DELETE, _TOPIC, "topic", _NO_TOPIC, "low watermark -1"),),
        ApiKey.INIT_PRODUCER_ID: (
            AccessNeed(_WRITE, _TRANSACTIONAL_ID, _WHOLE, _NO_TRANSACTION, "only with a transactional id"),
            AccessNeed(
                Operation.TWO_PHASE_COMMIT, _TRANSACTIONAL_ID, _WHOLE, _NO_TRANSACTION,
                "only with a transactional id and enable2_pc",
            ),
            AccessNeed(
                Operation.IDEMPOTENT_WRITE, _CLUSTER, _WHOLE, _NO_CLUSTER,
                "only without a transactional id; WRITE on any topic at all serves as well "
                "(Authorizer.authorize_by_resource_type)",
            ),
        ),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (
            AccessNeed(Operation.CLUSTER_ACTION, _CLUSTER, _WHOLE, None, _INSTEAD_OF_EACH),
            AccessNeed(_DESCRIBE, _TOPIC, "topic", _NO_TOPIC, "unless CLUSTER_ACTION is allowed; epoch and offset -1"),
        ),
        ApiKey.ADD_PARTITIONS_TO_TXN: (
            AccessNeed(
                Operation.CLUSTER_ACTION, _CLUSTER, _WHOLE, _NO_CLUSTER,
                "versions 4 and above, which brokers use among themselves; then nothing else is asked",
            ),
            AccessNeed(_WRITE, _TRANSACTIONAL_ID, "transaction", _NO_TRANSACTION, "on each partition of it"),
            AccessNeed(
                _WRITE, _TOPIC, "topic", _NO_TOPIC,
                "internal topics are refused to all users. One refused or unknown partition refuses all others with "
                "OPERATION_NOT_ATTEMPTED",
            ),
        ),
        ApiKey.ADD_OFFSETS_TO_TXN: (
            AccessNeed(_WRITE, _TRANSACTIONAL_ID, _WHOLE, _NO_TRANSACTION),
            AccessNeed(_READ, _GROUP, _WHOLE, _NO_GROUP),
        ),
        ApiKey.END_TXN: (AccessNeed(_WRITE, _TRANSACTIONAL_ID, _WHOLE, _NO_TRANSACTION),),
        ApiKey.WRITE_TXN_MARKERS: (
            AccessNeed(_ALTER, _CLUSTER, _WHOLE, None, "if allowed, CLUSTER_ACTION is not asked; not logged"),
            AccessNeed(Operation.CLUSTER_ACTION, _CLUSTER, _WHOLE, _NO_CLUSTER, "on each partition of each marker"),
        ),
        ApiKey.TXN_OFFSET_COMMIT: (
            AccessNeed(_WRITE, _TRANSACTIONAL_ID, _WHOLE, _NO_TRANSACTION, "on each partition"),
            AccessNeed(_READ, _GROUP, _WHOLE, _NO_GROUP, "on each partition"),
            AccessNeed(_READ, _TOPIC, "topic", _NO_TOPIC, "on each of its partitions; the rest is committed"),
        ),
        ApiKey.DESCRIBE_ACLS: (AccessNeed(_DESCRIBE, _CLUSTER, _WHOLE, _NO_CLUSTER),),
        ApiKey.CREATE_ACLS: (AccessNeed(_ALTER, _CLUSTER, _WHOLE, _NO_CLUSTER, "on each creation"),),
        ApiKey.DELETE_ACLS: (AccessNeed(_ALTER, _CLUSTER, _WHOLE, _NO_CLUSTER, "on each filter"),),
        ApiKey.DESCRIBE_CONFIGS: (
            AccessNeed(_DESCRIBE_CONFIGS, _TOPIC, "resource of type topic", _NO_TOPIC, "no message, no configs"),
            AccessNeed(_DESCRIBE_CONFIGS, _GROUP, "resource of type group", _NO_GROUP),
            AccessNeed(
                _DESCRIBE_CONFIGS, _CLUSTER, "resource of type broker, broker logger or client metrics", _NO_CLUSTER
            ),
        ),
        ApiKey.ALTER_CONFIGS: (
            AccessNeed(_ALTER_CONFIGS, _TOPIC, "resource of type topic", _NO_TOPIC),
            AccessNeed(_ALTER_CONFIGS, _GROUP, "resource of type group", _NO_GROUP),
            AccessNeed(
                _ALTER_CONFIGS, _CLUSTER, "resource of type broker, broker logger or client metrics", _NO_CLUSTER
            ),
        ),
        ApiKey.DESCRIBE_LOG_DIRS: (
            AccessNeed(
                _DESCRIBE, _CLUSTER, _WHOLE, _NO_CLUSTER, "as the answer's error from version 3 on; before: no results"
            ),
        ),
        ApiKey.SASL_AUTHENTICATE: (),
        ApiKey.CREATE_PARTITIONS: (AccessNeed(_ALTER, _TOPIC, "topic", _NO_TOPIC, "before existence"),),
        ApiKey.DELETE_GROUPS: (AccessNeed(_DELETE, _GROUP, "group", _NO_GROUP, "the others are deleted"),),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (
            AccessNeed(_ALTER_CONFIGS, _TOPIC, "resource of type topic", _NO_TOPIC),
            AccessNeed(_ALTER_CONFIGS, _GROUP, "resource of type group", _NO_GROUP),
            AccessNeed(
                _ALTER_CONFIGS, _CLUSTER, "resource of type broker, broker logger or client metrics", _NO_CLUSTER
            ),
        ),
        ApiKey.OFFSET_DELETE: (
            AccessNeed(_DELETE, _GROUP, _WHOLE, _NO_GROUP),
            AccessNeed(_READ, _TOPIC, "topic", _NO_TOPIC, "on each of its partitions; the rest is deleted"),
        ),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: (AccessNeed(_DESCRIBE_CONFIGS, _CLUSTER, _WHOLE, _NO_CLUSTER),),
        ApiKey.ALTER_CLIENT_QUOTAS: (AccessNeed(_ALTER_CONFIGS, _CLUSTER, _WHOLE, _NO_CLUSTER, "on each entity"),),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (AccessNeed(_DESCRIBE, _CLUSTER, _WHOLE, _NO_CLUSTER),),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (AccessNeed(_ALTER, _CLUSTER, _WHOLE, _NO_CLUSTER, "on each user"),),
        ApiKey.DESCRIBE_CLUSTER: (
            AccessNeed(_DESCRIBE, _CLUSTER, "cluster_authorized_operations", None, "only if asked for; refused: 0"),
        ),
        ApiKey.DESCRIBE_PRODUCERS: (AccessNeed(_READ, _TOPIC, "topic", _NO_TOPIC, "on each of its partitions"),),
        ApiKey.DESCRIBE_TRANSACTIONS: (
            AccessNeed(_DESCRIBE, _TRANSACTIONAL_ID, "transactional id", _NO_TRANSACTION),
            AccessNeed(_DESCRIBE, _TOPIC, "topic of a transaction", None, "the topic is left out"),
        ),
        ApiKey.LIST_TRANSACTIONS: (
            AccessNeed(_DESCRIBE, _TRANSACTIONAL_ID, "transactional id", None, "the transaction is left out"),
        ),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: (
            AccessNeed(_READ, _GROUP, _WHOLE, _NO_GROUP),
            AccessNeed(
                _DESCRIBE, _TOPIC, "subscribed topic name", _NO_TOPIC,
                "one refused name refuses the request. Topics that a regular expression finds: those refused are left "
                "out of the subscription",
            ),
        ),
        ApiKey.CONSUMER_GROUP_DESCRIBE: (
            AccessNeed(_DESCRIBE, _GROUP, "group", _NO_GROUP),
            AccessNeed(
                _DESCRIBE, _TOPIC, "topic in the members' subscriptions and assignments", _NO_TOPIC,
                "as the group's error, members empty, message 'The group has described topic(s) that the client is not "
                "authorized to describe.'",
            ),
        ),
        ApiKey.LIST_CONFIG_RESOURCES: (AccessNeed(_DESCRIBE_CONFIGS, _CLUSTER, _WHOLE, _NO_CLUSTER),),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: (
            AccessNeed(
                _DESCRIBE, _TOPIC, "topic", _NO_TOPIC,
                "without its id, before existence. Where all topics are asked for, those refused are left out",
            ),
        ),
    }
)  # fmt: skip
"""By API, the needs in the order of the checks. An API without needs is open to all users."""

NOT_AUTHORIZED: Final = "Cluster authorization failed."
"""Kafka's words for a refusal on the cluster."""


def is_whole_request_allowed(call: Call) -> bool:
    """For an API whose only need is on the cluster."""
    (need,) = REQUIRED_ACCESS[call.api_key]
    assert need.resource_type == ResourceType.CLUSTER, f"{call.api_key.label} is not about the cluster"
    return call.is_allowed(need.operation, need.resource_type)
