import pickle

import pytest

from broker_core.model.client_settings import BrokerAddress
from spark_streamlog.errors import ConditionError
from spark_streamlog.options.ignored_options import ignored_options
from spark_streamlog.options.option_reader import LogTarget, OptionReader

SASL = {
    "kafka.bootstrap.servers": "a:1", "kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.jaas.config":
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="topsecret";',
}  # fmt: skip


def target_of(given):
    options = OptionReader(given, role="source")
    target = options.log_target()
    ignored_options(options)
    options.finish()
    return target


def test_brokers_replace_the_path():
    target = target_of({"kafka.bootstrap.servers": "a:1,b:2", "KAFKA.REQUEST.TIMEOUT.MS": "5"})
    assert target.path == ""
    assert target.brokers.bootstrap_servers == (BrokerAddress(host="a", port=1), BrokerAddress(host="b", port=2))
    assert target.brokers.request_timeout_ms == 5
    assert str(target) == "a:1,b:2"


def test_a_login_is_part_of_the_target_but_not_of_its_text():
    target = target_of(SASL)
    assert target.brokers.sasl.password == "topsecret"
    assert "topsecret" not in repr(target) + str(target)
    assert pickle.loads(pickle.dumps(target)) == target


def test_complaints_name_options_with_the_prefix_kafka():
    with pytest.raises(ConditionError) as caught:
        target_of(
            {"kafka.bootstrap.servers": "a", "kafka.security.protocol": "SSL", "kafka.ssl.truststore.type": "JKS"}
        )
    assert "kafka.bootstrap.servers must be host:port" in caught.value.message
    assert "kafka.ssl.truststore.type must be PEM, not JKS" in caught.value.message
    assert "kafka.kafka." not in caught.value.message


def test_no_complaint_contains_a_secret():
    with pytest.raises(ConditionError) as caught:
        target_of(SASL | {"kafka.sasl.mechanism": "PLAIN"})
    assert "topsecret" not in str(caught.value)


def test_a_directory_query_accepts_the_connection_settings_of_a_kafka_query():
    given = {name: value for name, value in SASL.items() if name != "kafka.bootstrap.servers"}
    assert target_of({"path": "/log"} | given) == LogTarget(path="/log")


def test_an_unknown_client_setting_is_refused_with_the_nearest_known_name():
    with pytest.raises(
        ConditionError, match=r"kafka.sasl.mechanisms is not an option.*did you mean kafka.sasl.mechanism"
    ):
        target_of({"kafka.bootstrap.servers": "a:1", "kafka.sasl.mechanisms": "PLAIN"})
