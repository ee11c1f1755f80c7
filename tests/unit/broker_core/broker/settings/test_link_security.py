import pytest
from support.brokers.secured_nodes import NODE, NODE_PASSWORD, PLAIN_MODULE, secured_settings

from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.broker.settings.link_security import LinkSecurity, links_to_controllers, parse_links_to_brokers
from broker_core.model.client_settings import SaslSettings
from broker_core.model.exceptions import InvalidConfigError

SECURED = {
    **secured_settings(),
    "controller.listener.names": "CONTROLLER",
    "listeners": "SASL_SSL://:1,CONTROLLER://:2",
}
OWN_LOGIN = SaslSettings(mechanism="PLAIN", username=NODE, password=NODE_PASSWORD)


def to_controllers(given):
    complaints = []
    found = links_to_controllers(given, complaints)
    assert complaints == []
    return found


def test_links_are_plaintext_unless_the_listener_is_not():
    assert to_controllers({}) == LinkSecurity(listener="CONTROLLER")
    assert parse_links_to_brokers({"listeners": "PLAINTEXT://:9092"}) == LinkSecurity(listener="PLAINTEXT")


def test_a_node_connects_as_a_client_of_the_listener_with_its_own_login_and_certificate():
    for found in (to_controllers(SECURED), parse_links_to_brokers(SECURED)):
        assert found.sasl == OWN_LOGIN
        assert found.tls.trust_path == SECURED["ssl.truststore.location"]
        assert found.tls.key_path == SECURED["ssl.keystore.location"]
        assert found.tls.verifies_host_name


def test_settings_of_the_listener_override_the_general_ones():
    own = {"ssl.endpoint.identification.algorithm": "", "ssl.truststore.location": "/other.pem"}
    given = SECURED | {f"listener.name.controller.{name}": value for name, value in own.items()}
    assert (to_controllers(given).tls.trust_path, to_controllers(given).tls.verifies_host_name) == ("/other.pem", False)
    assert parse_links_to_brokers(given).tls.verifies_host_name


def test_the_protocol_between_brokers_names_the_listener_of_that_name():
    given = {**SECURED, "security.inter.broker.protocol": "SASL_SSL"}
    del given["inter.broker.listener.name"]
    assert parse_links_to_brokers(given).listener == "SASL_SSL"


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"security.inter.broker.protocol": "SASL_SSL"}, "Only one of inter.broker.listener.name and"),
        ({"inter.broker.listener.name": "OTHER"}, "valid options based on currently configured listeners are SASL_SSL"),
        ({"inter.broker.listener.name": "CONTROLLER"}, "must be a listener name defined in advertised.listeners"),
        ({"inter.broker.listener.name": "", "security.inter.broker.protocol": "TLS"}, "must be one of PLAINTEXT, SSL,"),
        ({"sasl.mechanism.inter.broker.protocol": "GSSAPI"}, "SASL_SSL asks for a login: .* not 'GSSAPI'"),
        (
            {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"},
            "must be among sasl.enabled.mechanisms",
        ),
        (
            {"sasl.enabled.mechanisms": "SCRAM-SHA-256", "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"},
            r"set listener\.name\.sasl_ssl\.scram-sha-256\.sasl\.jaas\.config",
        ),
        (
            {"listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_a="b";'},
            "SASL_SSL: sasl.jaas.config has no username",
        ),
        ({"ssl.endpoint.identification.algorithm": "http"}, "SASL_SSL: ssl.endpoint.identification.algorithm"),
    ],
)
def test_a_wrong_setting_is_named_and_no_password_is_shown(changed, complaint):
    with pytest.raises(InvalidConfigError, match=complaint) as raised:
        parse_links_to_brokers(SECURED | changed)
    assert NODE_PASSWORD not in str(raised.value)


def test_a_broker_without_a_vote_has_settings_of_the_controllers_listener_too():
    given = {**SECURED, "process.roles": "broker", "listeners": "SASL_SSL://:1", "controller.quorum.voters": "1@a:9093"}
    assert [one.name for one in parse_broker_config(given).listeners] == ["SASL_SSL"]
    with pytest.raises(InvalidConfigError, match="ELSEWHERE is not in listeners"):
        parse_broker_config({**given, "listener.name.elsewhere.ssl.keystore.location": "/x"})
