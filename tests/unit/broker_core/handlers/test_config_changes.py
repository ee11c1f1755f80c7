import pytest
from support.builders.builders import a_batch
from support.nodes.whole_node import (
    EVE,
    a_guarded_node,
    a_node,
    allow,
    ask,
    begin,
    fetch,
    make_topic,
    pass_time,
    produce,
    stop,
)

from broker_core.model.access_control import Operation, ResourceType
from broker_core.protocol.api_table import ApiKey

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
STEP = ApiKey.INCREMENTAL_ALTER_CONFIGS
BOTH = pytest.mark.parametrize("api_key", [ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS])


@pytest.fixture
def node(tmp_path):
    node = a_node(tmp_path / "log")
    make_topic(node, "t")
    make_topic(node, "u")
    return node


def resource(kind, name, setting="retention.ms", value="9000"):
    return {
        "resource_type": kind,
        "resource_name": name,
        "configs": [{"name": setting, "config_operation": 0, "value": value}],
    }


def request(api_key, *resources):
    if api_key == ApiKey.ALTER_CONFIGS:
        resources = [
            each | {"configs": [without_operation(config) for config in each["configs"]]} for each in resources
        ]
    return {"resources": resources, "validate_only": False}


def without_operation(config):
    return {"name": config["name"], "value": config["value"]}


def alter(node, api_key, *resources, **more):
    """[(resource's kind, name, error)]"""
    answers = ask(node, api_key, **request(api_key, *resources), **more).responses
    return [(each.resource_type, each.resource_name, each.error_code.name) for each in answers]


def retention(node, name):
    asked = [{"resource_type": TOPIC, "resource_name": name, "configuration_keys": ["retention.ms"]}]
    (found,) = ask(node, ApiKey.DESCRIBE_CONFIGS, resources=asked).results
    return found.configs[0].value


@BOTH
def test_each_resource_is_changed_and_answered_separately(node, api_key):
    found = alter(node, api_key, resource(TOPIC, "nowhere"), resource(TOPIC, "t"), resource(TOPIC, "u", value="x"))
    assert sorted(found) == [
        (TOPIC, "nowhere", "unknown_topic_or_partition"),
        (TOPIC, "t", "none"),
        (TOPIC, "u", "invalid_config"),
    ]
    assert (retention(node, "t"), retention(node, "u")) == ("9000", "604800000")
    assert alter(node, api_key) == []


@BOTH
def test_a_duplicate_resource_is_refused_unchanged(node, api_key):
    """An AlterConfigs like this Kafka 4.3.1 does not answer at all."""
    found = alter(node, api_key, resource(TOPIC, "t"), resource(TOPIC, "u"), resource(TOPIC, "t", value="8000"))
    assert set(found) == {(TOPIC, "t", "invalid_request"), (TOPIC, "u", "none")}
    assert (retention(node, "t"), retention(node, "u")) == ("604800000", "9000")


@BOTH
@pytest.mark.parametrize(("name", "expected"), [("a b", "invalid_topic_exception"), ("", "invalid_request")])
def test_an_invalid_topic_name_is_refused(node, api_key, name, expected):
    assert alter(node, api_key, resource(TOPIC, name)) == [(TOPIC, name, expected)]


@BOTH
@pytest.mark.parametrize("kind", [0, 1, 3, 99, -1])
def test_an_unknown_resource_type_is_an_invalid_request(node, api_key, kind):
    assert alter(node, api_key, resource(kind, "x")) == [(kind, "x", "invalid_request")]


@BOTH
def test_a_change_is_durable_when_it_is_answered(tmp_path, api_key):
    node = a_node(tmp_path / "log")
    make_topic(node, "t")
    waiting = begin(node, api_key, **request(api_key, resource(TOPIC, "t")))
    assert waiting.answer is None
    node.jobs.run_all()
    assert waiting.answer.responses[0].error_code.name == "none"
    stop(node)
    assert retention(a_node(tmp_path / "log"), "t") == "9000"


@BOTH
def test_a_change_applies_immediately(node, api_key):
    alter(node, api_key, resource(TOPIC, "t", "max.message.bytes", "100"))
    assert produce(node, "t", a_batch(10)).error_code.name == "message_too_large"
    assert fetch(node, "t").high_watermark == 0


@BOTH
def test_a_missing_topic_gets_kafkas_message(node, api_key):
    (answer,) = ask(node, api_key, **request(api_key, resource(TOPIC, "nowhere"))).responses
    assert answer.error_message == "The topic 'nowhere' does not exist."


