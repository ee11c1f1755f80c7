"""Kafka's API keys, and the messages of a key and version, loaded at first use.

kio has a module for each version of each message, six hundred in all; reading a topic needs eight of them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from kio.index import KioIndexError, load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.static.protocol import RequestPayload, ResponsePayload

from broker_core.model.exceptions import UnsupportedVersionError


class ApiKey(enum.IntEnum):
    """Kafka's API keys, without those between brokers."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    INCREMENTAL_ALTER_CONFIGS = 44
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75

    @property
    def label(self) -> str:
        """Kafka's name of the API, as in its documentation and tools."""
        return "".join(word.capitalize() for word in self.name.split("_"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTypes:
    """Both messages of one API in one version, with their headers."""

    request: type[RequestPayload]
    response: type[ResponsePayload]

    @property
    def request_header(self) -> Any:
        return self.request.__header_schema__

    @property
    def response_header(self) -> Any:
        """For ApiVersions always the oldest header: the reader may not know the broker's versions yet."""
        return self.response.__header_schema__


@cache
def message_types(api_key: int, version: int) -> MessageTypes:
    """Raises UnsupportedVersionError for a key or version without a schema."""
    try:
        return MessageTypes(
            request=load_request_schema(api_key, version), response=load_response_schema(api_key, version)
        )
    except KioIndexError as error:
        raise UnsupportedVersionError(
            f"There is no schema for {api_label(api_key)} version {version}", api_key=api_key, version=version
        ) from error


@lru_cache(256)
def versions_with_schemas(api_key: int) -> range:
    """The versions that `message_types` knows; empty for an unknown key."""
    name = api_key_map.get(api_key)
    versions = sorted(schema_name_map[name]) if name is not None else []
    return range(versions[0], versions[-1] + 1) if versions else range(0)


def api_label(api_key: int) -> str:
    """Kafka's name of the API, also of one between nodes; its number if there is no schema."""
    name = api_key_map.get(api_key)
    return f"API key {api_key}" if name is None else "".join(word.capitalize() for word in name.split("_"))
