"""The endpoint of a real broker, asked as Prometheus asks it."""

import http.client
import socket

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.server.broker_thread import BrokerThread
from broker_core.server.development import development_settings


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@pytest.fixture
def broker(tmp_path, port):
    given = development_settings(str(tmp_path / "log"), port=0) | {"metrics.listener": f"127.0.0.1:{port}"}
    with BrokerThread(parse_broker_config(given)) as running:
        yield running


def get(port, path, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def values(port):
    status, text = get(port, "/metrics")
    assert status == 200
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_client_requests_are_counted(broker, port):
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for _ in range(3):
        producer.produce("orders", b"value")
    producer.flush(30)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    found = values(port)
    consumer.close()
    assert found["kafka_server_topic_messages_in_total", "orders"] == 3
    assert found["kafka_log_end_offset", "0", "orders"] == 3
    assert found["kafka_log_size_bytes", "0", "orders"] > 3 * 5
    assert found["kafka_consumergroup_lag", "readers", "0", "orders"] == 2
    assert found["kafka_server_connection_count", "PLAINTEXT"] >= 2
    assert found["kafka_server_ready",] == 1
    assert any(name == "kafka_network_request_count_total" and key[:1] == ["Produce"] for name, *key in found)


def test_health_is_served_over_http_and_other_paths_are_404(broker, port):
    assert get(port, "/health") == (200, "ready\n")
    assert get(port, "/")[0] == 404
    assert get(port, "/metrics", "POST")[0] == 405


def test_bytes_that_are_not_http_close_the_connection(broker, port):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(b"\0" * 20_000)
        assert not client.recv(100)
    assert get(port, "/health")[0] == 200
