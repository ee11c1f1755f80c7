from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from prometheus_client import CollectorRegistry

from broker_core.protocol.api_table import ApiKey, message_types
from broker_core.protocol.connection import Request
from broker_core.protocol.message_builder import build
from broker_core.server.request_metrics import RequestMetrics

TOPIC_ID = UUID(int=7)


def batch(record_count, size_bytes=100):
    data = bytearray(size_bytes)
    data[8:12] = (size_bytes - 12).to_bytes(4)
    data[57:61] = record_count.to_bytes(4)
    return bytes(data)


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def metrics(registry):
    return RequestMetrics(registry, {TOPIC_ID: "known"}.get)


def observe(metrics, api_key, version, asked, answered, *, seconds=0.003):
    types = message_types(api_key, version)
    request = Request(
        api_key=api_key, api_version=version, correlation_id=1, client_id="c", message=build(types.request, asked),
        size_bytes=50,
    )  # fmt: skip
    metrics.on_answer(request, None if answered is None else build(types.response, answered), 70, seconds)


def test_requests_are_counted_by_api_and_version_and_timed(metrics, registry):
    observe(metrics, ApiKey.HEARTBEAT, 0, {"group_id": "g"}, {"error_code": ErrorCode.none})
    value = registry.get_sample_value
    assert value("kafka_network_request_count_total", {"request": "Heartbeat", "version": "0"}) == 1
    assert value("kafka_network_request_total_time_seconds_sum", {"request": "Heartbeat"}) == 0.003
    assert value("kafka_network_request_bytes_total", {"request": "Heartbeat"}) == 50
    assert value("kafka_network_response_bytes_total", {"request": "Heartbeat"}) == 70
    assert value("kafka_network_request_errors_total", {"request": "Heartbeat", "error": "NONE"}) == 1


def test_errors_are_counted_at_any_depth_of_a_response(metrics, registry):
    partitions = [{"partition_index": n, "error_code": code} for n, code in enumerate(
        [ErrorCode.none, ErrorCode.offset_out_of_range, ErrorCode.offset_out_of_range])]  # fmt: skip
    observe(metrics, ApiKey.LIST_OFFSETS, 1, {}, {"topics": [{"name": "t", "partitions": partitions}]})
    labels = {"request": "ListOffsets", "error": "OFFSET_OUT_OF_RANGE"}
    assert registry.get_sample_value("kafka_network_request_errors_total", labels) == 2
    labels["error"] = "NONE"
    assert registry.get_sample_value("kafka_network_request_errors_total", labels) is None


def test_appended_records_are_counted_and_refused_ones_are_not(metrics, registry):
    asked = [{"index": 0, "records": batch(3) + batch(4)}, {"index": 1, "records": batch(9)}]
    answered = [
        {"index": 0, "error_code": ErrorCode.none},
        {"index": 1, "error_code": ErrorCode.corrupt_message},
    ]
    observe(
        metrics, ApiKey.PRODUCE, 9, {"acks": 1, "topic_data": [{"name": "t", "partition_data": asked}]},
        {"responses": [{"name": "t", "partition_responses": answered}]},
    )  # fmt: skip
    found = {
        name: registry.get_sample_value(f"kafka_server_topic_{name}_total", {"topic": "t"})
        for name in ("messages_in", "bytes_in", "bytes_rejected", "produce_requests", "failed_produce_requests")
    }
    assert found == {
        "messages_in": 7, "bytes_in": 200, "bytes_rejected": 100, "produce_requests": 2, "failed_produce_requests": 1,
    }  # fmt: skip


def test_a_produce_without_a_response_is_counted(metrics, registry):
    data = {"acks": 0, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": batch(3)}]}]}
    observe(metrics, ApiKey.PRODUCE, 9, data, None)
    assert registry.get_sample_value("kafka_server_topic_messages_in_total", {"topic": "t"}) == 3


def test_topics_sent_by_id_are_counted_by_name(metrics, registry):
    answered = [
        {"topic_id": topic_id, "partitions": [{"partition_index": 0, "records": batch(1)}]}
        for topic_id in (TOPIC_ID, UUID(int=8))
    ]
    observe(metrics, ApiKey.FETCH, 13, {}, {"responses": answered})
    assert registry.get_sample_value("kafka_server_topic_bytes_out_total", {"topic": "known"}) == 100
    assert registry.get_sample_value("kafka_server_topic_bytes_out_total", {"topic": "unknown"}) == 100
