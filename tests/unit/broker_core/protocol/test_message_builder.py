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


def test_what_an_old_version_does_not_have_is_left_out():
    old, new = (build(response_type(ApiKey.METADATA, version), METADATA) for version in (0, 13))
    assert not hasattr(old, "throttle_time")
    assert not hasattr(old.topics[0].partitions[0], "leader_epoch")
    assert new.throttle_time == timedelta(milliseconds=12)
    assert new.topics[0].topic_id == UUID(int=5)
    assert new.topics[0].partitions[0].leader_epoch == 7


def test_what_only_old_versions_have_may_be_given_to_new_ones():
    values = {"host": "h", "port": 1, "node_id": 2, "coordinators": [{"key": "g", "host": "h", "port": 1}]}
    assert build(response_type(ApiKey.FIND_COORDINATOR, 0), values).host == "h"
    assert build(response_type(ApiKey.FIND_COORDINATOR, 6), values).coordinators[0].key == "g"


def test_a_name_that_no_version_has_is_a_mistake():
    with pytest.raises(TypeError, match="MetadataResponseTopic has no field 'nmae' in any version"):
        build(response_type(ApiKey.METADATA, 1), {"topics": [{"nmae": "t"}]})


def test_what_is_not_given_takes_the_schemas_default_or_zero():
    topic = build(response_type(ApiKey.METADATA, 13), {"topics": [{}]}).topics[0]
    assert (topic.error_code, topic.name, topic.partitions) == (ErrorCode.none, None, ())
    assert topic.topic_authorized_operations == -2147483648


@pytest.mark.parametrize("ms", [-1, 0, 1_500, 1_700_000_000_123])
def test_instants_are_given_in_ms_and_read_as_such(ms):
    response = response_type(ApiKey.DESCRIBE_TRANSACTIONS, 0)
    data = b"".join(encode(build(response, {"transaction_states": [{"transaction_start_time": ms}]})))
    assert ms.to_bytes(8, "big", signed=True) in data


@pytest.mark.parametrize("key", SERVED_VERSIONS, ids=lambda key: key.label)
def test_an_empty_answer_of_every_served_version_survives_the_wire(key):
    for version in filter(lambda version: is_served(key, version), SERVED_VERSIONS[key]):
        answer = build(response_type(key, version), {})
        data = b"".join(encode(answer))
        assert decode(type(answer), memoryview(data)) == (answer, len(data))
