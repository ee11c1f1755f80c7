import pytest
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from support.brokers.scripted_broker import CLOSE, NO_TIME, ScriptedBroker, schema_of

from broker_core.model.exceptions import (
    AuthorizationError,
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidTopicNameError,
    RequestTimedOutError,
    TopicExistsError,
    UnknownTopicError,
)
from broker_core.protocol.api_table import ApiKey


def created(error=ErrorCode.none, message=None):
    schema = schema_of(ApiKey.CREATE_TOPICS, 7)
    result = schema.CreatableTopicResult(
        name=TopicName("t"), topic_id=None, error_code=error, error_message=message, configs=None
    )
    return schema.CreateTopicsResponse(throttle_time=NO_TIME, topics=(result,))


def deleted(error=ErrorCode.none):
    schema = schema_of(ApiKey.DELETE_TOPICS, 6)
    result = schema.DeletableTopicResult(name=TopicName("t"), topic_id=None, error_code=error)
    return schema.DeleteTopicsResponse(throttle_time=NO_TIME, responses=(result,))


def grown(error=ErrorCode.none, message=None):
    schema = schema_of(ApiKey.CREATE_PARTITIONS, 3)
    result = schema.CreatePartitionsTopicResult(name=TopicName("t"), error_code=error, error_message=message)
    return schema.CreatePartitionsResponse(throttle_time=NO_TIME, results=(result,))


def altered(error=ErrorCode.none, message=None):
    schema = schema_of(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
    result = schema.AlterConfigsResourceResponse(
        error_code=error, error_message=message, resource_type=2, resource_name="t"
    )
    return schema.IncrementalAlterConfigsResponse(throttle_time=NO_TIME, responses=(result,))


@pytest.fixture
def broker():
    with ScriptedBroker() as scripted:
        yield scripted


@pytest.fixture
def client(broker):
    return broker.client()


def test_topics_that_do_not_exist_are_missing_from_a_description(broker, client):
    broker.topics.update(a=2, __b=1)
    assert {name: topic.partition_count for name, topic in client.describe_topics(["a", "nope"]).items()} == {"a": 2}
    assert {name: topic.is_internal for name, topic in client.describe_topics().items()} == {"a": False, "__b": True}
    assert client.describe_topics([]) == {}


def test_creating_a_topic_waits_until_a_broker_shows_it(broker, client):
    def create(request):
        broker.topics["t"] = 3
        broker.leaders.update({("t", number): -1 for number in range(3)})
        return created()

    def shown_later(request):
        if len(broker.asked(ApiKey.METADATA)) > 4:
            broker.leaders.clear()
        return broker._metadata(request.message)

    broker.script(ApiKey.CREATE_TOPICS, create)
    broker.script(ApiKey.METADATA, shown_later)
    topic = client.create_topic("t", configs={"retention.ms": "5"})
    assert topic.partition_count == 3
    assert broker.leaders == {}, "it returned before there were leaders"
    (request,) = broker.asked(ApiKey.CREATE_TOPICS)
    asked = request.topics[0]
    assert (asked.num_partitions, asked.replication_factor) == (-1, -1)
    assert [(config.name, config.value) for config in asked.configs] == [("retention.ms", "5")]


def test_a_creation_whose_response_was_lost_succeeds(broker, client):
    def create_and_hang_up(request):
        broker.topics["t"] = 1
        return CLOSE

    broker.script(ApiKey.CREATE_TOPICS, create_and_hang_up, created(ErrorCode.topic_already_exists))
    assert client.create_topic("t").name == "t"
    assert len(broker.asked(ApiKey.CREATE_TOPICS)) == 2


def test_creating_an_existing_topic_fails(broker, client):
    broker.topics["t"] = 1
    not_the_one = created(ErrorCode.not_controller)
    broker.script(ApiKey.CREATE_TOPICS, not_the_one, created(ErrorCode.topic_already_exists))
    with pytest.raises(TopicExistsError, match="Topic 't' already exists"):
        client.create_topic("t")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.invalid_topic_exception, InvalidTopicNameError),
        (ErrorCode.invalid_config, InvalidConfigError),
        (ErrorCode.invalid_partitions, InvalidPartitionsError),
        (ErrorCode.cluster_authorization_failed, AuthorizationError),
    ],
)
def test_a_refusal_is_raised_with_the_brokers_message(broker, client, code, kind):
    broker.script(ApiKey.CREATE_TOPICS, created(code, "because of this"))
    with pytest.raises(kind, match="create topic 't': because of this"):
        client.create_topic("t")


