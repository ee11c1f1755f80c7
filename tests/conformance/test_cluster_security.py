"""A node of ours beside a real one: who may log in, and who may ask what, on each listener; `pytest -m kafka`.

Both have the same settings, users and access rules. Every question of the table is asked of both, as a super user, as
the nodes' own user, as a user with a few rules, and as one without any.
"""

import pytest
from kio.schema.errors import ErrorCode
from support.brokers import kafka_tools
from support.brokers.cluster_in_process import ClusterInProcess
from support.brokers.real_quorum import RealQuorum
from support.brokers.secured_nodes import USERS, secured_client_settings, secured_settings
from support.controller.request_values import FOR_CLUSTER, FOR_RESOURCES, OF_BROKERS, enveloped, message_of

from broker_core.client.broker_connection import BrokerConnection
from broker_core.client.deadline import Deadline
from broker_core.model.client_settings import BrokerAddress, parse_client_settings
from broker_core.model.exceptions import AuthenticationError, BrokerUnavailableError

pytestmark = pytest.mark.kafka

ALLOW, LITERAL, TOPIC, CLUSTER = 3, 3, 2, 4
CREATE, DESCRIBE = 5, 8
RULES = (
    ("bob", TOPIC, "may-be", CREATE),
    ("bob", TOPIC, "none", DESCRIBE),
    ("bob", CLUSTER, "kafka-cluster", DESCRIBE),
)
TOPIC_NAME = "t"
OF_CONTROLLERS = {**FOR_CLUSTER, **FOR_RESOURCES}
FORWARDED = ("CreateTopics", "DeleteTopics by name", "CreateAcls", "IncrementalAlterConfigs of a broker")
ANSWERED_OTHERWISE = {
    "AllocateProducerIds", "AlterPartition", "BrokerHeartbeat", "Fetch", "FetchSnapshot",
}  # fmt: skip
"""A real node has another error for what these ask of somebody who is not there. Who may ask is the same."""
REFUSALS = {"cluster_authorization_failed", "topic_authorization_failed", "group_authorization_failed"}
OF_CLIENTS = ("CreateTopics", "CreateAcls", "DescribeAcls", "DescribeQuorum", "IncrementalAlterConfigs of a topic")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """({listener: address} of the real one, of ours), with a topic and the rules of bob."""
    if reason := kafka_tools.why_unavailable():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("nodes")
    settings = secured_settings()
    lines = [f"{name}={value}" for name, value in settings.items()]
    protocols = "listener.security.protocol.map=CONTROLLER:SASL_SSL,SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT"
    with (
        RealQuorum(folder / "theirs", node_count=1, settings=[*lines, protocols], sasl_listener="SASL_SSL") as theirs,
        ClusterInProcess(
            folder / "ours", 1, settings=settings, listener="SASL_SSL", client_settings=secured_client_settings()
        ) as ours,
    ):
        theirs.start()
        both = (
            {name: theirs.ports[1][name] for name in ("SASL_SSL", "CONTROLLER")},
            {
                "SASL_SSL": int(ours.bootstrap_servers.rpartition(":")[2]),
                "CONTROLLER": int(ours.controllers[0].rpartition(":")[2]),
            },
        )
        for ports in both:
            prepare(ports)
        yield both


def prepare(ports):
    rules = [
        {
            "resource_type": kind, "resource_name": name, "resource_pattern_type": LITERAL, "principal": f"User:{user}",
            "host": "*", "operation": operation, "permission_type": ALLOW,
        }
        for user, kind, name, operation in RULES
    ]  # fmt: skip
    answer = asked(ports, "CONTROLLER", "admin", message_of(30, 3, {"creations": rules}))
    assert errors_of(answer) == {ErrorCode.none}, answer
    topic = {"name": TOPIC_NAME, "num_partitions": 1, "replication_factor": 1}
    answer = asked(ports, "CONTROLLER", "admin", message_of(19, 7, {"topics": [topic], "timeout": 30_000}))
    assert errors_of(answer) == {ErrorCode.none}, answer


def asked(ports, listener, user, message, **settings):
    address = BrokerAddress(host="127.0.0.1", port=ports[listener])
    given = parse_client_settings({"bootstrap.servers": str(address), **secured_client_settings(user), **settings})
    connection = BrokerConnection(address, given, Deadline(30_000, setting="test"))
    try:
        (answer,) = connection.ask([message], Deadline(30_000, setting="test"))
    finally:
        connection.close()
    return answer


