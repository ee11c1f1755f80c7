"""Everything that an active controller answers, by API key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker_core.controller.requests import (
    access_control,
    allocate_producer_ids,
    alter_partition,
    assign_replicas_to_dirs,
    broker_heartbeat,
    broker_registration,
    configs,
    describe_configs,
    elect_leaders,
    partition_reassignments,
    registrations,
    topics,
    update_features,
    users_and_quotas,
)
from broker_core.controller.requests.controller_api import ControllerApi

CONTROLLER_APIS: Final[Mapping[int, ControllerApi]] = {
    api.key: api
    for api in (
        topics.CREATE_TOPICS,
        topics.DELETE_TOPICS,
        topics.CREATE_PARTITIONS,
        access_control.DESCRIBE_ACLS,
        access_control.CREATE_ACLS,
        access_control.DELETE_ACLS,
        describe_configs.API,
        configs.ALTER_CONFIGS,
        configs.INCREMENTAL_ALTER_CONFIGS,
        elect_leaders.API,
        users_and_quotas.ALTER_CLIENT_QUOTAS,
        users_and_quotas.ALTER_USER_SCRAM_CREDENTIALS,
        partition_reassignments.ALTER_PARTITION_REASSIGNMENTS,
        partition_reassignments.LIST_PARTITION_REASSIGNMENTS,
        alter_partition.API,
        broker_registration.API,
        broker_heartbeat.API,
        registrations.UNREGISTER_BROKER,
        update_features.API,
        allocate_producer_ids.API,
        registrations.CONTROLLER_REGISTRATION,
        assign_replicas_to_dirs.API,
    )
}

QUORUM_APIS: Final[Mapping[int, range]] = {55: range(3), 80: range(2), 81: range(1)}
"""What the quorum itself answers, and brokers send on: DescribeQuorum, AddRaftVoter, RemoveRaftVoter."""

FORWARDED: Final[Mapping[int, range]] = {
    **{key: CONTROLLER_APIS[key].versions for key in (19, 20, 30, 31, 33, 37, 43, 44, 45, 46, 49, 51, 64)},
    **QUORUM_APIS,
}
"""What a broker of ours sends on for its clients, in envelopes with their names; with versions."""

IN_ENVELOPES: Final[Mapping[int, range]] = {**FORWARDED, 57: CONTROLLER_APIS[57].versions}
"""What Kafka's brokers send on. A broker of ours does not offer changes of features yet."""
