from dataclasses import fields
from pathlib import Path

import pytest

from broker_core.broker.settings.broker_config import BrokerConfig, parse_broker_config
from broker_core.broker.settings.broker_settings import BROKER_SETTINGS
from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.properties import parse_properties
from broker_core.model.topic_defaults import TOPIC_SYNONYMS

ROOT = Path(__file__).parents[5]


def complaints_of(**given):
    with pytest.raises(InvalidConfigError) as caught:
        parse_broker_config({name.replace("__", "."): value for name, value in given.items()})
    return list(caught.value.complaints)


def test_without_settings_kafkas_defaults_apply():
    config = parse_broker_config({})
    assert [str(listener) for listener in config.listeners] == ["PLAINTEXT://:9092"]
    for field in fields(BrokerConfig):
        if field.name not in ("listeners", "layers"):
            assert getattr(config, field.name) == getattr(BrokerConfig(), field.name), field.name


def test_attribute_defaults_match_the_settings_table():
    for field in fields(BrokerConfig):
        setting = BROKER_SETTINGS.get(field.name.replace("_", "."))
        if (
            setting is not None
            and setting.default
            and field.name not in ("listeners", "log_dir", "max_connections_per_ip_overrides")
        ):
            assert getattr(BrokerConfig(), field.name) == setting.parse(setting.default), field.name


def test_every_setting_of_the_table_is_used():
    attributes = {field.name.replace("_", ".") for field in fields(BrokerConfig)}
    of_topics = {name for names in TOPIC_SYNONYMS.values() for name in names}
    of_listeners = {name for name in BROKER_SETTINGS if name.startswith(("ssl.", "sasl.", "listener."))}
    by_hand = {
        "advertised.listeners", "allow.everyone.if.no.acl.found", "authorizer.class.name", "broker.id",
        "controller.listener.names", "log.dirs", "super.users",
    }  # fmt: skip
    assert BROKER_SETTINGS.keys() - attributes - of_topics - of_listeners == by_hand


def test_the_broker_sets_topic_defaults():
    config = parse_broker_config(
        {"log.retention.hours": "2", "log.retention.minutes": "3", "log.roll.hours": "1", "message.max.bytes": "5",
         "log.cleanup.policy": "compact", "flush.policy": "os"}
    )  # fmt: skip
    assert config.topic_defaults.configs == {
        "retention.ms": "180000", "segment.ms": "3600000", "max.message.bytes": "5", "cleanup.policy": "compact",
        "flush.policy": "os",
    }  # fmt: skip
    assert config.topic_config.retention_ms == 180_000
    assert config.topic_config.flush_policy == "os"


def test_unlimited_retention_is_unlimited_in_every_unit():
    assert parse_broker_config({"log.retention.hours": "-1"}).topic_defaults.configs["retention.ms"] == "-1"
    assert parse_broker_config({"log.retention.ms": "-1"}).topic_defaults.configs["retention.ms"] == "-1"


def test_all_errors_are_reported_at_once_with_name_value_and_allowed_values():
    complaints = complaints_of(
        num__partitions="0", log__dirs="/a,/b", listners="PLAINTEXT://:9092", default__replication__factor="3",
        group__min__session__timeout__ms="9", group__max__session__timeout__ms="8", process__roles="controller",
        authorizer__class__name="com.example.Mine", super__users="ann", metrics__listener="9308",
        max__connections__per__ip__overrides="localhost", log__cleaner__min__compaction__lag__ms="5",
        log__cleaner__max__compaction__lag__ms="4", remote__log__storage__system__enable="true",
    )  # fmt: skip
    told = "\n".join(complaints)
    assert len(complaints) == 12
    assert "Invalid value 0 for configuration num.partitions: Value must be at least 1" in told
    assert "log.dirs must name exactly one directory, not 2" in told
    assert "listners is not a broker setting; did you mean listeners?" in told
    assert "default.replication.factor=3 must be 1" in told
    assert "group.min.session.timeout.ms=9 must not be greater than group.max.session.timeout.ms=8" in told
    assert "process.roles=controller must be broker" in told
    assert "authorizer.class.name=com.example.Mine is not supported" in told
    assert "super.users: 'ann' is not a principal" in told
    assert "metrics.listener=9308 must be host:port" in told
    assert "max.connections.per.ip.overrides: 'localhost' must be address:count" in told
    assert "min.compaction.lag.ms (5) > max.compaction.lag.ms (4)" in told
    assert "remote.log.storage.system.enable=true is not supported: there is no tiered storage" in told


