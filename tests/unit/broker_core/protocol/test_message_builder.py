from datetime import timedelta
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from broker_core.protocol.api_table import ApiKey, message_types
from broker_core.protocol.message_builder import build
from broker_core.protocol.message_reader import decode
from broker_core.protocol.message_writer import encode
from broker_core.protocol.served_versions import SERVED_VERSIONS, is_served

METADATA = {
    "throttle_time": 12,
    "brokers": [{"node_id": 1, "host": "h", "port": 9092}],
    "cluster_id": "c",
    "controller_id": 1,
    "topics": [{"name": "t", "topic_id": UUID(int=5), "partitions": [{"partition_index": 0, "leader_epoch": 7}]}],
}


def response_type(key, version):
    return message_types(key, version).response


def test_fields_that_an_old_version_lacks_are_omitted():
    old, new = (build(response_type(ApiKey.METADATA, version), METADATA) for version in (0, 13))
    assert not hasattr(old, "throttle_time")
    assert not hasattr(old.topics[0].partitions[0], "leader_epoch")
    assert new.throttle_time == timedelta(milliseconds=12)
    assert new.topics[0].topic_id == UUID(int=5)
    assert new.topics[0].partitions[0].leader_epoch == 7


def test_fields_that_only_old_versions_have_are_accepted_for_new_ones():
    values = {"host": "h", "port": 1, "node_id": 2, "coordinators": [{"key": "g", "host": "h", "port": 1}]}
    assert build(response_type(ApiKey.FIND_COORDINATOR, 0), values).host == "h"
    assert build(response_type(ApiKey.FIND_COORDINATOR, 6), values).coordinators[0].key == "g"


def test_a_field_name_that_no_version_has_is_an_error():
    with pytest.raises(TypeError, match="MetadataResponseTopic has no field 'nmae' in any version"):
        build(response_type(ApiKey.METADATA, 1), {"topics": [{"nmae": "t"}]})


def test_missing_fields_take_the_schema_default_or_zero():
    topic = build(response_type(ApiKey.METADATA, 13), {"topics": [{}]}).topics[0]
    assert (topic.error_code, topic.name, topic.partitions) == (ErrorCode.none, None, ())
    assert topic.topic_authorized_operations == -2147483648


@pytest.mark.parametrize("ms", [-1, 0, 1_500, 1_700_000_000_123])
def test_timestamps_are_given_and_read_in_ms(ms):
    response = response_type(ApiKey.DESCRIBE_TRANSACTIONS, 0)
    data = b"".join(encode(build(response, {"transaction_states": [{"transaction_start_time": ms}]})))
    assert ms.to_bytes(8, "big", signed=True) in data


@pytest.mark.parametrize("key", SERVED_VERSIONS, ids=lambda key: key.label)
def test_an_empty_response_of_every_served_version_round_trips(key):
    for version in filter(lambda version: is_served(key, version), SERVED_VERSIONS[key]):
        answer = build(response_type(key, version), {})
        data = b"".join(encode(answer))
        assert decode(type(answer), memoryview(data)) == (answer, len(data))
