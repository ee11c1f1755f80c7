"""Three controllers of ours over two real Kafka brokers, which notice no difference; `pytest -m kafka`."""

import time

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from support.brokers import kafka_tools
from support.brokers.real_brokers import RealBrokers
from support.quorum.our_quorum import CLUSTER_ID, OurQuorum

SECONDS = 90
SHORT_SESSION = ("broker.session.timeout.ms=5000",)
"""Long enough for a busy machine, on which a broker may be fenced for a moment."""

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def controllers(tmp_path_factory):
    if reason := kafka_tools.why_unavailable():
        pytest.skip(reason)
    with OurQuorum(tmp_path_factory.mktemp("controllers"), settings=SHORT_SESSION) as controllers:
        controllers.start()
        yield controllers


@pytest.fixture(scope="module")
def brokers(controllers, tmp_path_factory):
    with RealBrokers(
        tmp_path_factory.mktemp("brokers"),
        cluster_id=CLUSTER_ID,
        voters=controllers.voters,
    ) as brokers:
        brokers.start()
        yield brokers


@pytest.fixture(scope="module")
def admin(brokers):
    return AdminClient({"bootstrap.servers": brokers.bootstrap_servers, "log_level": 0})


def topic_command(brokers, *arguments):
    return kafka_tools.kafka_tool(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", brokers.bootstrap_servers, *arguments
    )


def wait_until(condition, log=lambda: ""):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, log()
        time.sleep(0.1)


def partition(admin, topic, number=0):
    return admin.list_topics(topic, timeout=30).topics[topic].partitions[number]


def in_sync(admin, topic):
    """By partition; empty while the broker that is asked does not know the topic yet."""
    return [sorted(each.isrs) for each in admin.list_topics(topic, timeout=30).topics[topic].partitions.values()]


def produce(brokers, topic, *values):
    """With acks=all; returns when each is acknowledged."""
    errors = []
    producer = Producer({"bootstrap.servers": brokers.bootstrap_servers, "acks": "all", "log_level": 0})
    for value in values:
        producer.produce(topic, value.encode(), on_delivery=lambda error, message: errors.append(error))
    assert producer.flush(SECONDS) == 0
    assert errors == [None] * len(values)


