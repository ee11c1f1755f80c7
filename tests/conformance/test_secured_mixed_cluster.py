"""A broker of ours in a real cluster whose listeners all want TLS and a login, with access rules; `pytest -m kafka`."""

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from support.brokers import kafka_tools
from support.brokers.reachable_broker import PEMS
from support.brokers.real_quorum import RealQuorum
from support.brokers.secured_nodes import USERS, secured_settings
from support.quorum.our_broker import OurBroker, log_of, wait_until

OURS, SECONDS = 98, 90

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """(a real controller and broker, a broker of ours); clients log in at SASL_SSL."""
    if reason := kafka_tools.why_unavailable():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("secured")
    lines = [f"{name}={value}" for name, value in secured_settings().items()]
    protocols = "listener.security.protocol.map=CONTROLLER:SASL_SSL,SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT"
    with RealQuorum(folder / "real", node_count=1, settings=[*lines, protocols], sasl_listener="SASL_SSL") as real:
        ours = OurBroker(folder / "ours", controllers=real.bootstrap_controllers, node_id=OURS, settings=lines)
        text = ours.place.properties_path.read_text()
        ours.place.properties_path.write_text(text.replace("listeners=PLAINTEXT://", "listeners=SASL_SSL://"))
        with ours:
            real.start()
            ours.start()
            yield real, ours


def client_settings(nodes, user):
    real, ours = nodes
    return {
        "bootstrap.servers": f"127.0.0.1:{real.ports[1]['SASL_SSL']},{ours.address}",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": USERS[user],
        "ssl.ca.location": str(PEMS / "authority.pem"),
        "log_level": 0,
    }


def test_it_leads_and_follows_by_tls_and_a_login_and_enforces_the_rules_of_the_real_controller(nodes):
    real, ours = nodes
    admin = AdminClient(client_settings(nodes, "admin"))
    wait_until(lambda: set(admin.list_topics(timeout=30).brokers) == {1, OURS}, seconds=SECONDS, story=ours.log_end)
    places = [[OURS, 1], [1, OURS]]
    admin.create_topics([NewTopic("t", num_partitions=2, replica_assignment=places)])["t"].result(SECONDS)
    producer = Producer({**client_settings(nodes, "admin"), "acks": "all"})
    values = [b"%d" % number for number in range(500)]
    errors = []
    for number, value in enumerate(values):
        producer.produce("t", value, partition=number % 2, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(SECONDS) == 0
    assert errors == [None] * len(values), ours.log_end()
    theirs = real.folder / "1" / "data"
    for number in range(2):
        wait_until(
            lambda number=number: ours.log_of("t", number) == log_of(theirs / f"t-{number}") != b"",
            seconds=SECONDS,
            story=ours.log_end,
        )
    refused = []
    stranger = Producer({**client_settings(nodes, "ann"), "acks": "all", "message.timeout.ms": 10_000})
    stranger.produce("t", b"x", partition=0, on_delivery=lambda error, _: refused.append(error))
    stranger.flush(SECONDS)
    assert [error.name() for error in refused] == ["TOPIC_AUTHORIZATION_FAILED"]
    assert "Traceback" not in ours.said