@BOTH
def test_a_topic_deleted_meanwhile_is_unknown(node, api_key):
    deletion = begin(node, ApiKey.DELETE_TOPICS, 1, topic_names=["t"], timeout=1000)
    waiting = begin(node, api_key, **request(api_key, resource(TOPIC, "t")))
    node.jobs.run_all()
    assert deletion.answer.responses[0].error_code.name == "none"
    assert waiting.answer.responses[0].error_code.name == "unknown_topic_or_partition"


@BOTH
def test_changing_settings_needs_alter_configs_access(tmp_path, api_key):
    node = a_guarded_node(tmp_path / "log")
    make_topic(node, "t")
    refused = "topic_authorization_failed"
    found = alter(node, api_key, resource(TOPIC, "t"), resource(TOPIC, "nowhere"), principal=EVE)
    assert sorted(found) == [(TOPIC, "nowhere", refused), (TOPIC, "t", refused)]
    allow(node, EVE, Operation.ALTER_CONFIGS, ResourceType.TOPIC, "t")
    assert alter(node, api_key, resource(TOPIC, "t"), principal=EVE) == [(TOPIC, "t", "none")]
    assert retention(node, "t") == "9000"


def group_settings(node, name="g"):
    asked = [{"resource_type": GROUP, "resource_name": name, "configuration_keys": None}]
    (found,) = ask(node, ApiKey.DESCRIBE_CONFIGS, resources=asked).results
    return {each.name: each.value for each in found.configs if each.config_source == 8}


@BOTH
def test_groups_have_durable_settings_even_if_they_do_not_exist(tmp_path, api_key):
    node = a_node(tmp_path / "log")
    wanted = resource(GROUP, "g", "consumer.session.timeout.ms", "50000")
    assert alter(node, api_key, wanted) == [(GROUP, "g", "none")]
    stop(node)
    node = a_node(tmp_path / "log")
    assert group_settings(node) == {"consumer.session.timeout.ms": "50000"}


@BOTH
@pytest.mark.parametrize(
    ("name", "setting", "value", "expected"),
    [
        ("", "consumer.session.timeout.ms", "50000", "invalid_request"),
        ("g", "no.such", "1", "invalid_config"),
        ("g", "consumer.session.timeout.ms", "1", "invalid_config"),
        ("g", "consumer.session.timeout.ms", None, "invalid_request"),
    ],
)
def test_an_invalid_group_setting_is_refused_and_changes_nothing(node, api_key, name, setting, value, expected):
    assert alter(node, api_key, resource(GROUP, name, setting, value)) == [(GROUP, name, expected)]
    assert group_settings(node) == {}


def test_alter_configs_resets_settings_that_it_does_not_list(node):
    alter(node, ApiKey.ALTER_CONFIGS, resource(GROUP, "g", "consumer.session.timeout.ms", "50000"))
    alter(node, ApiKey.ALTER_CONFIGS, resource(GROUP, "g", "consumer.heartbeat.interval.ms", "6000"))
    assert group_settings(node) == {"consumer.heartbeat.interval.ms": "6000"}


def test_settings_of_unsupported_group_types_are_stored_and_reported_as_ignored(node, caplog):
    alter(node, ApiKey.ALTER_CONFIGS, resource(GROUP, "g", "share.isolation.level", "read_committed"))
    assert group_settings(node) == {"share.isolation.level": "read_committed"}
    assert "group=g: share.isolation.level is ignored" in caplog.text


def heartbeat(node, epoch=0, **fields):
    joining = (
        {"subscribed_topic_names": ["t"], "topic_partitions": [], "rebalance_timeout": 60_000} if not epoch else {}
    )
    return ask(node, ApiKey.CONSUMER_GROUP_HEARTBEAT, group_id="g", member_id="m", member_epoch=epoch,
               **({"rebalance_timeout": -1, "topic_partitions": None} | joining | fields))  # fmt: skip


def test_group_settings_override_heartbeat_interval_and_session_timeout(node):
    """From the next heartbeat on, without a restart."""
    joined = heartbeat(node)
    assert joined.heartbeat_interval.total_seconds() == 5
    for setting, value in (("consumer.heartbeat.interval.ms", "7000"), ("consumer.session.timeout.ms", "60000")):
        alter(node, ApiKey.INCREMENTAL_ALTER_CONFIGS, resource(GROUP, "g", setting, value))
    assert heartbeat(node, joined.member_epoch).heartbeat_interval.total_seconds() == 7
    pass_time(node, 45_001)
    assert heartbeat(node, joined.member_epoch).error_code.name == "none"
    pass_time(node, 60_001)
    assert heartbeat(node, joined.member_epoch).error_code.name == "unknown_member_id"


def broker_settings(node, name="1"):
    """{setting: (value, source)} of what is changed while brokers run."""
    asked = [{"resource_type": BROKER, "resource_name": name, "configuration_keys": None}]
    (found,) = ask(node, ApiKey.DESCRIBE_CONFIGS, resources=asked).results
    return {
        each.name: (each.value, each.config_source)
        for each in found.configs
        if each.config_source in (2, 3) and each.name != "min.insync.replicas"
    }


