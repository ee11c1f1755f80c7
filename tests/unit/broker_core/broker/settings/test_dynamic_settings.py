import pytest

from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.broker.settings.broker_settings import BROKER_SETTINGS
from broker_core.broker.settings.dynamic_settings import (
    CHANGEABLE,
    changed_config,
    check_names,
    idle_names,
    stored_config,
)
from broker_core.broker.settings.idle_settings import IDLE_SETTINGS, REFUSED_UNLESS_DEFAULT
from broker_core.model.exceptions import InvalidConfigError, InvalidRequestError

FILE = parse_broker_config({"listeners": "PLAINTEXT://127.0.0.1:9092", "log.retention.ms": "5", "num.partitions": "3"})


def test_dynamic_settings_match_kafka_except_listeners_logins_tls_and_threads():
    of_kafka = {name for name, setting in {**BROKER_SETTINGS, **IDLE_SETTINGS}.items() if setting.is_dynamic}
    assert of_kafka >= CHANGEABLE
    assert {name for name in of_kafka - CHANGEABLE if not name.startswith(("ssl.", "sasl."))} == {
        "listeners", "listener.security.protocol.map", "num.io.threads", "config.providers", "principal.builder.class",
    }  # fmt: skip
    assert not CHANGEABLE & REFUSED_UNLESS_DEFAULT.keys()


def test_broker_values_override_cluster_values_and_those_override_the_file():
    of_cluster = {"log.retention.ms": "7", "max.connections.per.ip": "9"}
    changed = changed_config(FILE, of_cluster=of_cluster, of_broker={"log.retention.ms": " 08 "})
    assert changed.topic_config.retention_ms == 8
    assert (changed.max_connections_per_ip, changed.num_partitions) == (9, 3)
    back = changed_config(changed, of_cluster=of_cluster, of_broker={})
    assert back.topic_config.retention_ms == 7
    assert changed_config(back, of_cluster={}, of_broker={}).topic_config.retention_ms == 5


def test_dynamic_changes_do_not_change_listeners():
    """A broker knows the ports that were free; its file says 0."""
    served = parse_broker_config({"listeners": "PLAINTEXT://127.0.0.1:9092"}).listeners
    changed = changed_config(FILE, of_cluster={"log.retention.ms": "7"}, of_broker={})
    assert changed.listeners is FILE.listeners
    assert changed.listeners == served


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"log.retention.ms": "x"}, "Invalid value x for configuration log.retention.ms: Not a number of type LONG"),
        ({"log.segment.bytes": "1"}, "Value must be at least 1048576"),
        ({"group.consumer.assignment.interval.ms": "200000"}, "group.consumer.max.assignment.interval.ms=15000"),
        ({"num.network.threads": "many"}, "Not a number of type INT"),
        ({"max.connections.per.ip.overrides": "here"}, "must be address:count"),
    ],
)
def test_a_wrong_value_is_refused(settings, said):
    with pytest.raises(InvalidConfigError) as caught:
        changed_config(FILE, of_cluster=settings, of_broker={})
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("num.partitions", "Cannot update these configs dynamically: [num.partitions]"),
        ("listeners", "Cannot update these configs dynamically: [listeners]"),
        ("controller.quorum.voters", "Cannot update these configs dynamically"),
        ("listener.name.x.ssl.keystore.location", "Cannot update these configs dynamically"),
        ("log.retention.mss", "did you mean log.retention.ms?"),
        ("zzz", "zzz is not a broker setting"),
    ],
)
def test_a_static_setting_is_refused_by_name(name, said):
    with pytest.raises(InvalidRequestError) as caught:
        check_names(["log.retention.ms", name])
    assert said in caught.value.message


def test_stored_settings_apply_and_unknown_ones_are_ignored_with_a_warning(caplog):
    stored = {"": {"log.retention.ms": "7", "of.the.future": "x"}, "1": {"message.max.bytes": "8"}, "2": {"x": "y"}}
    config = stored_config(FILE, stored)
    assert (config.topic_config.retention_ms, config.topic_config.max_message_bytes) == (7, 8)
    assert "not dynamic: of.the.future" in caplog.text
    assert stored_config(FILE, {"": {"log.retention.ms": "soon"}}).topic_config.retention_ms == 5
    assert "ignoring stored dynamic settings: Invalid value soon" in caplog.text


def test_ignored_dynamic_settings_are_reported():
    assert idle_names(["num.network.threads", "log.retention.ms"]) == ["num.network.threads"]
