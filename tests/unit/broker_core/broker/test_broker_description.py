import pytest

from broker_core.broker.broker_description import describe_broker
from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.broker.settings.setting_layers import SettingSource
from broker_core.model.setting_kind import SettingKind

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="topsecret";'


def described(**given):
    found = describe_broker(parse_broker_config({name.replace("__", "."): value for name, value in given.items()}))
    return {one.name: one for one in found}


def synonyms_of(one):
    return [(each.name, each.value, int(each.source)) for each in one.synonyms]


def test_settings_that_are_not_given_have_their_default():
    one = described()["log.retention.hours"]
    assert (one.value, one.source, one.kind, one.is_read_only) == (
        "168",
        SettingSource.DEFAULT,
        SettingKind.INT,
        True,
    )


# What Kafka 4.3.1 tells, started with these lines.
@pytest.mark.parametrize(
    ("name", "typed", "told"),
    [
        ("num.partitions", " 03", "3"),
        ("log.retention.ms", " 0777777", "777777"),
        ("log.cleaner.min.cleanable.ratio", "0.50", "0.5"),
        ("log.cleaner.io.max.bytes.per.second", "12345678", "1.2345678E7"),
        ("log.cleaner.io.buffer.load.factor", "1e10", "1.0E10"),
        ("sasl.login.refresh.window.factor", "1", "1.0"),
        ("sasl.login.refresh.min.period.seconds", "030", "30"),
        ("share.coordinator.write.timeout.ms", " 06000", "6000"),
        ("auto.create.topics.enable", "FALSE", "false"),
        ("broker.rack", "r1 ", "r1"),
        ("log.cleanup.policy", "delete,  compact,delete", "delete,compact"),
        ("group.consumer.assignors", "uniform,range,uniform", "uniform,range"),
        ("ssl.client.auth", " none", "none"),
        (
            "principal.builder.class",
            " org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
            "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        ),
    ],
)
def test_values_are_shown_parsed_and_synonyms_as_given(name, typed, told):
    one = described(**{name: typed})[name]
    assert (one.value, one.source) == (told, SettingSource.FILE)
    assert synonyms_of(one)[0] == (name, typed, 4)


def test_given_values_are_shown_with_their_default_as_synonym():
    one = described(num__partitions="3")["num.partitions"]
    assert synonyms_of(one) == [("num.partitions", "3", 4), ("num.partitions", "1", 5)]


def test_synonyms_begin_with_the_setting_itself():
    found = described(log__retention__hours="+5", log__retention__ms="7", log__roll__hours="2")
    assert synonyms_of(found["log.retention.ms"]) == [
        ("log.retention.ms", "7", 4), ("log.retention.hours", "+5", 4), ("log.retention.hours", "168", 5),
    ]  # fmt: skip
    assert synonyms_of(found["log.retention.hours"]) == [
        ("log.retention.hours", "+5", 4), ("log.retention.hours", "168", 5),
    ]  # fmt: skip
    assert (found["log.retention.minutes"].value, synonyms_of(found["log.retention.minutes"])) == (None, [])
    assert (found["log.roll.ms"].value, synonyms_of(found["log.roll.ms"])) == (None, [])


def test_a_listener_setting_is_read_only_and_shown_as_given():
    found = described(listeners="PLAINTEXT://:1", **{"listener.name.plaintext.max.connections": "007"})
    one = found["listener.name.plaintext.max.connections"]
    assert (one.value, one.is_read_only, one.kind) == ("007", True, SettingKind.INT)
    assert synonyms_of(one) == [
        ("listener.name.plaintext.max.connections", "007", 4), ("max.connections", "2147483647", 5),
    ]  # fmt: skip


def test_a_secret_is_never_shown():
    found = described(sasl__jaas__config=PLAIN, sasl__enabled__mechanisms="PLAIN", listeners="SASL_PLAINTEXT://:1")
    one = found["sasl.jaas.config"]
    assert (one.value, one.is_sensitive, one.source) == (None, True, SettingSource.FILE)
    assert "topsecret" not in repr(found)


def test_a_secret_of_one_listener_is_never_shown():
    name = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    found = described(**{name: PLAIN}, sasl__enabled__mechanisms="PLAIN", listeners="SASL_PLAINTEXT://:1")
    assert (found[name].value, found[name].is_sensitive, found[name].is_read_only) == (None, True, True)
    assert synonyms_of(found[name]) == [(name, None, 4)]


def test_ignored_settings_are_described_like_kafka():
    assert described()["num.network.threads"].value == "3"


def test_authorizer_settings_are_listed_without_a_value():
    assert not {"super.users", "allow.everyone.if.no.acl.found"} & described().keys()
    found = described(super__users="User:zed", allow__everyone__if__no__acl__found="TRUE")
    for name in ("super.users", "allow.everyone.if.no.acl.found"):
        one = found[name]
        assert (one.value, one.kind, one.is_sensitive, one.is_read_only) == (None, SettingKind.UNKNOWN, True, True)
        assert synonyms_of(one) == [(name, None, 4)]
    assert "User:zed" not in repr(found)


def test_node_id_is_shown_under_both_names():
    found = described(node__id="4")
    assert (found["node.id"].value, found["broker.id"].value) == ("4", "4")


def test_names_are_sorted():
    names = list(described())
    assert names == sorted(names)
