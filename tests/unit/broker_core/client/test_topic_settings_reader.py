import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8
from support.brokers.scripted_broker import NO_TIME, ScriptedBroker, schema_of
from support.clients.recorded_wire import recorded_exchanges

from broker_core.client.topic_settings_reader import REMEMBERED_SECONDS
from broker_core.model.exceptions import BrokerError
from broker_core.protocol.api_table import ApiKey, message_types
from broker_core.protocol.message_reader import decode


def described(*entries, error=ErrorCode.none):
    """(name, value, source) each; 1 is the topic's own, 4 the broker's file, 5 the default."""
    schema = schema_of(ApiKey.DESCRIBE_CONFIGS, 4)
    configs = tuple(
        schema.DescribeConfigsResourceResult(
            name=name,
            value=value,
            read_only=False,
            config_source=i8(source),
            is_sensitive=False,
            synonyms=(),
            documentation=None,
        )
        for name, value, source in entries
    )
    result = schema.DescribeConfigsResult(
        error_code=error, error_message=None, resource_type=i8(2), resource_name="t", configs=configs
    )
    return schema.DescribeConfigsResponse(throttle_time=NO_TIME, results=(result,))


@pytest.fixture
def broker():
    with ScriptedBroker() as scripted:
        scripted.topics["t"] = 1
        yield scripted


def configs_of(client):
    return client.describe_topics(["t"])["t"].configs


def test_settings_of_the_topic_and_of_the_broker_are_returned(broker):
    broker.script(
        ApiKey.DESCRIBE_CONFIGS,
        described(
            ("retention.ms", "604800000", 1),  # set, to what is the default
            ("max.message.bytes", "5000000", 4),
            ("min.insync.replicas", "1", 4),  # the broker says what everybody says
            ("segment.bytes", "1073741824", 5),
            ("segment.ms", "7200000", 5),  # log.roll.hours=2, which Kafka tells so
            ("brand.new", "x", 4),
            ("newer", "x", 5),
            ("secret", None, 1),
        ),
    )
    assert configs_of(broker.client()) == {
        "retention.ms": "604800000", "max.message.bytes": "5000000", "segment.ms": "7200000", "brand.new": "x",
    }  # fmt: skip


def test_a_response_of_a_real_broker_is_decoded(broker):
    exchange = recorded_exchanges()["describe configs"]
    answer = decode(message_types(32, 4).response, memoryview(exchange.response), 9)[0]
    broker.topics["wire"] = 1
    broker.script(ApiKey.DESCRIBE_CONFIGS, answer)
    assert broker.client().describe_topics(["wire"])["wire"].configs == {"retention.ms": "-1"}


def test_topic_settings_are_cached_briefly(broker, monkeypatch):
    client = broker.client()
    for _ in range(3):
        configs_of(client)
    assert len(broker.asked(ApiKey.DESCRIBE_CONFIGS)) == 1
    monkeypatch.setattr("broker_core.client.topic_settings_reader.REMEMBERED_SECONDS", 0)
    configs_of(client)
    assert len(broker.asked(ApiKey.DESCRIBE_CONFIGS)) == 2
    assert REMEMBERED_SECONDS < 10


@pytest.mark.parametrize("code", ["topic_authorization_failed", "unknown_topic_or_partition"])
def test_a_topic_is_readable_without_access_to_its_settings(broker, code):
    broker.script(ApiKey.DESCRIBE_CONFIGS, described(error=ErrorCode[code]))
    assert configs_of(broker.client()) == {}


def test_other_refusals_are_raised(broker):
    broker.script(ApiKey.DESCRIBE_CONFIGS, described(error=ErrorCode.unknown_server_error))
    with pytest.raises(BrokerError, match="the settings of topic 't'"):
        configs_of(broker.client())
