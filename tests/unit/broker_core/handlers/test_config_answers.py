import pytest
from support.nodes.whole_node import a_node

from broker_core.handlers.config_answers import DEFAULT, OF_BROKER_FILE, OF_TOPIC, topic_config_answers


def answer(node, name, configs):
    (found,) = (each for each in topic_config_answers(node, configs, with_synonyms=True) if each["name"] == name)
    return found["value"], found["config_source"], [tuple(each.values()) for each in found["synonyms"]]


@pytest.mark.parametrize(
    ("settings", "configs", "expected"),
    [
        ({}, {}, ("1073741824", DEFAULT, [("log.segment.bytes", "1073741824", DEFAULT)])),
        (
            {"log_segment_bytes": 2_000_000},
            {},
            ("2000000", OF_BROKER_FILE, [("log.segment.bytes", "2000000", OF_BROKER_FILE),
                                         ("log.segment.bytes", "1073741824", DEFAULT)]),
        ),
        (
            {"log_segment_bytes": 2_000_000},
            {"segment.bytes": "3000000"},
            ("3000000", OF_TOPIC, [("segment.bytes", "3000000", OF_TOPIC),
                                   ("log.segment.bytes", "2000000", OF_BROKER_FILE),
                                   ("log.segment.bytes", "1073741824", DEFAULT)]),
        ),
    ],
    ids=["nobody", "the broker", "the topic"],
)  # fmt: skip
def test_the_topic_counts_before_the_properties_file_and_that_before_the_default(tmp_path, settings, configs, expected):
    node = a_node(tmp_path / "log", **settings)
    assert answer(node, "segment.bytes", configs) == expected


# What Kafka 4.3.1 shows of settings whose first synonym of a broker has no default, or that no broker has.
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("flush.ms", "9223372036854775807"),
        ("retention.ms", "604800000"),
        ("segment.jitter.ms", "0"),
        ("segment.ms", "604800000"),
        ("remote.storage.enable", "false"),
        ("leader.replication.throttled.replicas", ""),
    ],
)
def test_a_default_that_only_topics_have_is_nobodys(tmp_path, name, value):
    node = a_node(tmp_path / "log")
    assert answer(node, name, {}) == (value, DEFAULT, [])
    assert answer(node, name, {name: value}) == (value, OF_TOPIC, [(name, value, OF_TOPIC)])


def test_settings_come_in_alphabetical_order_each_once(tmp_path):
    names = [each["name"] for each in topic_config_answers(a_node(tmp_path / "log"), {})]
    assert names == sorted(set(names))


def test_what_is_only_for_tests_of_kafka_is_shown_where_it_is_set(tmp_path):
    node = a_node(tmp_path / "log")
    names = [each["name"] for each in topic_config_answers(node, {})]
    assert "internal.segment.bytes" not in names
    names = [each["name"] for each in topic_config_answers(node, {"internal.segment.bytes": "300"})]
    assert "internal.segment.bytes" in names
