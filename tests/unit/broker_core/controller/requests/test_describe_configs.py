"""Settings as a controller describes them; tests/conformance compares them with a real one's."""

import pytest
from support.controller.small_cluster import SmallCluster

from broker_core.controller.cluster_facts import ClusterDefaults
from broker_core.controller.requests.registry import CONTROLLER_APIS
from broker_core.metadata.metadata_records import ConfigRecord
from broker_core.protocol.api_table import message_types
from broker_core.protocol.message_builder import build

DESCRIBE_CONFIGS = 32
TOPIC, BROKER, GROUP, LOGGER = 2, 4, 32, 8
OF_TOPIC, OF_BROKER, OF_ALL_BROKERS, OF_FILE, OF_NOBODY, OF_GROUP = 1, 2, 3, 4, 5, 8
NO_ID = "-1"
"""A controller that is not registered has no id."""


@pytest.fixture
def cluster():
    cluster = SmallCluster(1, defaults=ClusterDefaults(partition_count=3))
    cluster.create("t", (1,), retention_ms=" 007")
    return cluster


def describe(cluster, kind, name, *, keys=None, with_synonyms=True):
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    values = {"resources": [resource], "include_synonyms": with_synonyms}
    message, api = build(message_types(DESCRIBE_CONFIGS, 4).request, values), CONTROLLER_APIS[DESCRIBE_CONFIGS]
    reply = api.plan(cluster.controller, message, 0).reply
    (result,) = build(message_types(DESCRIBE_CONFIGS, 4).response, reply).results
    return result


def found(result):
    return {each.name: (each.value, each.config_source) for each in result.configs}


def set_config(cluster, kind, name, setting, value):
    cluster.append(ConfigRecord(resource_type=kind, resource_name=name, name=setting, value=value))


def test_a_topic_has_its_own_values_then_those_of_all_brokers_then_kafkas(cluster):
    set_config(cluster, BROKER, "", "log.segment.bytes", "2000000")
    configs = found(describe(cluster, TOPIC, "t"))
    assert configs["retention.ms"] == ("7", OF_TOPIC)
    assert configs["segment.bytes"] == ("2000000", OF_ALL_BROKERS)
    assert configs["max.message.bytes"] == ("1048588", OF_NOBODY)
    (shown,) = describe(cluster, TOPIC, "t", keys=["segment.bytes"]).configs
    assert [(each.name, each.value, each.source) for each in shown.synonyms] == [
        ("log.segment.bytes", "2000000", OF_ALL_BROKERS),
        ("log.segment.bytes", "1073741824", OF_NOBODY),
    ]
    (shown,) = describe(cluster, TOPIC, "t", keys=["segment.bytes"], with_synonyms=False).configs
    assert shown.synonyms == ()


def test_the_controller_tells_what_it_decides_with(cluster):
    set_config(cluster, BROKER, NO_ID, "log.cleaner.threads", "2")
    result = describe(cluster, BROKER, NO_ID)
    assert found(result) == {
        "broker.session.timeout.ms": ("9000", OF_NOBODY),
        "default.replication.factor": ("1", OF_NOBODY),
        "log.cleaner.threads": ("2", OF_BROKER),
        "min.insync.replicas": ("1", OF_ALL_BROKERS),
        "num.partitions": ("3", OF_FILE),
        "unclean.leader.election.enable": ("false", OF_NOBODY),
    }


def test_defaults_of_all_brokers_and_of_a_group_are_those_that_were_given(cluster):
    set_config(cluster, GROUP, "g", "consumer.session.timeout.ms", "50000")
    assert found(describe(cluster, BROKER, "")) == {"min.insync.replicas": ("1", OF_ALL_BROKERS)}
    assert found(describe(cluster, GROUP, "g")) == {"consumer.session.timeout.ms": ("50000", OF_GROUP)}
    assert found(describe(cluster, GROUP, "other")) == {}


@pytest.mark.parametrize(
    "name", ["listener.name.external.ssl.keystore.password", "ssl.keystore.key", "sasl.jaas.config", "of.a.plugin"]
)
def test_what_may_be_a_secret_is_not_shown(cluster, name):
    set_config(cluster, BROKER, "", name, "hidden")
    result = describe(cluster, BROKER, "", keys=[name])
    assert (result.configs[0].value, result.configs[0].is_sensitive) == (None, True)
    assert "hidden" not in repr(result)


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "nope", "unknown_topic_or_partition"),
        (TOPIC, "not/a/name", "invalid_topic_exception"),
        (BROKER, "7", "invalid_request"),
        (GROUP, "", "invalid_request"),
        (LOGGER, "1", "invalid_request"),
    ],
)
def test_what_is_not_there_is_refused_by_itself(cluster, kind, name, error):
    assert describe(cluster, kind, name).error_code.name == error