def consumed(brokers, topic, count):
    consumer = Consumer(
        {
            "bootstrap.servers": brokers.bootstrap_servers,
            "group.id": f"of-{topic}-{time.monotonic()}",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    found, deadline = [], time.monotonic() + SECONDS
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append(message.value().decode())
    consumer.close()
    return sorted(found)


def test_real_brokers_register_and_are_unfenced(brokers, admin, controllers):
    wait_until(lambda: sorted(admin.list_topics(timeout=30).brokers) == [101, 102], lambda: brokers.log_of(101))
    described, _ = controllers.described()
    assert sorted(each.node_id for each in described.replicas if not each.is_voter) == [101, 102]


def test_a_topic_made_with_kafkas_tool_is_written_and_read(brokers, admin):
    topic_command(
        brokers, "--create", "--topic", "made", "--partitions", "2", "--replication-factor", "2", "--config",
        "min.insync.replicas=1",
    )  # fmt: skip
    shown = topic_command(brokers, "--describe", "--topic", "made")
    assert "ReplicationFactor: 2" in shown and "min.insync.replicas=1" in shown
    wait_until(lambda: in_sync(admin, "made") == [[101, 102], [101, 102]])
    produce(brokers, "made", *map(str, range(10, 60)))
    assert consumed(brokers, "made", 50) == list(map(str, range(10, 60)))


def test_the_leader_moves_when_its_broker_is_killed_and_the_broker_comes_back_into_the_isr(brokers, admin):
    topic_command(brokers, "--create", "--topic", "moved", "--replica-assignment", "101:102")
    produce(brokers, "moved", "before")
    brokers.kill(101)
    wait_until(lambda: partition(admin, "moved").leader == 102)
    assert partition(admin, "moved").isrs == [102]
    produce(brokers, "moved", "without")
    brokers.start(101)
    wait_until(lambda: sorted(partition(admin, "moved").isrs) == [101, 102], lambda: brokers.log_of(101)[-5000:])
    produce(brokers, "moved", "after")
    assert consumed(brokers, "moved", 3) == ["after", "before", "without"]


def test_kafkas_tool_gives_the_lead_back_to_the_first_replica(brokers, admin):
    assert partition(admin, "moved").leader == 102
    kafka_tools.kafka_tool(
        "org.apache.kafka.tools.LeaderElectionCommand", "--bootstrap-server", brokers.bootstrap_servers,
        "--election-type", "preferred", "--topic", "moved", "--partition", "0",
    )  # fmt: skip
    wait_until(lambda: partition(admin, "moved").leader == 101)


def test_the_cluster_goes_on_when_the_active_controller_is_killed(brokers, admin, controllers):
    before, _ = controllers.described()
    controllers.kill(before.leader_id)
    produce(brokers, "made", "meanwhile")
    after, _ = controllers.described(other_than=before.leader_id, past=before.high_watermark)
    assert after.leader_epoch > before.leader_epoch
    topic_command(brokers, "--create", "--topic", "later", "--partitions", "3", "--replication-factor", "2")
    produce(brokers, "later", "one")
    assert consumed(brokers, "later", 1) == ["one"]
    controllers.start(before.leader_id)
    wait_until(lambda: sorted(admin.list_topics(timeout=30).brokers) == [101, 102])


def test_settings_and_partitions_are_changed_and_topics_deleted_with_kafkas_tools(brokers, admin):
    later = ("--entity-type", "topics", "--entity-name", "later")
    config_command(brokers, "--alter", *later, "--add-config", "retention.ms=123456")
    topic_command(brokers, "--alter", "--topic", "later", "--partitions", "5")
    shown = topic_command(brokers, "--describe", "--topic", "later")
    assert "PartitionCount: 5" in shown and "retention.ms=123456" in shown
    topic_command(brokers, "--delete", "--topic", "later")
    wait_until(lambda: "later" not in admin.list_topics(timeout=30).topics)


def config_command(brokers, *arguments):
    return kafka_tools.kafka_tool(
        "kafka.admin.ConfigCommand", "--bootstrap-server", brokers.bootstrap_servers, *arguments
    )


def test_users_and_quotas_are_set_with_kafkas_tools(brokers):
    alice = ("--entity-type", "users", "--entity-name", "alice")
    config_command(brokers, "--alter", *alice, "--add-config", "SCRAM-SHA-256=[iterations=4096,password=secret]")
    config_command(brokers, "--alter", *alice, "--add-config", "producer_byte_rate=1048576")
    shown = config_command(brokers, "--describe", *alice)
    assert "SCRAM-SHA-256=iterations=4096" in shown and "producer_byte_rate=1048576" in shown


def test_a_broker_that_stops_moves_what_it_leads_first(brokers, admin):
    topic_command(brokers, "--create", "--topic", "left", "--replica-assignment", "102:101")
    produce(brokers, "left", "before")
    assert brokers.stop(102) < 30
    assert (partition(admin, "left").leader, partition(admin, "left").isrs) == (101, [101])
    produce(brokers, "left", "after")
    brokers.start(102)
    wait_until(lambda: sorted(partition(admin, "left").isrs) == [101, 102], lambda: brokers.log_of(102)[-5000:])


def test_partitions_move_with_kafkas_tool(brokers, admin, tmp_path):
    topic_command(brokers, "--create", "--topic", "moving", "--replica-assignment", "101")
    produce(brokers, "moving", "before")
    plan = tmp_path / "plan.json"
    plan.write_text('{"version":1,"partitions":[{"topic":"moving","partition":0,"replicas":[102]}]}')
    kafka_tools.kafka_tool(
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand", "--bootstrap-server", brokers.bootstrap_servers,
        "--reassignment-json-file", str(plan), "--execute",
    )  # fmt: skip
    wait_until(lambda: partition(admin, "moving").replicas == [102])
    assert (partition(admin, "moving").leader, partition(admin, "moving").isrs) == (102, [102])
    produce(brokers, "moving", "after")
    assert consumed(brokers, "moving", 2) == ["after", "before"]


def test_the_brokers_logged_no_error(brokers):
    # Logged for each partition that is added to an existing topic, also under a real controller.
    expected = "to exist, but it was missing. Creating..."
    for broker_id in brokers.broker_ids:
        assert [line for line in brokers.errors_of(broker_id) if expected not in line] == []