@BOTH
def test_dynamic_broker_defaults_apply_to_topics_immediately_and_after_a_restart(tmp_path, api_key):
    node = a_node(tmp_path / "log", log_retention_ms=5, message_max_bytes=1_000_000)
    make_topic(node, "t")
    produce(node, "t", a_batch())  # so that the partition is open
    assert retention(node, "t") == "5"
    assert alter(node, STEP, resource(BROKER, "", "log.retention.ms", "7000")) == [(BROKER, "", "none")]
    assert (retention(node, "t"), broker_settings(node, "")) == ("7000", {"log.retention.ms": ("7000", 3)})
    assert alter(node, api_key, resource(BROKER, "1", "log.retention.ms", " 08000 ")) == [(BROKER, "1", "none")]
    assert (retention(node, "t"), broker_settings(node)) == ("8000", {"log.retention.ms": ("8000", 2)})
    stop(node)
    node = a_node(tmp_path / "log", log_retention_ms=5)
    assert (retention(node, "t"), broker_settings(node)) == ("8000", {"log.retention.ms": ("8000", 2)})
    assert node.topics.config_of(node.topics.topic("t")).retention_ms == 8000


@BOTH
def test_a_changed_message_limit_applies_to_the_next_batch(node, api_key):
    assert produce(node, "t", a_batch(10)).error_code.name == "none"
    alter(node, STEP, resource(BROKER, "", "message.max.bytes", "100"))
    assert produce(node, "t", a_batch(10)).error_code.name == "message_too_large"
    alter(node, api_key, resource(BROKER, "1", "message.max.bytes", "1000000"))
    assert produce(node, "t", a_batch(10)).error_code.name == "none"
    alter(node, ApiKey.INCREMENTAL_ALTER_CONFIGS, resource(TOPIC, "t", "max.message.bytes", "100"))
    assert produce(node, "t", a_batch(10)).error_code.name == "message_too_large"


@BOTH
@pytest.mark.parametrize(
    ("name", "setting", "value", "expected"),
    [
        ("7", "log.retention.ms", "5", "invalid_request"),
        ("x", "log.retention.ms", "5", "invalid_request"),
        ("-1", "log.retention.ms", "5", "invalid_request"),
        ("1", "log.retention.ms", "x", "invalid_request"),
        ("1", "log.retention.ms", None, "invalid_request"),
        ("1", "log.segment.bytes", "1", "invalid_request"),
        ("1", "log.retention.hours", "5", "invalid_request"),
        ("", "log.retention.hours", "5", "invalid_request"),
        ("", "num.partitions", "5", "invalid_request"),
        ("1", "listeners", "", "invalid_request"),
        ("", "listeners", "PLAINTEXT://:1", "invalid_request"),
        ("1", "advertised.listeners", "PLAINTEXT://:1", "invalid_request"),
        ("1", "ssl.keystore.password", "x", "invalid_request"),
        ("1", "ssl.keystore.location", "x", "invalid_request"),
        ("", "listener.name.plaintext.ssl.keystore.location", "x", "invalid_request"),
        ("1", "listener.name.plaintext.num.partitions", "1", "invalid_request"),
        ("1", "no.such", "5", "invalid_request"),
        ("", "group.consumer.assignment.interval.ms", "200000", "invalid_request"),
        ("1", "log.cleaner.dedupe.buffer.size", "1000", "invalid_request"),
        ("1", "min.insync.replicas", "2", "invalid_config"),
    ],
)
def test_changing_a_static_setting_is_refused(node, api_key, name, setting, value, expected):
    assert alter(node, api_key, resource(BROKER, name, setting, value)) == [(BROKER, name, expected)]
    assert (broker_settings(node), broker_settings(node, "")) == ({}, {})


def test_a_refusal_names_the_properties_file_or_a_similar_setting(node):
    def message(setting):
        (answer,) = ask(
            node,
            STEP,
            **request(STEP, resource(BROKER, "1", setting)),
        ).responses
        return answer.error_message

    assert "[num.partitions]. Set it in the properties file and restart the broker" in message("num.partitions")
    assert message("log.retention.mss") == "log.retention.mss is not a broker setting; did you mean log.retention.ms?"


def test_a_change_for_all_brokers_is_judged_with_what_this_broker_has(node):
    """It was judged without: a listener's own settings seemed to be taken back."""
    (key, minimum) = "group.consumer.assignment.interval.ms", "log.cleaner.dedupe.buffer.size"
    assert alter(node, STEP, resource(BROKER, "1", key, "500")) == [(BROKER, "1", "none")]
    judged = []
    node.check_listeners = lambda old, new: judged.append(node.config.layers.of_broker)
    assert alter(node, STEP, resource(BROKER, "", minimum, "2000000")) == [(BROKER, "", "none")]
    assert judged[-1] == {key: "500"}


