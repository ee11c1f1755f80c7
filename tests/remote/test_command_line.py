"""`streamlog … --bootstrap-server`, and Kafka's own tools over what it wrote."""

import io
import json
import sys
from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta
from support.brokers.kafka_tools import kafka_tool
from support.brokers.reachable_broker import PASSWORD, PEMS, USER
from support.brokers.scripted_broker import schema_of
from support.builders.builders import a_batch, a_record
from support.clients.confluent_clients import SECONDS, a_consumer
from support.clients.following import between_polls
from support.clients.transacting import begin

from broker_core.cli.command_line import run
from broker_core.client.coordinator_finder import CoordinatorType
from broker_core.client.deadline import Deadline
from broker_core.cluster import GroupOffset
from broker_core.group.consumer.consumer_protocol import encode_assignment
from broker_core.model.identifiers import TopicPartition
from broker_core.protocol.api_table import ApiKey

SUBSCRIPTION = b"\0\0\0\0\0\0\xff\xff\xff\xff"
"""Version 0, no topics, no user data."""


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


def test_follow_reads_added_partitions_and_ends_when_the_topic_is_created_again(broker, client, streamlog, monkeypatch):
    name = broker.name("followed")
    client.create_topic(name, partition_count=1)

    def put(number, *values):
        client.append(TopicPartition(name, number), a_batch([a_record(n, value=v) for n, v in enumerate(values)]))

    def add():
        client.create_partitions(name, 3)
        put(2, b"a", b"b")

    def recreate(*values):
        client.delete_topic(name)
        client.create_topic(name, partition_count=1)
        put(0, *values)

    put(0, b"first")
    between_polls(monkeypatch, add, lambda: put(1, b"c"))
    group = ("--group", broker.name("followers"))
    assert streamlog("consume", name, "--follow", *group)[:2] == (130, b"first\na\nb\nc\n")
    refused = (
        f"streamlog: topic {name!r} was deleted and created again while it was read: run the command again to read the"
        " new topic\n"
    )
    between_polls(monkeypatch, lambda: recreate(b"new", b"second"))
    assert streamlog("consume", name, "--follow", "--partition", 0) == (1, b"first\n", refused)
    # Between two looks the fetch says it, which asks for the topic by its id.
    between_polls(monkeypatch, lambda: recreate(b"x", b"y", b"z"), look_seconds=1000)
    assert streamlog("consume", name, "--follow") == (1, b"new\nsecond\n", refused)


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
        assert err == "current offset -: the group has committed no offset for this partition\n"
    finally:
        reader.close()
    assert streamlog("group", "describe", group)[1].decode().startswith(f"group {group}: Empty, no members\n")


def test_a_missing_group_is_refused_by_name(broker, streamlog):
    name = broker.name("nobody")
    refused = f"streamlog: Group {name!r} has no committed offsets.\n"
    assert streamlog("group", "describe", name) == (1, b"", refused)


def test_a_group_with_an_invalid_topic_name_in_its_assignment_is_described(broker, streamlog, topic):
    # The whole command failed with INVALID_TOPIC_EXCEPTION, and the client id broke the table.
    group, foreign = broker.name("g"), ("a/b", "", "x" * 300, "two\nlines")
    with broker.client(client__id="rude\x1b[2J\nclient") as client:
        assign_to_oneself(client, group, [topic, *foreign])
        status, out, err = streamlog("group", "describe", group)
        told = json.loads(streamlog("group", "describe", group, "--json")[1])["partitions"]
    assert status == 0
    assert all(line.isprintable() for line in out.decode().splitlines())
    assert out.count(rb"rude\x1b[2J\nclient") == 2 * (1 + len(foreign))
    assert err.count("the broker answered INVALID_TOPIC_EXCEPTION\n") == len(foreign)
    assert {one["topic"]: one["log_end_offset"] for one in told} == {topic: 0} | dict.fromkeys(foreign)


def assign_to_oneself(client, group, topics):
    """Joins a classic group and leads it."""
    join, sync = schema_of(ApiKey.JOIN_GROUP, 4, "request"), schema_of(ApiKey.SYNC_GROUP, 2, "request")
    minute = i32Timedelta(timedelta(minutes=1))

    def ask(request):
        deadline = Deadline(SECONDS * 1000, setting="SECONDS")
        (answer,) = client._router.ask_coordinator(CoordinatorType.GROUP, group, [request], deadline)
        return answer

    def joined(member_id):
        return ask(
            join.JoinGroupRequest(
                group_id=group,
                session_timeout=minute,
                rebalance_timeout=minute,
                member_id=member_id,
                protocol_type="consumer",
                protocols=(join.JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION),),
            )
        )

    answer = joined(joined("").member_id)
    assignment = encode_assignment(dict.fromkeys(topics, frozenset({0})), SUBSCRIPTION)
    mine = sync.SyncGroupRequestAssignment(member_id=answer.member_id, assignment=assignment)
    synced = ask(
        sync.SyncGroupRequest(
            group_id=group, generation_id=answer.generation_id, member_id=answer.member_id, assignments=(mine,)
        )
    )
    assert (answer.error_code, synced.error_code) == (ErrorCode.none, ErrorCode.none)


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
