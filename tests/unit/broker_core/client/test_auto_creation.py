import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8
from support.brokers.scripted_broker import NO_TIME, ScriptedBroker, schema_of

from broker_core.model.exceptions import BrokerError
from broker_core.protocol.api_table import ApiKey

SETTING = "auto.create.topics.enable"


@pytest.fixture
def broker():
    with ScriptedBroker() as scripted:
        yield scripted


def described(*entries, error=ErrorCode.none):
    schema = schema_of(ApiKey.DESCRIBE_CONFIGS, 4)
    configs = tuple(
        schema.DescribeConfigsResourceResult(
            name=name,
            value=value,
            read_only=True,
            config_source=i8(4),
            is_sensitive=False,
            synonyms=(),
            documentation=None,
        )
        for name, value in entries
    )
    result = schema.DescribeConfigsResult(
        error_code=error, error_message=None, resource_type=i8(4), resource_name="1", configs=configs
    )
    return schema.DescribeConfigsResponse(throttle_time=NO_TIME, results=(result,))


@pytest.mark.parametrize(("value", "is_so"), [("true", True), ("TRUE", True), ("false", False)])
def test_the_setting_is_requested_from_its_broker(broker, value, is_so):
    broker.script(ApiKey.DESCRIBE_CONFIGS, described(("num.partitions", "3"), (SETTING, value)))
    assert broker.client().auto_creates_topics() is is_so
    ((resource,),) = [request.resources for request in broker.asked(ApiKey.DESCRIBE_CONFIGS)]
    assert (resource.resource_type, resource.configuration_keys) == (4, (SETTING,))
    assert resource.resource_name.isdigit()


def test_without_access_to_broker_settings_the_result_is_none(broker):
    broker.script(ApiKey.DESCRIBE_CONFIGS, described(error=ErrorCode.cluster_authorization_failed))
    assert broker.client().auto_creates_topics() is None
    broker.script(ApiKey.DESCRIBE_CONFIGS, described())
    assert broker.client().auto_creates_topics() is None


def test_any_other_refusal_is_an_error(broker):
    broker.script(ApiKey.DESCRIBE_CONFIGS, described(error=ErrorCode.unknown_server_error))
    with pytest.raises(BrokerError, match="the settings of broker"):
        broker.client().auto_creates_topics()