def test_min_insync_replicas_is_a_cluster_default_from_the_first_start_on(tmp_path):
    """As Kafka 4.3.1 does: the file's value is that of the first start, and it cannot be removed (KIP-966)."""

    def told(node):
        keys = ["min.insync.replicas"]
        asked = [{"resource_type": BROKER, "resource_name": "1", "configuration_keys": keys}]
        (found,) = ask(node, ApiKey.DESCRIBE_CONFIGS, resources=asked, include_synonyms=True).results
        (config,) = found.configs
        return config.value, [(each.value, each.source) for each in config.synonyms]

    node = a_node(tmp_path / "log", min_insync_replicas=2)
    assert told(node) == ("2", [("2", 3), ("2", 4), ("1", 5)])
    removed = {"name": "min.insync.replicas", "config_operation": 1, "value": None}
    resources = [{"resource_type": BROKER, "resource_name": "", "configs": [removed]}]
    (answer,) = ask(node, STEP, resources=resources, validate_only=False).responses
    assert answer.error_code.name == "invalid_config"
    stop(node)
    assert told(a_node(tmp_path / "log", min_insync_replicas=3)) == ("2", [("2", 3), ("3", 4), ("1", 5)])
    assert told(a_node(tmp_path / "other")) == ("1", [("1", 3), ("1", 5)])


def test_alter_configs_that_would_remove_min_insync_replicas_is_refused(node):
    """As by Kafka 4.3.1."""
    found = alter(node, ApiKey.ALTER_CONFIGS, resource(BROKER, "", "log.retention.ms", "7000"))
    assert (found, broker_settings(node, "")) == ([(BROKER, "", "invalid_config")], {})


def test_items_are_appended_to_a_broker_list(node):
    def change(name, operation, value):
        changed = {"name": "log.cleanup.policy", "config_operation": operation, "value": value}
        resources = [{"resource_type": BROKER, "resource_name": name, "configs": [changed]}]
        (answer,) = ask(node, STEP, resources=resources, validate_only=False).responses
        return answer.error_code.name

    assert change("1", 2, "compact") == "none"
    assert change("", 3, "delete") == "none"
    assert broker_settings(node)["log.cleanup.policy"] == ("delete,compact", 2)
    assert broker_settings(node, "")["log.cleanup.policy"] == ("", 3)


def test_an_ignored_setting_is_stored_and_reported_as_ignored(node, caplog):
    alter(node, STEP, resource(BROKER, "", "num.network.threads", "5"))
    assert broker_settings(node) == {"num.network.threads": ("5", 3)}
    assert "num.network.threads: accepted but ignored" in caplog.text


def test_validate_only_changes_no_broker_setting(node):
    asked = request(STEP, resource(BROKER, "", "log.retention.ms", "7"))
    (answer,) = ask(node, STEP, **asked | {"validate_only": True}).responses
    assert (answer.error_code.name, broker_settings(node)) == ("none", {})


def test_the_assignment_interval_is_dynamic(node):
    alter(node, STEP, resource(BROKER, "", "group.consumer.assignment.interval.ms", "9000"))
    asked = [{"resource_type": GROUP, "resource_name": "g", "configuration_keys": ["consumer.assignment.interval.ms"]}]
    (found,) = ask(node, ApiKey.DESCRIBE_CONFIGS, resources=asked).results
    assert [(each.value, each.config_source) for each in found.configs] == [("9000", 3)]
    joined = heartbeat(node)
    second = {"subscribed_topic_names": ["t", "u"]}
    pass_time(node, 8_999)
    assert heartbeat(node, joined.member_epoch, **second).assignment is None
    pass_time(node, 1)
    assert heartbeat(node, joined.member_epoch).member_epoch > joined.member_epoch


@BOTH
def test_a_changed_setting_of_a_broker_is_announced_once_and_one_that_is_set_again_too(node, api_key):
    """A changed one was announced twice: listeners read their certificates two times."""
    told = []
    node.on_settings(lambda config: told.append(config.num_io_threads))
    for value, expected in (("7", [7]), ("7", [7, 7]), ("8", [7, 7, 8])):
        answers = alter(node, api_key, resource(BROKER, "1", "num.io.threads", value))
        assert answers == [(BROKER, "1", "none")]
        assert told == expected
    alter(node, api_key, resource(TOPIC, "t"), resource(GROUP, "g", "consumer.session.timeout.ms", "50000"))
    alter(node, api_key, resource(BROKER, "1", "num.io.threads", "1"))
    assert told == [7, 7, 8]
