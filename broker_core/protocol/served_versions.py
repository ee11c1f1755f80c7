"""The requests that a broker supports, with their versions: the table behind ApiVersions.

The ranges are Kafka 4.3's. As in Kafka, Produce is announced from version 0: librdkafka before 2.11 looks for versions
0 to 2 to detect other features, and never sends them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from broker_core.protocol.api_table import ApiKey, versions_with_schemas


def _up_to(last: int, *, first: int = 0) -> range:
    return range(first, last + 1)


SERVED_VERSIONS: Final[Mapping[ApiKey, range]] = MappingProxyType(
    {
        ApiKey.PRODUCE: _up_to(13),
        ApiKey.FETCH: _up_to(18, first=4),
        ApiKey.LIST_OFFSETS: _up_to(11, first=1),
        ApiKey.METADATA: _up_to(13),
        ApiKey.OFFSET_COMMIT: _up_to(10, first=2),
        ApiKey.OFFSET_FETCH: _up_to(10, first=1),
        ApiKey.FIND_COORDINATOR: _up_to(6),
        ApiKey.JOIN_GROUP: _up_to(9),
        ApiKey.HEARTBEAT: _up_to(4),
        ApiKey.LEAVE_GROUP: _up_to(5),
        ApiKey.SYNC_GROUP: _up_to(5),
        ApiKey.DESCRIBE_GROUPS: _up_to(6),
        ApiKey.LIST_GROUPS: _up_to(5),
        ApiKey.SASL_HANDSHAKE: _up_to(1),
        ApiKey.API_VERSIONS: _up_to(4),
        ApiKey.CREATE_TOPICS: _up_to(7, first=2),
        ApiKey.DELETE_TOPICS: _up_to(6, first=1),
        ApiKey.DELETE_RECORDS: _up_to(2),
        ApiKey.INIT_PRODUCER_ID: _up_to(5),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: _up_to(4, first=2),
        ApiKey.ADD_PARTITIONS_TO_TXN: _up_to(5),
        ApiKey.ADD_OFFSETS_TO_TXN: _up_to(4),
        ApiKey.END_TXN: _up_to(5),
        ApiKey.WRITE_TXN_MARKERS: _up_to(2, first=1),
        ApiKey.TXN_OFFSET_COMMIT: _up_to(5),
        ApiKey.DESCRIBE_ACLS: _up_to(3, first=1),
        ApiKey.CREATE_ACLS: _up_to(3, first=1),
        ApiKey.DELETE_ACLS: _up_to(3, first=1),
        ApiKey.DESCRIBE_CONFIGS: _up_to(4, first=1),
        ApiKey.ALTER_CONFIGS: _up_to(2),
        ApiKey.DESCRIBE_LOG_DIRS: _up_to(5, first=1),
        ApiKey.SASL_AUTHENTICATE: _up_to(2),
        ApiKey.CREATE_PARTITIONS: _up_to(3),
        ApiKey.DELETE_GROUPS: _up_to(2),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _up_to(1),
        ApiKey.OFFSET_DELETE: _up_to(0),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: _up_to(1),
        ApiKey.ALTER_CLIENT_QUOTAS: _up_to(1),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _up_to(0),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _up_to(0),
        ApiKey.DESCRIBE_CLUSTER: _up_to(2),
        ApiKey.DESCRIBE_PRODUCERS: _up_to(0),
        ApiKey.DESCRIBE_TRANSACTIONS: _up_to(0),
        ApiKey.LIST_TRANSACTIONS: _up_to(2),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: _up_to(1),
        ApiKey.CONSUMER_GROUP_DESCRIBE: _up_to(1),
        ApiKey.LIST_CONFIG_RESOURCES: _up_to(1),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: _up_to(0),
    }
)
"""Announced ranges, by key."""


@cache
def is_served(api_key: int, version: int) -> bool:
    """Versions that are announced and have a schema: requests that can be read and answered."""
    try:
        announced = SERVED_VERSIONS[ApiKey(api_key)]
    except (ValueError, KeyError):
        return False
    return version in announced and version in versions_with_schemas(api_key)
