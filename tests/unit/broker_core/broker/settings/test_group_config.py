"""What is refused, in which words, and what is told are what Kafka 4.3.1 answered to the same."""

import pytest

from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.broker.settings.group_config import (
    GROUP_SETTINGS,
    check_group_configs,
    group_number,
    group_synonyms,
)
from broker_core.broker.settings.idle_settings import IDLE_SETTINGS
from broker_core.broker.settings.setting_layers import known_setting
from broker_core.model.exceptions import InvalidConfigError

CONFIG = parse_broker_config({"listeners": "PLAINTEXT://:9092"})
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def config(**given):
    return parse_broker_config({name.replace("_", "."): str(value) for name, value in given.items()})


def test_group_settings_match_kafka():
    assert list(GROUP_SETTINGS) == [
        "consumer.assignment.interval.ms", "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms",
        "share.assignment.interval.ms", "share.auto.offset.reset", "share.delivery.count.limit",
        "share.heartbeat.interval.ms", "share.isolation.level", "share.partition.max.record.locks",
        "share.record.lock.duration.ms", "share.renew.acknowledge.enable", "share.session.timeout.ms",
        "streams.assignment.interval.ms", "streams.heartbeat.interval.ms", "streams.initial.rebalance.delay.ms",
        "streams.num.standby.replicas", "streams.session.timeout.ms",
    ]  # fmt: skip


def test_every_bound_and_default_of_a_group_setting_is_a_broker_setting():
    used = set()
    for setting in GROUP_SETTINGS.values():
        named = {setting.broker_name, setting.least_name, setting.most_name} - {None}
        assert all(known_setting(name).default is not None for name in named)
        used |= named
    bounds = {name for name in IDLE_SETTINGS if ".min." in name or ".max." in name}
    of_groups = {name for name in bounds if name.startswith(("group.share.", "group.streams."))}
    # Sizes of groups, and how many sessions: not of one group.
    assert of_groups - used == {"group.share.max.share.sessions", "group.share.max.size", "group.streams.max.size"}


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        (SESSION, "1000", f"{SESSION} must be greater than or equal to group.consumer.min.session.timeout.ms"),
        (SESSION, "60001", f"{SESSION} must be less than or equal to group.consumer.max.session.timeout.ms"),
        (SESSION, "0", f"Invalid value 0 for configuration {SESSION}: Value must be at least 1"),
        (SESSION, "x", f"Invalid value x for configuration {SESSION}: Not a number of type INT"),
        (HEARTBEAT, "1", f"{HEARTBEAT} must be greater than or equal to group.consumer.min.heartbeat.interval.ms"),
        (HEARTBEAT, "15001", f"{HEARTBEAT} must be less than or equal to group.consumer.max.heartbeat.interval.ms"),
        (
            "consumer.assignment.interval.ms", "15001",
            "consumer.assignment.interval.ms must be less than or equal to group.consumer.max.assignment.interval.ms",
        ),
        (
            "share.delivery.count.limit", "11",
            "share.delivery.count.limit must be less than or equal to group.share.max.delivery.count.limit",
        ),
        (
            "share.partition.max.record.locks", "99",
            "Invalid value 99 for configuration share.partition.max.record.locks: Value must be at least 100",
        ),
        (
            "share.record.lock.duration.ms", "14999",
            "share.record.lock.duration.ms must be greater than or equal to group.share.min.record.lock.duration.ms",
        ),
        (
            "streams.num.standby.replicas", "3",
            "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
        ("no.such", "5", "Unknown group config name: no.such"),
    ],
)  # fmt: skip
def test_values_that_kafka_refuses_are_refused_with_its_message(name, value, told):
    with pytest.raises(InvalidConfigError) as caught:
        check_group_configs({name: value}, CONFIG)
    assert caught.value.message == told


@pytest.mark.parametrize(
    "value", ["EARLIEST", "none", "", "by_duration:", "by_duration:-PT1H", "by_duration:P", "PT1H"]
)
def test_share_auto_offset_reset_has_three_valid_forms(value):
    with pytest.raises(InvalidConfigError, match=r"by_duration:<PnDTnHnMn.nS>"):
        check_group_configs({"share.auto.offset.reset": value}, CONFIG)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (SESSION, " 046000 "),
        (SESSION, "60000"),
        (HEARTBEAT, "15000"),
        ("consumer.assignment.interval.ms", "0"),
        ("share.auto.offset.reset", " latest "),
        ("share.auto.offset.reset", "by_duration:P1DT2H"),
        ("share.delivery.count.limit", "10"),
        ("share.isolation.level", "read_committed"),
        ("share.renew.acknowledge.enable", " FALSE"),
        ("streams.initial.rebalance.delay.ms", "2147483647"),
        ("streams.num.standby.replicas", "2"),
    ],
)
def test_values_that_kafka_accepts_are_accepted(name, value):
    check_group_configs({name: value}, CONFIG)


def test_the_session_timeout_must_exceed_the_heartbeat_interval():
    short = config(group_consumer_min_session_timeout_ms=1000)
    check_group_configs({SESSION: "5001"}, short)
    for configs in ({SESSION: "5000"}, {SESSION: "5001", HEARTBEAT: "5002"}):
        with pytest.raises(InvalidConfigError, match=f"{SESSION} must be greater than {HEARTBEAT}"):
            check_group_configs(configs, short)


def test_a_group_without_settings_uses_the_brokers():
    assert group_number(SESSION, {}, CONFIG) == 45_000
    assert group_number(SESSION, {}, config(group_consumer_session_timeout_ms=50_000)) == 50_000
    assert group_number(SESSION, {SESSION: "046000"}, CONFIG) == 46_000


def test_stored_group_settings_are_clamped_to_changed_bounds():
    narrow = config(group_consumer_min_session_timeout_ms=40_000, group_consumer_max_session_timeout_ms=46_000)
    assert group_number(SESSION, {SESSION: "60000"}, narrow) == 46_000
    assert group_number(SESSION, {SESSION: "1000"}, narrow) == 40_000


def test_the_broker_setting_is_a_synonym_of_the_group_setting():
    def synonyms(name, configs, given):
        return [
            (each.name, each.value, int(each.source)) for each in group_synonyms(GROUP_SETTINGS[name], configs, given)
        ]

    assert synonyms(SESSION, {}, CONFIG) == [("group.consumer.session.timeout.ms", "45000", 5)]
    assert synonyms(SESSION, {SESSION: " 046000 "}, CONFIG) == [
        (SESSION, "46000", 8),
        ("group.consumer.session.timeout.ms", "45000", 5),
    ]
    assert synonyms("share.auto.offset.reset", {}, CONFIG) == [("share.auto.offset.reset", "latest", 5)]
