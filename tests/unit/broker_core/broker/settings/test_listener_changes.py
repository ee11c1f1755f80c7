import pytest

from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.broker.settings.listener_changes import check_listener_change
from broker_core.model.exceptions import InvalidConfigError

OLD = "PLAINTEXT://127.0.0.1:1,B://127.0.0.1:2"
PROTOCOLS = {"listener.security.protocol.map": "B:PLAINTEXT,C:PLAINTEXT"}


def check(new, protocols=PROTOCOLS, old=OLD, **of_file):
    of_file = {name.replace("__", "."): value for name, value in of_file.items()}
    before = parse_broker_config({"listeners": old, **PROTOCOLS, **of_file}).listeners
    after = parse_broker_config({"listeners": new, **protocols}).listeners
    check_listener_change(before, after, of_file, new)


def test_without_advertised_listeners_none_can_be_removed():
    check(f"{OLD},C://127.0.0.1:3")
    with pytest.raises(InvalidConfigError, match="Advertised listeners 'PLAINTEXT,B' must be a subset of listeners"):
        check("PLAINTEXT://127.0.0.1:1")


def test_what_is_not_advertised_can_be_removed():
    check("PLAINTEXT://127.0.0.1:1", advertised__listeners="PLAINTEXT://127.0.0.1:1")


@pytest.mark.parametrize(
    "of_file",
    [{}, {"inter__broker__listener__name": "PLAINTEXT"}, {"security__inter__broker__protocol": "PLAINTEXT"}],
)
def test_the_listener_between_brokers_cannot_be_removed(of_file):
    with pytest.raises(InvalidConfigError, match="must be a listener name defined in advertised"):
        check("B://127.0.0.1:2", **of_file)


def test_the_controllers_listener_cannot_be_removed():
    roles = {"process__roles": "broker,controller", "controller__listener__names": "CONTROLLER"}
    with_controller = f"{OLD},CONTROLLER://127.0.0.1:9"
    protocols = PROTOCOLS | {"controller.listener.names": "CONTROLLER"}
    check(with_controller, protocols, **roles)
    with pytest.raises(InvalidConfigError, match="must contain at least one value appearing in the 'listeners'"):
        check(OLD, protocols, **roles)


def test_the_protocol_of_a_listener_cannot_be_changed():
    protocols = {"listener.security.protocol.map": "B:SASL_PLAINTEXT", "sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    with pytest.raises(InvalidConfigError, match=r"existing listener ListenerName\(B\)"):
        check(OLD, protocols)
