from dataclasses import replace

import pytest

from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.broker.settings.broker_settings import BROKER_SETTINGS
from broker_core.broker.settings.dynamic_settings import (
    CHANGEABLE,
    changed_config,
    check_change,
    check_names,
    idle_names,
    is_changeable,
    stored_config,
)
from broker_core.broker.settings.idle_settings import IDLE_SETTINGS, REFUSED_UNLESS_DEFAULT
from broker_core.broker.settings.listener_settings import reachable
from broker_core.model.exceptions import InvalidConfigError, InvalidRequestError

FILE = parse_broker_config({"listeners": "PLAINTEXT://127.0.0.1:9092", "log.retention.ms": "5", "num.partitions": "3"})


def test_dynamic_settings_match_kafka_except_those_that_are_refused():
    of_kafka = {name for name, setting in {**BROKER_SETTINGS, **IDLE_SETTINGS}.items() if setting.is_dynamic}
    of_one_listener = {
        f"listener.name.x.{name}" for name in of_kafka - CHANGEABLE if is_changeable(f"listener.name.x.{name}")
    }
    assert of_kafka - CHANGEABLE - REFUSED_UNLESS_DEFAULT.keys() == {
        name.removeprefix("listener.name.x.") for name in of_one_listener
    }
    assert all(name.startswith(("listener.name.x.ssl.key", "listener.name.x.ssl.trust")) for name in of_one_listener)
    assert of_kafka >= CHANGEABLE
    assert not CHANGEABLE & REFUSED_UNLESS_DEFAULT.keys()


def test_broker_values_override_cluster_values_and_those_override_the_file():
    of_cluster = {"log.retention.ms": "7", "max.connections.per.ip": "9"}
    changed = changed_config(FILE, of_cluster=of_cluster, of_broker={"log.retention.ms": " 08 "})
    assert changed.topic_config.retention_ms == 8
    assert (changed.max_connections_per_ip, changed.num_partitions) == (9, 3)
    back = changed_config(changed, of_cluster=of_cluster, of_broker={})
    assert back.topic_config.retention_ms == 7
    assert changed_config(back, of_cluster={}, of_broker={}).topic_config.retention_ms == 5


def test_a_listener_keeps_the_port_that_was_free_where_its_file_says_0():
    chosen = parse_broker_config({"listeners": "PLAINTEXT://127.0.0.1:0"})
    (listener,) = chosen.listeners
    served = replace(chosen, listeners=(reachable(listener, 4711, "here"),), machine_name="here")
    assert changed_config(served, of_cluster={"log.retention.ms": "7"}, of_broker={}).listeners == served.listeners
    written = {"listeners": "PLAINTEXT://127.0.0.1:0,B://:9", "listener.security.protocol.map": "B:PLAINTEXT"}
    _, added = changed_config(served, of_cluster={}, of_broker=written).listeners
    assert (added.port, str(added.advertised)) == (9, "here:9")


def test_settings_of_a_listener_that_is_not_there_yet_can_be_prepared():
    prepared = {"listener.name.new.ssl.keystore.location": "new.pem"}
    assert changed_config(FILE, of_cluster={}, of_broker=prepared).listeners == FILE.listeners
    with pytest.raises(InvalidConfigError, match="NEW is not in listeners"):
        parse_broker_config({"listeners": "PLAINTEXT://127.0.0.1:9092", **prepared})


@pytest.mark.parametrize(
    ("count", "said"),
    [
        ("3", "num.io.threads=3, value should be at least half the current value 8"),
        ("17", "num.io.threads=17, value should not be greater than double the current value 8"),
    ],
)
def test_a_thread_count_is_at_most_doubled_and_at_most_halved(count, said):
    with pytest.raises(InvalidConfigError, match=said):
        check_change(FILE, changed_config(FILE, of_cluster={"num.io.threads": count}, of_broker={}))
    for allowed in ("4", "16"):
        altered = changed_config(FILE, of_cluster={"num.io.threads": allowed}, of_broker={})
        check_change(FILE, altered)
        assert altered.num_io_threads == int(allowed)


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
        ("advertised.listeners", "Cannot update these configs dynamically: [advertised.listeners]"),
        ("controller.quorum.voters", "Cannot update these configs dynamically"),
        ("listener.name.x.num.partitions", "Cannot update these configs dynamically"),
        ("ssl.keystore.location", "only per-listener using the listener prefix: [ssl.keystore.location]"),
        ("log.retention.mss", "did you mean log.retention.ms?"),
        ("zzz", "zzz is not a broker setting"),
    ],
)
def test_a_static_setting_is_refused_by_name(name, said):
    with pytest.raises(InvalidRequestError) as caught:
        check_names(["log.retention.ms", name])
    assert said in caught.value.message


@pytest.mark.parametrize("name", ["listeners", "listener.name.x.ssl.keystore.location", "sasl.enabled.mechanisms"])
def test_what_is_of_one_broker_cannot_be_set_for_all(name):
    check_names([name, "listener.name.x.max.connections"])
    with pytest.raises(InvalidRequestError, match="broker id must be specified"):
        check_names(["listener.name.x.max.connections", name], is_of_all=True)


def test_stored_settings_apply_and_unknown_ones_are_ignored_with_a_warning(caplog):
    stored = {"": {"log.retention.ms": "7", "of.the.future": "x"}, "1": {"message.max.bytes": "8"}, "2": {"x": "y"}}
    config = stored_config(FILE, stored)
    assert (config.topic_config.retention_ms, config.topic_config.max_message_bytes) == (7, 8)
    assert "not dynamic: of.the.future" in caplog.text
    assert stored_config(FILE, {"": {"log.retention.ms": "soon"}}).topic_config.retention_ms == 5
    assert "ignoring stored dynamic settings: Invalid value soon" in caplog.text


def test_ignored_dynamic_settings_are_reported():
    assert idle_names(["num.network.threads", "log.retention.ms"]) == ["num.network.threads"]
