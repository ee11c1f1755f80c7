"""`streamlog … --bootstrap-server`, and Kafka's own tools over what it wrote."""

import io
import json
import sys

import pytest
from confluent_clients import SECONDS, a_consumer
from kafka_tools import kafka_tool
from reachable_broker import PASSWORD, PEMS, USER
from transacting import begin

from broker_core.cli.command_line import run
from broker_core.cluster import GroupOffset
from broker_core.model.identifiers import TopicPartition


@pytest.fixture
def streamlog(broker, capsysbinary, monkeypatch):
    """(exit code, stdout, stderr) of a command line."""

    def call(*arguments, stdin=b"", listener="PLAINTEXT"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsysbinary.readouterr()
        status = run([*map(str, arguments), "--bootstrap-server", broker.bootstrap(listener)])
        captured = capsysbinary.readouterr()
        return status, captured.out, captured.err.decode()

    return call


def test_a_topic_from_its_creation_to_its_deletion(broker, streamlog):
    name = broker.name("cli")
    assert streamlog("topic", "create", name, "--partitions", 2, "--config", "retention.ms=-1")[0] == 0
    lines = b"".join(b"key-%d\tvalue-%d\n" % (number % 7, number) for number in range(1000))
    assert streamlog("produce", name, "--key-separator", r"\t", "--compression", "lz4", stdin=lines)[0] == 0
    _, out, _ = streamlog("consume", name)
    assert sorted(out.splitlines()) == sorted(b"value-%d" % number for number in range(1000))
    assert len(streamlog("consume", name, "--last", 1)[1].splitlines()) == 2
    described = json.loads(streamlog("topic", "describe", name, "--json")[1])
    assert sum(found["log_end_offset"] for found in described["partitions"]) == 1000
    assert described["configs"] == {"retention.ms": "-1"}
    assert streamlog("topic", "alter", name, "--partitions", 3)[0] == 0
    assert name in streamlog("topic", "list")[1].decode()
    assert streamlog("topic", "delete", name, "--yes")[0] == 0
    assert streamlog("topic", "describe", name) == (1, b"", f"streamlog: topic {name!r} does not exist\n")


def test_a_login_and_tls_by_a_properties_file(broker, streamlog, topic, tmp_path):
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config="
        f'org.apache.kafka.common.security.scram.ScramLoginModule required \\\n  username="{USER}" '
        f'password="{PASSWORD}";\nssl.truststore.type=PEM\nssl.truststore.location={PEMS / "authority.pem"}\n'
    )
    status, out, err = streamlog("topic", "list", "--command-config", config, listener="SASL_SSL")
    assert (status, err) == (0, "")
    assert topic in out.decode()


def test_groups_and_transactions(broker, client, streamlog, topic):
    partition, group, name = TopicPartition(topic, 0), broker.name("g"), broker.name("x")
    streamlog("produce", topic, "--partition", "0", stdin=b"one\ntwo\nthree\n")
    client.commit_offsets(group, {partition: GroupOffset(offset=1)})
    assert group in streamlog("group", "list")[1].decode().split()
    (lag,) = json.loads(streamlog("group", "describe", group, "--json")[1])["partitions"]
    assert (lag["offset"], lag["log_end_offset"], lag["behind_offsets"]) == (1, 3, 2)
    assert lag["behind_bytes"] > 0
    assert streamlog("group", "delete", group, "--yes")[0] == 0
    begin(client, name, partition)
    (found,) = json.loads(streamlog("transactions", "list", "--open", "--prefix", name, "--json")[1])
    assert (found["transactional_id"], found["state"]) == (name, "Ongoing")
    assert streamlog("transactions", "describe", name)[0] == 0
    assert json.loads(streamlog("transactions", "abort", name, "--json")[1]) == {"aborted": [name]}
    assert streamlog("transactions", "list", "--open", "--prefix", name, "--json")[1].strip() == b"[]"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_described_with_its_state_and_members(broker, streamlog, topic, protocol):
    group = broker.name("g")
    streamlog("produce", topic, "--partition", "0", stdin=b"one\ntwo\nthree\n")
    reader = a_consumer(broker, group, client__id="app", group__protocol=protocol)
    reader.subscribe([topic])
    try:
        (message,) = reader.consume(1, SECONDS)
        reader.commit(message, asynchronous=False)
        described = json.loads(streamlog("group", "describe", group, "--json")[1])
        assert described["state"] == "Stable"
        (member,) = described["members"]
        assert member["client_id"] == "app"
        assert [each["partition"] for each in member["partitions"]] == [0, 1]
        offsets = [(each["offset"], each["log_end_offset"]) for each in described["partitions"]]
        assert offsets == [(1, 3), (None, 0)]
        _, out, err = streamlog("group", "describe", group)
        assert out.decode().startswith(f"group {group}: Stable, 1 member, ")
        assert err == "current offset -: the group has committed nothing for this partition yet\n"
    finally:
        reader.close()
    assert streamlog("group", "describe", group)[1].decode().startswith(f"group {group}: Empty, no members\n")


@pytest.mark.kafka
def test_kafkas_own_consumer_reads_what_was_produced(broker, streamlog, topic):
    streamlog("produce", topic, "--compression", "zstd", stdin=b"one\ntwo\nthree\n")
    said = kafka_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", broker.bootstrap(), "--topic", topic,
        "--from-beginning", "--max-messages", "3", "--timeout-ms", "30000",
    )  # fmt: skip
    assert sorted(said.split()) == ["one", "three", "two"]


@pytest.mark.kafka
def test_what_kafkas_own_producer_wrote_is_read(broker, streamlog, topic):
    kafka_tool(
        "org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", "5000", "--record-size", "100",
        "--throughput", "-1", "--producer-props", f"bootstrap.servers={broker.bootstrap()}", "compression.type=snappy",
        "enable.idempotence=true",
    )  # fmt: skip
    assert len(streamlog("consume", topic)[1].splitlines()) == 5000
