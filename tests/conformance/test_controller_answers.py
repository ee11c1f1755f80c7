"""Answers of our controller beside those of a real one: settings and access rules; `pytest -m kafka`."""

import time

import pytest
from confluent_kafka.admin import AdminClient
from support.brokers import kafka_tools
from support.brokers.real_brokers import RealBrokers
from support.brokers.real_quorum import RealQuorum
from support.quorum.our_quorum import CLUSTER_ID, OurQuorum

from broker_core.client.connection_pool import ConnectionPool
from broker_core.client.deadline import Deadline
from broker_core.model.client_settings import parse_client_settings
from broker_core.protocol.api_table import message_types
from broker_core.protocol.message_builder import build

DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS, DESCRIBE_CONFIGS, CREATE_TOPICS, ALTER_CONFIGS = 29, 30, 31, 32, 19, 44
TOPIC, BROKER, SET = 2, 4, 0
SECONDS = 90
AUTHORIZER = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)
OURS_ONLY = {"flush.policy"}

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def controllers(tmp_path_factory):
    """(a real one, ours), each over a real broker; the settings of the real one and of our broker say nothing of
    topics."""
    if reason := kafka_tools.why_unavailable():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("controllers")
    with (
        RealQuorum(folder / "theirs", node_count=1, settings=AUTHORIZER) as theirs,
        OurQuorum(folder / "ours", node_count=1, settings=AUTHORIZER) as ours,
    ):
        ours.start()
        with RealBrokers(
            folder / "brokers", cluster_id=CLUSTER_ID, voters=ours.voters, broker_count=1, settings=AUTHORIZER
        ) as brokers:
            brokers.start()
            theirs.start()
            yield f"127.0.0.1:{theirs.ports[1]['CONTROLLER']}", f"127.0.0.1:{ours.ports[1]}", brokers


@pytest.fixture
def ask(controllers):
    """The answers of the real controller and of ours."""
    *addresses, _ = controllers
    pools = []

    def call(key, values):
        version = message_types(key, {19: 7, 44: 1, 32: 4, 57: 2}.get(key, 3))
        answers = []
        for address in addresses:
            settings = parse_client_settings({"bootstrap.servers": address})
            pools.append(ConnectionPool(settings))
            connection = pools[-1].connection(settings.bootstrap_servers[0], Deadline(30_000, setting="test"))
            (answer,) = connection.ask([build(version.request, values)], Deadline(30_000, setting="test"))
            answers.append(answer)
        return answers

    yield call
    for pool in pools:
        pool.close()


def configs_of(answer):
    (result,) = answer.results
    return {
        each.name: (
            each.value, each.config_source, each.config_type, each.read_only, each.is_sensitive,
            [(synonym.name, synonym.value, synonym.source) for synonym in each.synonyms],
        )
        for each in result.configs
        if each.name not in OURS_ONLY
    }  # fmt: skip


def described(ask, kind, name, keys=None):
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    return ask(DESCRIBE_CONFIGS, {"resources": [resource], "include_synonyms": True})


def test_settings_of_a_topic_are_described_as_a_real_controller_does(ask):
    configs = [{"name": "retention.ms", "value": " 5000"}, {"name": "cleanup.policy", "value": "compact,delete"}]
    topic = {"name": "described", "num_partitions": 1, "replication_factor": 1, "configs": configs}
    for answer in ask(CREATE_TOPICS, {"topics": [topic], "timeout": 30_000}):
        assert answer.topics[0].error_code.name == "none", answer
    change = {"name": "log.segment.bytes", "config_operation": SET, "value": "2000000"}
    resource = {"resource_type": BROKER, "resource_name": "", "configs": [change]}
    for answer in ask(ALTER_CONFIGS, {"resources": [resource], "validate_only": False}):
        assert answer.responses[0].error_code.name == "none", answer
    deadline = time.monotonic() + SECONDS
    while True:
        theirs, ours = map(configs_of, described(ask, TOPIC, "described"))
        if ours == theirs or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    assert ours == theirs
    theirs, ours = map(configs_of, described(ask, TOPIC, "described", ["retention.ms", "segment.bytes"]))
    assert ours == theirs
    assert ours.keys() == {"retention.ms", "segment.bytes"}


def test_defaults_of_all_brokers_are_described_as_a_real_controller_does(ask):
    theirs, ours = map(configs_of, described(ask, BROKER, ""))
    assert {name: found[:2] for name, found in ours.items()} == {name: found[:2] for name, found in theirs.items()}


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "nope"), (TOPIC, "not/a/name"), (BROKER, "7"), (BROKER, "x")])
def test_what_cannot_be_described_is_refused_with_the_same_code(ask, kind, name):
    theirs, ours = described(ask, kind, name)
    assert ours.results[0].error_code == theirs.results[0].error_code


