"""Requests that nodes and administrators send, harmless where they are allowed: of brokers that are not there, of
epochs that are over, of topics that do not exist."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from broker_core.protocol.api_table import message_types
from broker_core.protocol.connection import ClientSide
from broker_core.protocol.message_builder import build

NOBODY = 99
_METADATA, _TOPIC_ID = UUID(int=1), UUID(int=77)
_SOON = timedelta(seconds=5)
_METADATA_TOPIC = "__cluster_metadata"


def _of_quorum(**partition):
    return {
        "cluster_id": None,
        "topics": [{"topic_name": _METADATA_TOPIC, "partitions": [{"partition_index": 0, **partition}]}],
    }


def _fetch(topic_id, *, epoch=0):
    partition = {"partition": 0, "current_leader_epoch": epoch, "fetch_offset": 0, "partition_max_bytes": 1000}
    return {
        "replica_state": {"replica_id": NOBODY, "replica_epoch": -1},
        "max_wait": timedelta(0),
        "min_bytes": 0,
        "max_bytes": 1000,
        "topics": [{"topic_id": topic_id, "partitions": [partition]}],
        "forgotten_topics_data": [],
    }


_SNAPSHOT = {
    "replica_id": NOBODY,
    "max_bytes": 1000,
    "topics": [
        {
            "name": _METADATA_TOPIC,
            "partitions": [
                {"partition": 0, "current_leader_epoch": 0, "snapshot_id": {"end_offset": 0, "epoch": 0}, "position": 0}
            ],
        }
    ],
}
_ACL_FILTER = {
    "resource_type_filter": 2, "resource_name_filter": "none", "pattern_type_filter": 3, "principal_filter": None,
    "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip
_NO_RULE = {
    "resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "eve", "host": "*",
    "operation": 3, "permission_type": 3,
}  # fmt: skip
_SENDER = {"broker_id": NOBODY, "broker_epoch": -1}
_RESOURCE = {"resource_type": 2, "resource_name": "none"}

FOR_CLUSTER = {
    "Fetch": (1, 17, _fetch(_METADATA)),
    "Vote": (52, 2, {**_of_quorum(replica_id=NOBODY, last_offset_epoch=0, last_offset=0), "voter_id": -1}),
    "BeginQuorumEpoch": (53, 1, {**_of_quorum(leader_id=NOBODY, leader_epoch=0), "voter_id": -1}),
    "EndQuorumEpoch": (54, 1, _of_quorum(leader_id=NOBODY, leader_epoch=0, preferred_candidates=[])),
    "FetchSnapshot": (59, 1, _SNAPSHOT),
    "DescribeQuorum": (55, 2, {"topics": [{"topic_name": _METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]}),
    "AlterPartition": (56, 3, {**_SENDER, "topics": []}),
    "BrokerRegistration": (62, 4, {
        "broker_id": NOBODY, "cluster_id": "another", "incarnation_id": UUID(int=5), "listeners": [], "features": [],
        "log_dirs": [UUID(int=6)], "previous_broker_epoch": -1,
    }),
    "BrokerHeartbeat": (63, 1, {
        **_SENDER, "current_metadata_offset": 0, "want_fence": False, "want_shut_down": False,
    }),
    "AllocateProducerIds": (67, 0, _SENDER),
    "AssignReplicasToDirs": (73, 0, {**_SENDER, "directories": []}),
    "UnregisterBroker": (64, 0, {"broker_id": NOBODY}),
    "DescribeAcls": (29, 3, _ACL_FILTER),
    "CreateAcls": (30, 3, {"creations": [_NO_RULE]}),
    "DeleteAcls": (31, 3, {"filters": [_ACL_FILTER]}),
    "AlterUserScramCredentials": (51, 0, {"deletions": [{"name": "none", "mechanism": 1}], "upsertions": []}),
    "ListPartitionReassignments": (46, 0, {"timeout": _SOON, "topics": None}),
    "AlterPartitionReassignments": (45, 1, {
        "timeout": _SOON, "topics": [{"name": "none", "partitions": [{"partition_index": 0, "replicas": [1]}]}],
    }),
    "DescribeCluster": (60, 2, {"endpoint_type": 2, "include_cluster_authorized_operations": False}),
    "AlterClientQuotas": (49, 1, {
        "entries": [{
            "entity": [{"entity_type": "user", "entity_name": "eve"}],
            "ops": [{"key": "none", "value": 1.0, "remove": False}],
        }],
        "validate_only": True,
    }),
    "ElectLeaders": (43, 2, {
        "election_type": 0, "topic_partitions": [{"topic": "none", "partitions": [0]}], "timeout": _SOON,
    }),
    "UpdateFeatures": (57, 2, {
        "feature_updates": [{"feature": "none", "max_version_level": 1, "upgrade_type": 1}], "timeout": _SOON,
        "validate_only": True,
    }),
}  # fmt: skip
"""Of a controller: each needs one thing on the cluster."""

FOR_RESOURCES = {
    "CreateTopics": (19, 7, {
        "topics": [{"name": "may-be", "num_partitions": 1, "replication_factor": 1}], "timeout": _SOON,
        "validate_only": True,
    }),
    "DeleteTopics by name": (20, 6, {"topics": [{"name": "none", "topic_id": None}], "timeout": _SOON}),
    "DeleteTopics by id": (20, 6, {"topics": [{"name": None, "topic_id": _TOPIC_ID}], "timeout": _SOON}),
    "CreatePartitions": (37, 3, {
        "topics": [{"name": "none", "count": 2, "assignments": None}], "timeout": _SOON, "validate_only": True,
    }),
    "IncrementalAlterConfigs of a topic": (44, 1, {
        "resources": [{**_RESOURCE, "configs": [{"name": "retention.ms", "config_operation": 0, "value": "7"}]}],
        "validate_only": True,
    }),
    "IncrementalAlterConfigs of a broker": (44, 1, {
        "resources": [{
            "resource_type": 4, "resource_name": "",
            "configs": [{"name": "log.cleaner.threads", "config_operation": 0, "value": "x"}],
        }],
        "validate_only": True,
    }),
    "AlterConfigs": (33, 2, {
        "resources": [{**_RESOURCE, "configs": [{"name": "retention.ms", "value": "7"}]}], "validate_only": True,
    }),
    "DescribeConfigs": (32, 4, {"resources": [{**_RESOURCE, "configuration_keys": None}]}),
}  # fmt: skip
"""Of a controller: each topic or resource by itself."""

OF_BROKERS = {
    "Fetch of a replica": lambda topic_id: (1, 17, _fetch(topic_id)),
    "WriteTxnMarkers": lambda topic_id: (27, 1, {
        "markers": [{
            "producer_id": 77, "producer_epoch": 0, "transaction_result": True, "coordinator_epoch": 0,
            "topics": [{"name": "t", "partition_indexes": [0]}],
        }],
    }),
    "AddPartitionsToTxn of a broker": lambda topic_id: (24, 4, {
        "transactions": [{
            "transactional_id": "none", "producer_id": 77, "producer_epoch": 0, "verify_only": True,
            "topics": [{"name": "t", "partitions": [0]}],
        }],
    }),
}  # fmt: skip
"""What brokers send each other; of a topic `t` with that id."""


def message_of(key, version, values):
    return build(message_types(key, version).request, values)


def enveloped(message, principal, *, host=b"\x7f\0\0\1"):
    """(the envelope, what reads the answer in its answer), as a Kafka broker sends it for a client of the principal."""
    from kio.schema.default_principal_data.v0.data import DefaultPrincipalData

    from broker_core.protocol.message_writer import encode

    side = ClientSide(client_id="client", max_frame_bytes=10**8)
    side.send_request(message)
    content = b"".join(bytes(part) for part in side.data_to_send())[4:]
    kind, _, name = principal.partition(":")
    who = build(DefaultPrincipalData, {"type_": kind, "name": name, "token_authenticated": False})
    data = b"\0\0" + b"".join(bytes(part) for part in encode(who))
    fields = {"request_data": content, "request_principal": data, "client_host_address": host}

    def answer_in(answer):
        found = bytes(answer.response_data)
        side.receive_data(len(found).to_bytes(4, "big") + found)
        return side.next_response().message

    return message_of(58, 0, fields), answer_in
