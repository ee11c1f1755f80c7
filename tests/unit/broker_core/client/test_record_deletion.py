import pytest
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32, i64
from support.brokers.scripted_broker import NO_TIME, ScriptedBroker, schema_of

from broker_core.model.exceptions import OffsetOutOfRangeError, PolicyViolationError
from broker_core.model.identifiers import TopicPartition
from broker_core.protocol.api_table import ApiKey

T0 = TopicPartition("t", 0)


def removed(low_watermark, error=ErrorCode.none):
    schema = schema_of(ApiKey.DELETE_RECORDS, 2)
    result = schema.DeleteRecordsPartitionResult(
        partition_index=i32(0), low_watermark=i64(low_watermark), error_code=error
    )
    return schema.DeleteRecordsResponse(
        throttle_time=NO_TIME, topics=(schema.DeleteRecordsTopicResult(name=TopicName("t"), partitions=(result,)),)
    )


@pytest.fixture
def broker():
    with ScriptedBroker() as scripted:
        scripted.topics["t"] = 1
        yield scripted


def test_the_new_log_start_is_returned(broker):
    broker.script(ApiKey.DELETE_RECORDS, removed(5))
    assert broker.client().delete_records(T0, -1) == 5
    assert broker.asked(ApiKey.DELETE_RECORDS)[0].topics[0].partitions[0].offset == -1


def test_a_partition_without_a_leader_is_retried(broker):
    broker.script(ApiKey.DELETE_RECORDS, removed(-1, ErrorCode.not_leader_or_follower), removed(7))
    assert broker.client().delete_records(T0, 7) == 7


def test_refusals_are_raised(broker):
    broker.script(ApiKey.DELETE_RECORDS, removed(-1, ErrorCode.offset_out_of_range))
    with pytest.raises(OffsetOutOfRangeError, match="before offset 9: the offset is beyond the high watermark"):
        broker.client().delete_records(T0, 9)
    broker.script(ApiKey.DELETE_RECORDS, removed(-1, ErrorCode.policy_violation))
    with pytest.raises(PolicyViolationError):
        broker.client().delete_records(T0, 9)
