"""The performance tests of producers and consumers, kafka-e2e-latency.sh and the verifiable clients: that they run at
the broker and count right. How fast is not asked.
"""

import json

import pytest
from support.clients.confluent_clients import make_topic, read_all


@pytest.fixture
def topic(broker):
    return make_topic(broker, 2)


def produced(tools, topic, count, *arguments):
    words = ("--topic", topic, "--num-records", count, "--record-size", 100, "--throughput", -1)
    ended = tools.run("ProducerPerformance", *words, *arguments)
    assert ended.lines[-1].startswith(f"{count} records sent, "), ended


def test_records_are_produced_and_consumed_and_counted(tools, broker, topic):
    produced(tools, topic, 5000, "--command-property", "acks=all", "compression.type=lz4")
    assert sum(int(line.split(":")[2]) for line in tools.run("GetOffsetShell", "--topic", topic).lines) == 5000
    titles, figures = tools.run(
        "ConsumerPerformance", "--topic", topic, "--num-records", 5000, "--timeout", 30_000
    ).lines[-2:]
    row = dict(zip(titles.split(", "), figures.split(", "), strict=True))
    assert row["data.consumed.in.nMsg"] == "5000"
    assert {len(message.value()) for message in read_all(broker, topic)} == {100}


def test_records_are_produced_in_transactions(tools, broker, topic):
    produced(tools, topic, 500, "--transaction-duration-ms", 50, "--transactional-id", broker.name("x"))
    assert len(read_all(broker, topic, isolation__level="read_committed")) == 500


def test_records_are_sent_and_received_one_by_one(tools, topic):
    words = ("--topic", topic, "--num-records", 40, "--producer-acks", "all", "--record-size", 50)
    said = tools.run("EndToEndLatency", *words).out
    assert "Avg latency: " in said
    assert "99.9th = " in said


def events(text):
    found = {}
    for line in text.splitlines():
        event = json.loads(line)
        found.setdefault(event["name"], []).append(event)
    return found


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_verifiable_consumer_reads_what_a_verifiable_producer_wrote(tools, broker, topic, protocol):
    words = ("--topic", topic, "--max-messages", 200, "--acks", -1, "--value-prefix", 7, "--repeating-keys", 5)
    sent = events(tools.run("VerifiableProducer", *words).out)
    acknowledged = [(e["key"], e["value"], e["partition"], e["offset"]) for e in sent["producer_send_success"]]
    assert {value for _, value, _, _ in acknowledged} == {f"7.{n}" for n in range(200)}
    assert "producer_send_error" not in sent
    (data,) = sent["tool_data"]
    assert (data["sent"], data["acked"]) == (200, 200)

    group = broker.name("g")
    words = ("--topic", topic, "--group-id", group, "--group-protocol", protocol, "--reset-policy", "earliest")
    words += ("--session-timeout", 6000) if protocol == "classic" else ("--group-remote-assignor", "uniform")
    consumer = tools.begin("VerifiableConsumer", *words, "--verbose")
    consumer.wait_until(lambda said: said.count('"name":"record_data"') >= 200 and _committed(said) == 200)
    read = events(consumer.stop().out)
    records = [(e["key"], e["value"], e["partition"], e["offset"]) for e in read["record_data"]]
    assert sorted(records) == sorted(acknowledged)
    assert sorted(p["partition"] for p in read["partitions_assigned"][-1]["partitions"]) == [0, 1]
    assert len(read["shutdown_complete"]) == 1


def _committed(said):
    """The sum of the latest committed offsets of all partitions."""
    ends = {}
    for event in events(said[: said.rfind("\n") + 1]).get("offsets_committed", []):
        assert event["success"], event
        ends |= {each["partition"]: each["offset"] for each in event["offsets"]}
    return sum(ends.values())
