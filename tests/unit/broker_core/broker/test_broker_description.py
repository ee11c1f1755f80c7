from broker_core.broker.broker_description import describe_broker
from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.broker.settings.broker_settings import SettingKind

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="topsecret";'


def described(**given):
    found = describe_broker(parse_broker_config({name.replace("__", "."): value for name, value in given.items()}))
    return {one.name: one for one in found}


def test_what_is_not_given_has_its_default():
    one = described()["log.retention.hours"]
    assert (one.value, one.default, one.is_given, one.kind, one.is_read_only) == (
        "168",
        "168",
        False,
        SettingKind.INT,
        True,
    )


def test_what_is_given_is_shown_beside_its_default():
    one = described(num__partitions="3")["num.partitions"]
    assert (one.value, one.default, one.is_given) == ("3", "1", True)


def test_a_secret_is_never_shown():
    found = described(sasl__jaas__config=PLAIN, sasl__enabled__mechanisms="PLAIN", listeners="SASL_PLAINTEXT://:1")
    one = found["sasl.jaas.config"]
    assert (one.value, one.is_sensitive, one.is_given) == (None, True, True)
    assert "topsecret" not in repr(found)


def test_a_secret_of_one_listener_is_one_too():
    name = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    found = described(**{name: PLAIN}, sasl__enabled__mechanisms="PLAIN", listeners="SASL_PLAINTEXT://:1")
    assert (found[name].value, found[name].is_sensitive) == (None, True)


def test_settings_without_effect_are_described_as_kafka_does():
    assert described()["num.network.threads"].value == "3"


def test_what_kafka_does_not_describe_is_shown_when_it_is_given():
    assert "super.users" not in described()
    assert described(super__users="User:ann")["super.users"].value == "User:ann"


def test_node_id_is_shown_under_both_names():
    found = described(node__id="4")
    assert (found["node.id"].value, found["broker.id"].value) == ("4", "4")


def test_names_are_in_order():
    names = list(described())
    assert names == sorted(names)