def errors_of(value):
    found = set()
    for name in getattr(value, "__dataclass_fields__", ()):
        part = getattr(value, name)
        found |= {part} if isinstance(part, ErrorCode) else set()
        for each in part if isinstance(part, tuple) else (part,):
            found |= errors_of(each)
    return found


def told(errors):
    return sorted(error.name for error in errors)


@pytest.mark.parametrize("user", sorted(USERS))
@pytest.mark.parametrize("name", sorted(OF_CONTROLLERS))
def test_a_controller_refuses_and_answers_as_a_real_one(nodes, name, user):
    message = message_of(*OF_CONTROLLERS[name])
    theirs, ours = (told(errors_of(asked(ports, "CONTROLLER", user, message))) for ports in nodes)
    if name in ANSWERED_OTHERWISE:
        theirs, ours = (REFUSALS.intersection(errors) for errors in (theirs, ours))
    assert ours == theirs


@pytest.mark.parametrize("user", sorted(USERS))
@pytest.mark.parametrize("name", FORWARDED)
@pytest.mark.parametrize("sender", ["node", "ann"])
def test_what_a_broker_sends_on_is_decided_as_by_a_real_controller(nodes, sender, name, user):
    found = []
    for ports in nodes:
        envelope, answer_in = enveloped(message_of(*OF_CONTROLLERS[name]), f"User:{user}")
        answer = asked(ports, "CONTROLLER", sender, envelope)
        inner = set() if answer.response_data is None or answer.error_code else errors_of(answer_in(answer))
        found.append((answer.error_code.name, told(inner)))
    theirs, ours = found
    assert ours == theirs


@pytest.mark.parametrize("user", sorted(USERS))
@pytest.mark.parametrize("name", sorted(OF_BROKERS))
def test_who_is_no_broker_cannot_pretend_to_be_one_as_at_a_real_one(nodes, name, user):
    found = []
    for ports in nodes:
        described = asked(
            ports, "SASL_SSL", "admin", message_of(3, 12, {"topics": [{"name": TOPIC_NAME, "topic_id": None}]})
        )
        message = message_of(*OF_BROKERS[name](described.topics[0].topic_id))
        found.append(told(errors_of(asked(ports, "SASL_SSL", user, message))))
    theirs, ours = found
    if user in ("ann", "bob"):
        assert ours == theirs
    assert [bool(REFUSALS.intersection(each)) for each in found] == [user in ("ann", "bob")] * 2


@pytest.mark.parametrize("user", sorted(USERS))
@pytest.mark.parametrize("name", OF_CLIENTS)
def test_a_client_of_a_broker_hears_the_same_as_at_a_real_one(nodes, name, user):
    key, version, values = OF_CONTROLLERS[name]
    message = message_of(key, version, values)
    theirs, ours = (told(errors_of(asked(ports, "SASL_SSL", user, message))) for ports in nodes)
    assert ours == theirs


@pytest.mark.parametrize("listener", ["SASL_SSL", "CONTROLLER"])
@pytest.mark.parametrize(
    "wrong",
    [
        {"sasl.password": "wrong"},
        {"sasl.username": "nobody"},
        {"sasl.mechanism": "SCRAM-SHA-256"},
        {"sasl.mechanism": "SCRAM-SHA-512"},
        {"ssl.truststore.location": "stranger.pem"},
        {"security.protocol": "SASL_PLAINTEXT"},
    ],
    ids=lambda wrong: next(iter(wrong.values())),
)
def test_a_wrong_login_or_certificate_fails_in_the_same_way(nodes, listener, wrong, request):
    settings = {**secured_client_settings("admin"), **wrong}
    if "ssl.truststore.location" in wrong:
        settings["ssl.truststore.location"] = str(request.path.parents[1] / "golden" / "tls" / "stranger.pem")
    found = []
    for ports in nodes:
        with pytest.raises((AuthenticationError, BrokerUnavailableError)) as raised:
            asked(ports, listener, "admin", message_of(*FOR_CLUSTER["DescribeCluster"]), **settings)
        found.append((type(raised.value), raised.value.fields.get("error_code")))
    theirs, ours = found
    assert ours == theirs