def test_a_topic_that_no_broker_shows_times_out(broker):
    broker.script(ApiKey.CREATE_TOPICS, created())
    with pytest.raises(RequestTimedOutError, match=r"the change was accepted, but no broker shows it within 2000 ms"):
        broker.client(default__api__timeout__ms=2000).create_topic("t")


def test_topic_changes_are_sent_to_the_controller(broker):
    with ScriptedBroker(node_id=2) as controller:
        broker.nodes[2] = ("127.0.0.1", controller.port)
        broker.controller_id = 2

        def create(request):
            broker.topics["t"] = controller.topics["t"] = 1
            return created()

        controller.script(ApiKey.CREATE_TOPICS, create)
        broker.client().create_topic("t")
        assert broker.asked(ApiKey.CREATE_TOPICS) == []


def test_deleting_a_topic_waits_until_it_is_gone(broker, client):
    broker.topics["t"] = 1

    def delete(request):
        del broker.topics["t"]
        return deleted()

    broker.script(ApiKey.DELETE_TOPICS, delete)
    client.delete_topic("t")
    assert client.describe_topics(["t"]) == {}


def test_deleting_a_missing_topic_fails_unless_a_retry_deleted_it(broker, client):
    broker.script(ApiKey.DELETE_TOPICS, deleted(ErrorCode.unknown_topic_or_partition))
    with pytest.raises(UnknownTopicError, match="Topic 't' does not exist"):
        client.delete_topic("t")
    broker.script(ApiKey.DELETE_TOPICS, CLOSE, deleted(ErrorCode.unknown_topic_or_partition))
    client.delete_topic("t")


def test_adding_partitions_waits_until_they_are_visible(broker, client):
    broker.topics["t"] = 1

    def grow(request):
        broker.topics["t"] = request.message.topics[0].count
        return grown()

    broker.script(ApiKey.CREATE_PARTITIONS, grow)
    assert client.create_partitions("t", 4).partition_count == 4
    broker.script(ApiKey.CREATE_PARTITIONS, grown(ErrorCode.invalid_partitions, "fewer than there are"))
    with pytest.raises(InvalidPartitionsError, match="fewer than there are"):
        client.create_partitions("t", 2)


def test_settings_are_set_and_reset(broker, client):
    broker.topics["t"] = 1
    broker.script(ApiKey.INCREMENTAL_ALTER_CONFIGS, altered())
    client.alter_topic_configs("t", {"retention.ms": None})
    client.alter_topic_configs("t", {})
    first = broker.asked(ApiKey.INCREMENTAL_ALTER_CONFIGS)[0].resources[0]
    assert [(one.name, one.config_operation, one.value) for one in first.configs] == [("retention.ms", 1, None)]


def test_settings_of_a_missing_topic_and_invalid_settings_are_refused(broker, client):
    broker.script(ApiKey.INCREMENTAL_ALTER_CONFIGS, altered(ErrorCode.unknown_topic_or_partition))
    with pytest.raises(UnknownTopicError):
        client.alter_topic_configs("t", {"a": "1"})
    broker.script(ApiKey.INCREMENTAL_ALTER_CONFIGS, altered(ErrorCode.invalid_config, "Unknown topic config name: a"))
    with pytest.raises(InvalidConfigError, match="Unknown topic config name: a"):
        client.alter_topic_configs("t", {"a": "1"})
