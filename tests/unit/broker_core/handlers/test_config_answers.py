import pytest
from support.nodes.whole_node import a_node

from broker_core.handlers.config_answers import created_topic_answers, topic_answers

OF_TOPIC, OF_FILE, DEFAULT = 1, 4, 5


def answer(node, name, configs):
    (found,) = (each for each in topic_answers(node, configs) if each["name"] == name)
    return found["value"], found["config_source"], [tuple(each.values()) for each in found["synonyms"]]


@pytest.mark.parametrize(
    ("settings", "configs", "expected"),
    [
        ({}, {}, ("1073741824", DEFAULT, [("log.segment.bytes", "1073741824", DEFAULT)])),
        (
            {"log_segment_bytes": 2_000_000},
            {},
            ("2000000", OF_FILE, [("log.segment.bytes", "2000000", OF_FILE),
                                         ("log.segment.bytes", "1073741824", DEFAULT)]),
        ),
        (
            {"log_segment_bytes": 2_000_000},
            {"segment.bytes": "3000000"},
            ("3000000", OF_TOPIC, [("segment.bytes", "3000000", OF_TOPIC),
                                   ("log.segment.bytes", "2000000", OF_FILE),
                                   ("log.segment.bytes", "1073741824", DEFAULT)]),
        ),
    ],
    ids=["nobody", "the broker", "the topic"],
)  # fmt: skip
def test_topic_values_override_the_file_and_that_overrides_the_default(tmp_path, settings, configs, expected):
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
def test_a_topic_only_default_has_no_broker_synonym(tmp_path, name, value):
    node = a_node(tmp_path / "log")
    assert answer(node, name, {}) == (value, DEFAULT, [])
    assert answer(node, name, {name: value}) == (value, OF_TOPIC, [(name, value, OF_TOPIC)])


def test_settings_are_sorted_and_unique(tmp_path):
    names = [each["name"] for each in topic_answers(a_node(tmp_path / "log"), {})]
    assert names == sorted(set(names))


def test_internal_settings_are_shown_only_if_set(tmp_path):
    node = a_node(tmp_path / "log")
    names = [each["name"] for each in topic_answers(node, {})]
    assert "internal.segment.bytes" not in names
    names = [each["name"] for each in topic_answers(node, {"internal.segment.bytes": "300"})]
    assert "internal.segment.bytes" in names


# What Kafka 4.3.1 tells of a topic that was made with the typed value.
TYPED_AND_TOLD = [
    ("retention.ms", " 123 ", "123"),
    ("retention.ms", "\t12\n", "12"),
    ("retention.ms", "-0", "0"),
    ("retention.ms", "000000000000000000000000012", "12"),
    ("flush.ms", "007", "7"),
    ("segment.bytes", "+01048576", "1048576"),
    ("compression.gzip.level", "-01", "-1"),
    ("preallocate", " TRUE ", "true"),
    ("unclean.leader.election.enable", "False", "false"),
    ("min.cleanable.dirty.ratio", "0.50", "0.5"),
    ("min.cleanable.dirty.ratio", "1", "1.0"),
    ("min.cleanable.dirty.ratio", "1.", "1.0"),
    ("min.cleanable.dirty.ratio", " .5", "0.5"),
    ("min.cleanable.dirty.ratio", "0.5d", "0.5"),
    ("min.cleanable.dirty.ratio", "0f", "0.0"),
    ("min.cleanable.dirty.ratio", "0.00001", "1.0E-5"),
    ("min.cleanable.dirty.ratio", "1e-3", "0.001"),
    ("min.cleanable.dirty.ratio", "0.123456789012345678", "0.12345678901234568"),
    ("cleanup.policy", " delete, compact ,delete", "delete,compact"),
    ("cleanup.policy", "compact,compact", "compact"),
    ("cleanup.policy", " ", ""),
    ("compression.type", " lz4", "lz4"),
    ("message.timestamp.type", "LogAppendTime ", "LogAppendTime"),
    ("follower.replication.throttled.replicas", " 1:1 , 2:1,1:1", "1:1,2:1,1:1"),
    ("follower.replication.throttled.replicas", " * ", "*"),
]


@pytest.mark.parametrize(("name", "typed", "told"), TYPED_AND_TOLD)
def test_a_topic_shows_parsed_values_also_as_synonym(tmp_path, name, typed, told):
    value, source, synonyms = answer(a_node(tmp_path / "log"), name, {name: typed})
    assert (value, source, synonyms[0]) == (told, OF_TOPIC, (name, told, OF_TOPIC))


def test_a_value_of_the_file_is_shown_parsed_and_its_synonym_as_given(tmp_path):
    node = a_node(
        tmp_path / "log", log_cleaner_min_cleanable_ratio="0.50", log_cleanup_policy="delete,  compact",
        log_retention_ms=" 0777777", log_retention_hours="+5",
    )  # fmt: skip
    assert answer(node, "min.cleanable.dirty.ratio", {}) == (
        "0.5", OF_FILE,
        [("log.cleaner.min.cleanable.ratio", "0.50", OF_FILE), ("log.cleaner.min.cleanable.ratio", "0.5", DEFAULT)],
    )  # fmt: skip
    assert answer(node, "cleanup.policy", {})[0] == "delete,compact"
    assert answer(node, "retention.ms", {}) == (
        "777777", OF_FILE,
        [("log.retention.ms", " 0777777", OF_FILE), ("log.retention.hours", "+5", OF_FILE),
         ("log.retention.hours", "168", DEFAULT)],
    )  # fmt: skip


def test_a_setting_in_another_unit_is_a_synonym_only_in_the_creation_response(tmp_path):
    """As in Kafka 4.3.1: its DescribeConfigs calls 7200000 a default."""
    node = a_node(tmp_path / "log", log_roll_hours=2)
    assert answer(node, "segment.ms", {}) == ("7200000", DEFAULT, [])
    (created,) = (each for each in created_topic_answers(node, {}) if each["name"] == "segment.ms")
    assert created == {"name": "segment.ms", "value": "7200000", "config_source": OF_FILE}


def test_the_creation_response_shows_values_as_given(tmp_path):
    answers = created_topic_answers(a_node(tmp_path / "log"), {"retention.ms": " 123 "})
    assert {"name": "retention.ms", "value": " 123 ", "config_source": OF_TOPIC} in answers
