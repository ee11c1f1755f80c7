"""Topics of a broker: created, described, changed and deleted."""

import pytest
from support.brokers.either_broker import EITHER_BROKER, running_broker

from broker_core.model.exceptions import (
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidTopicNameError,
    TopicExistsError,
    TopicNotCreatedError,
    UnknownTopicError,
)
from broker_core.model.identifiers import TopicPartition
from broker_core.topic_producer import TopicCreation, describe_or_create


def test_a_topic_can_be_used_when_its_creation_returns(broker, client):
    name = broker.name()
    made = client.create_topic(
        name, partition_count=5, configs={"retention.ms": "1234567", "cleanup.policy": "compact"}
    )
    assert (made.name, made.partition_count, made.is_internal) == (name, 5, False)
    assert made.configs == {"retention.ms": "1234567", "cleanup.policy": "compact"}
    for number in range(5):
        assert client.bounds(TopicPartition(name, number)).high_watermark == 0
    assert client.describe_topics([name, "nope"]) == {name: made}
    assert client.describe_topics()[name] == made


def test_the_brokers_default_number_of_partitions(broker, client):
    assert client.create_topic(broker.name()).partition_count == 1


def test_what_kafka_refuses_is_refused_with_its_message(broker, client, topic):
    with pytest.raises(TopicExistsError, match=topic):
        client.create_topic(topic)
    with pytest.raises(InvalidTopicNameError, match=r"illegal|invalid"):
        client.create_topic("not a name")
    with pytest.raises(InvalidTopicNameError, match="collide"):
        client.create_topic(topic.replace("-", ".") + "x") and client.create_topic(topic.replace("-", "_") + "x")
    with pytest.raises(InvalidConfigError, match=r"retention.ms"):
        client.create_topic(broker.name(), configs={"retention.ms": "soon"})
    with pytest.raises(InvalidPartitionsError):
        client.create_topic(broker.name(), partition_count=0)
    with pytest.raises(InvalidConfigError, match="Unknown topic config name"):
        client.alter_topic_configs(topic, {"no.such.setting": "1"})


def test_settings_are_changed_and_reset(client, topic):
    changed = client.alter_topic_configs(topic, {"max.message.bytes": "5000", "retention.ms": "99999"})
    assert changed.configs == {"max.message.bytes": "5000", "retention.ms": "99999"}
    assert client.alter_topic_configs(topic, {"retention.ms": None}).configs == {"max.message.bytes": "5000"}


def test_partitions_only_grow(client, topic):
    assert client.create_partitions(topic, 4).partition_count == 4
    assert client.bounds(TopicPartition(topic, 3)).log_end_offset == 0
    for count in (2, 4):
        with pytest.raises(InvalidPartitionsError):
            client.create_partitions(topic, count)


def test_a_deleted_topic_can_be_created_again(client, topic):
    before = client.describe_topics([topic])[topic]
    client.delete_topic(topic)
    assert client.describe_topics([topic]) == {}
    for call in (
        lambda: client.bounds(TopicPartition(topic, 0)),
        lambda: client.delete_topic(topic),
        lambda: client.create_partitions(topic, 9),
        lambda: client.alter_topic_configs(topic, {"retention.ms": "1"}),
    ):
        with pytest.raises(UnknownTopicError):
            call()
    assert client.create_topic(topic).topic_id != before.topic_id


def test_describing_a_topic_does_not_create_it(client, broker):
    name = broker.name("never-made")
    with pytest.raises(UnknownTopicError):
        client.bounds(TopicPartition(name, 0))
    assert name not in client.describe_topics()


@pytest.mark.parametrize("kind", EITHER_BROKER)
def test_a_write_creates_no_topic_if_the_brokers_do_not(kind, tmp_path):
    with (
        running_broker(kind, tmp_path / "node", settings=["auto.create.topics.enable=false"]) as broker,
        broker.client() as client,
    ):
        assert client.auto_creates_topics() is False
        with pytest.raises(TopicNotCreatedError, match=r"auto.create.topics.enable is false"):
            describe_or_create(client, "missing")
        assert client.describe_topics() == {}
        assert describe_or_create(client, "asked-for", creation=TopicCreation.ALWAYS).name == "asked-for"


def test_a_write_creates_a_topic_if_the_brokers_do(broker, client):
    assert client.auto_creates_topics() is True
    name = broker.name()
    assert describe_or_create(client, name, configs={"retention.ms": "-1"}).configs == {"retention.ms": "-1"}