def test_ignored_settings_are_accepted_and_reported():
    config = parse_broker_config({"num.network.threads": "3", "process.roles": "broker,controller"})
    assert config.notes == ("num.network.threads is ignored: this broker does not use it",)


def test_kafkas_default_principal_builder_is_accepted():
    name = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    parse_broker_config({"principal.builder.class": name})
    assert "is not supported" in complaints_of(principal__builder__class="com.example.Mine")[0]


def test_node_id_and_broker_id_are_synonyms():
    assert parse_broker_config({"broker.id": "7"}).node_id == 7
    assert parse_broker_config({"node.id": "7", "broker.id": "7"}).node_id == 7
    assert complaints_of(node__id="7", broker__id="8") == ["broker.id=8 and node.id=7 differ: set only node.id"]


def test_metrics_listener_is_an_address():
    assert parse_broker_config({"metrics.listener": "[::1]:9308"}).metrics_listener == BrokerAddress(
        host="::1", port=9308
    )


@pytest.mark.parametrize("name", ["log.dir", "log.dirs"])
def test_log_dirs_may_be_a_file_url_but_no_other_url(name):
    assert parse_broker_config({"listeners": "PLAINTEXT://:1", name: "file:///data/log"}).log_dir == "/data/log"
    with pytest.raises(InvalidConfigError, match=f"{name}: s3://bucket/log is not a local directory"):
        parse_broker_config({"listeners": "PLAINTEXT://:1", name: "s3://bucket/log"})


def test_the_repr_has_no_secrets():
    plain = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="topsecret";'
    config = parse_broker_config(
        {"listeners": "SASL_PLAINTEXT://:1", "sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": plain}
    )
    assert config.listeners[0].login.plain_users == {"ann": "topsecret"}
    assert "topsecret" not in repr(config)


def test_the_example_in_conf_is_valid():
    config = parse_broker_config(parse_properties((ROOT / "conf" / "broker.properties").read_text()))
    assert config.endpoints == {"PLAINTEXT": BrokerAddress(host="127.0.0.1", port=9092)}
    assert config.notes == ()


def test_kafkas_own_example_file_is_valid():
    """The settings of Kafka 4.3's config/server.properties."""
    config = parse_broker_config(
        {
            "process.roles": "broker,controller", "node.id": "1",
            "controller.quorum.bootstrap.servers": "localhost:9093",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093", "inter.broker.listener.name": "PLAINTEXT",
            "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map":
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
            "num.network.threads": "3", "num.io.threads": "8", "socket.send.buffer.bytes": "102400",
            "socket.receive.buffer.bytes": "102400", "socket.request.max.bytes": "104857600",
            "log.dirs": "/tmp/kraft-combined-logs", "num.partitions": "1", "num.recovery.threads.per.data.dir": "2",
            "offsets.topic.replication.factor": "1", "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1", "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1", "log.retention.hours": "168", "log.segment.bytes": "1073741824",
            "log.retention.check.interval.ms": "300000",
        }
    )  # fmt: skip
    assert config.endpoints == {"PLAINTEXT": BrokerAddress(host="localhost", port=9092)}


def test_an_ignored_setting_is_still_type_checked():
    assert complaints_of(num__network__threads="many", log__cleaner__io__buffer__load__factor="0.9x") == [
        "Invalid value many for configuration num.network.threads: Not a number of type INT",
        "Invalid value 0.9x for configuration log.cleaner.io.buffer.load.factor: Not a number of type DOUBLE",
    ]
    parse_broker_config({"remote.log.storage.system.enable": " FALSE"})