def rule(principal, *, kind=2, name="t", pattern=3, operation=3, permission=3):
    return {
        "resource_type": kind, "resource_name": name, "resource_pattern_type": pattern, "principal": principal,
        "host": "*", "operation": operation, "permission_type": permission,
    }  # fmt: skip


def filter_of(**fields):
    return {
        "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
        "host_filter": None, "operation": 1, "permission_type": 1, **fields,
    }  # fmt: skip


def acls_of(answer):
    return sorted(
        (resource.resource_type, resource.resource_name, resource.pattern_type, acl.principal, acl.host,
         acl.operation, acl.permission_type)
        for resource in answer.resources
        for acl in resource.acls
    )  # fmt: skip


def test_access_rules_are_answered_as_a_real_controller_does(ask):
    creations = [
        rule("User:alice"),
        rule("User:bob", pattern=4, permission=2),
        rule("User:bob", kind=4, name="kafka-cluster", operation=7),
        rule("User:eve", kind=4, name="mine"),
        rule("User:eve", name=""),
        rule("eve"),
    ]
    theirs, ours = ask(CREATE_ACLS, {"creations": creations})
    assert ours.results == theirs.results
    for wanted in (filter_of(), filter_of(principal_filter="User:bob"), filter_of(resource_type_filter=4)):
        theirs, ours = ask(DESCRIBE_ACLS, wanted)
        assert (ours.error_code, ours.error_message) == (theirs.error_code, theirs.error_message)
        assert acls_of(ours) == acls_of(theirs)
        assert acls_of(ours)
    filters = [filter_of(principal_filter="User:bob", resource_type_filter=2), filter_of(principal_filter="User:x")]
    theirs, ours = ask(DELETE_ACLS, {"filters": filters})
    assert ours.filter_results == theirs.filter_results
    theirs, ours = ask(DESCRIBE_ACLS, filter_of())
    assert acls_of(ours) == acls_of(theirs)


def update(name, level, kind):
    return {"feature": name, "max_version_level": level, "upgrade_type": kind}


@pytest.mark.parametrize(
    "updates",
    [
        [update("transaction.version", 1, 1)],
        [update("transaction.version", 3, 1)],
        [update("transaction.version", 1, 7)],
        [update("transaction.version", -1, 2)],
        [update("foo.version", 1, 1)],
        [update("metadata.version", 29, 2)],
        [update("metadata.version", 29, 3)],
        [update("metadata.version", 29, 1)],
        [update("transaction.version", 2, 1)],
        [update("transaction.version", 1, 2), update("streams.version", 0, 2)],
        [update("transaction.version", 2, 1), update("streams.version", 1, 1)],
        [update("eligible.leader.replicas.version", 0, 2)],
        [update("eligible.leader.replicas.version", 1, 1)],
    ],
    ids=str,
)
def test_changes_of_features_are_answered_as_a_real_controller_does(ask, updates):
    theirs, ours = ask(57, {"feature_updates": updates, "timeout": 30_000, "validate_only": False})
    assert (ours.error_code, ours.error_message or "") == (theirs.error_code, theirs.error_message or "")


def test_kafkas_tool_changes_a_feature_through_a_broker(controllers):
    *_, brokers = controllers
    tool = ("org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", brokers.bootstrap_servers)

    def level():
        lines = kafka_tools.kafka_tool(*tool, "describe").splitlines()
        (line,) = [line for line in lines if "share.version" in line]
        return line.split("FinalizedVersionLevel:")[1].split()[0]

    for word, wanted in (("downgrade", "0"), ("upgrade", "1")):
        kafka_tools.kafka_tool(*tool, word, "--feature", f"share.version={wanted}")
        deadline = time.monotonic() + SECONDS
        while level() != wanted:
            assert time.monotonic() < deadline


def test_a_broker_enforces_the_rules_that_are_stored_and_forwards_new_ones(ask, controllers):
    *_, brokers = controllers
    bootstrap = ("--bootstrap-server", brokers.bootstrap_servers)
    refused = AdminClient({"bootstrap.servers": brokers.bootstrap_servers, "log_level": 0})
    assert refused.list_topics(timeout=30).brokers
    allowing = rule("User:ANONYMOUS", kind=4, name="kafka-cluster", operation=7)
    ask(CREATE_ACLS, {"creations": [allowing]})
    acls = "org.apache.kafka.tools.AclCommand"
    kafka_tools.kafka_tool(acls, *bootstrap, "--add", "--allow-principal", "User:carol", "--operation", "Read",
                           "--topic", "forwarded")  # fmt: skip
    deadline = time.monotonic() + SECONDS
    while "User:carol" not in kafka_tools.kafka_tool(acls, *bootstrap, "--list", "--topic", "forwarded"):
        assert time.monotonic() < deadline
    _, ours = ask(DESCRIBE_ACLS, filter_of(principal_filter="User:carol"))
    assert [each[1] for each in acls_of(ours)] == ["forwarded"]
