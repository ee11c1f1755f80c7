import pytest
from support.nodes.whole_node import EVE, a_guarded_node, a_node, allow, ask, begin, make_topic, stop

from broker_core.model.access_control import Operation, ResourceType
from broker_core.protocol.api_table import ApiKey


@pytest.fixture
def node(tmp_path):
    return a_node(tmp_path / "log")


def wanted(name="t", partitions=1, factor=1, *, assignments=(), configs=()):
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": factor,
        "assignments": [{"partition_index": index, "broker_ids": brokers} for index, brokers in assignments],
        "configs": [{"name": key, "value": value} for key, value in configs],
    }


def create(node, *topics, version=None, validate_only=False, principal="User:ANONYMOUS"):
    fields = {"topics": topics, "timeout": 5000, "validate_only": validate_only}
    return ask(node, ApiKey.CREATE_TOPICS, version, principal=principal, **fields).topics


def code(topic):
    return topic.error_code.name


def partition_counts(node):
    topics = ask(node, ApiKey.METADATA, 12, topics=None).topics
    return {topic.name: len(topic.partitions) for topic in topics if not topic.is_internal}


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_exists_when_the_creation_is_answered(node, version):
    (topic,) = create(node, wanted("t", 3), version=version)
    assert (topic.name, code(topic), topic.error_message) == ("t", "none", None)
    assert partition_counts(node) == {"t": 3}


def test_the_response_describes_the_created_topic(node):
    (topic,) = create(node, wanted("t", 3, configs=[("retention.ms", "1000")]))
    (described,) = ask(node, ApiKey.METADATA, topics=[{"name": "t"}]).topics
    assert topic.topic_id == described.topic_id
    assert (topic.num_partitions, topic.replication_factor, topic.topic_config_error_code) == (3, 1, 0)
    shown = {config.name: config for config in topic.configs}
    assert (shown["retention.ms"].value, shown["retention.ms"].config_source) == ("1000", 1)
    assert (shown["cleanup.policy"].value, shown["cleanup.policy"].config_source) == ("delete", 5)
    assert not shown["retention.ms"].read_only
    assert not shown["retention.ms"].is_sensitive


def test_minus_1_means_the_nodes_defaults(node):
    (topic,) = create(node, wanted("t", -1, -1))
    assert (topic.num_partitions, topic.replication_factor) == (1, 1)
    assert partition_counts(node) == {"t": 1}


def test_the_default_count_is_num_partitions(tmp_path):
    node = a_node(tmp_path / "log", num_partitions=4)
    (topic,) = create(node, wanted("t", -1))
    assert topic.num_partitions == 4
    assert partition_counts(node) == {"t": 4}


def test_a_topic_survives_a_restart(tmp_path):
    node = a_node(tmp_path / "log")
    (topic,) = create(node, wanted("t", 2, configs=[("retention.ms", "1000")]))
    stop(node)
    (described,) = ask(a_node(tmp_path / "log"), ApiKey.METADATA, topics=[{"name": "t"}]).topics
    assert (described.topic_id, len(described.partitions)) == (topic.topic_id, 2)


def test_the_response_is_sent_only_once_the_change_is_durable(node):
    waiting = begin(node, ApiKey.CREATE_TOPICS, topics=[wanted()], timeout=5000)
    assert waiting.answer is None
    node.jobs.run_all()
    assert code(waiting.answer.topics[0]) == "none"


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        (wanted("a b"), "invalid_topic_exception"),
        (wanted(""), "invalid_topic_exception"),
        (wanted("."), "invalid_topic_exception"),
        (wanted("x" * 250), "invalid_topic_exception"),
        (wanted("t", 0), "invalid_partitions"),
        (wanted("t", -2), "invalid_partitions"),
        (wanted("t", 1, 0), "invalid_replication_factor"),
        (wanted("t", 1, -2), "invalid_replication_factor"),
        (wanted("t", 1, 2), "invalid_replication_factor"),
        (wanted("t", 0, 2), "invalid_partitions"),
        (wanted("t", 0, 0), "invalid_replication_factor"),
        (wanted("t", 10_001), "policy_violation"),
        (wanted("there", 0), "topic_already_exists"),
        (wanted("t", configs=[("no.such", "1")]), "invalid_config"),
        (wanted("t", configs=[("retention.ms", "soon")]), "invalid_config"),
        (wanted("t", configs=[("retention.ms", None)]), "invalid_config"),
        (wanted("t", configs=[("retention.ms", "1"), ("retention.ms", None)]), "invalid_config"),
        (wanted("t", configs=[("", "1")]), "invalid_config"),
        (wanted("t", configs=[("remote.storage.enable", "true")]), "invalid_config"),
        (wanted("t", 0, 0, configs=[("no.such", "1")]), "invalid_config"),
        (wanted("t", 1, 1, assignments=[(0, [7])], configs=[("no.such", "1")]), "invalid_config"),
        (wanted("a b", 0, configs=[("retention.ms", None)]), "invalid_topic_exception"),
        (wanted("__cluster_metadata"), "invalid_request"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_creations_are_refused_and_create_nothing(node, topic, expected):
    make_topic(node, "there")
    for validate_only in (True, False):
        (answer,) = create(node, topic, validate_only=validate_only)
        assert (code(answer), bool(answer.error_message)) == (expected, True)
        assert (answer.num_partitions, answer.replication_factor, answer.configs) == (-1, -1, ())
        assert answer.topic_id is None
    assert partition_counts(node) == {"there": 1}


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        (wanted("t", -1, -1, assignments=[(0, [1]), (1, [1])]), "none"),
        (wanted("t", -1, -1, assignments=[(1, [1]), (0, [1])]), "none"),
        (wanted("t", 2, -1, assignments=[(0, [1]), (1, [1])]), "invalid_request"),
        (wanted("t", -1, 1, assignments=[(0, [1])]), "invalid_request"),
        (wanted("t", -1, -1, assignments=[(0, [1]), (2, [1])]), "invalid_replica_assignment"),
        (wanted("t", -1, -1, assignments=[(1, [1])]), "invalid_replica_assignment"),
        (wanted("t", -1, -1, assignments=[(0, [1]), (0, [1])]), "invalid_replica_assignment"),
        (wanted("t", -1, -1, assignments=[(0, [])]), "invalid_replica_assignment"),
        (wanted("t", -1, -1, assignments=[(0, [7])]), "invalid_replica_assignment"),
        (wanted("t", -1, -1, assignments=[(0, [1, 1])]), "invalid_replica_assignment"),
    ],
    ids=["two", "any order", "a count", "a factor", "a gap", "not from 0", "twice", "nobody", "a stranger", "doubly"],
)
def test_an_assignment_names_this_node_for_each_partition(node, topic, expected):
    (answer,) = create(node, topic)
    assert code(answer) == expected
    assert partition_counts(node) == ({"t": len(topic["assignments"])} if expected == "none" else {})


def test_an_existing_topic_is_distinguished_from_a_colliding_name(node):
    make_topic(node, "a.b")
    assert code(create(node, wanted("a.b"))[0]) == "topic_already_exists"
    assert code(create(node, wanted("a_b"))[0]) == "invalid_topic_exception"


def test_validate_only_creates_nothing(node):
    (topic,) = create(node, wanted("t", -1, -1, configs=[("retention.ms", "5")]), validate_only=True)
    assert (code(topic), topic.num_partitions, topic.replication_factor) == ("none", 1, 1)
    assert topic.topic_id is not None
    assert {"retention.ms": "5"}.items() <= {config.name: config.value for config in topic.configs}.items()
    assert partition_counts(node) == {}


def test_each_topic_is_answered_separately_and_a_duplicate_once(node):
    topics = create(node, wanted("a"), wanted("b b"), wanted("c"), wanted("c", 2), wanted("d", 2))
    assert {topic.name: code(topic) for topic in topics} == {
        "a": "none",
        "b b": "invalid_topic_exception",
        "c": "invalid_request",
        "d": "none",
    }
    assert len(topics) == 4
    assert partition_counts(node) == {"a": 1, "d": 2}


def test_two_topics_of_one_request_may_not_collide(node):
    """Kafka compares with those that exist only, and makes both."""
    topics = create(node, wanted("x.y"), wanted("x_y"))
    assert sorted(code(topic) for topic in topics) == ["invalid_topic_exception", "none"]


def test_a_request_may_create_ten_thousand_partitions_in_total(node):
    topics = create(node, wanted("a", 9_000), validate_only=True)
    assert [code(topic) for topic in topics] == ["none"]
    topics = create(node, wanted("a", 9_999), wanted("b b"), wanted("c", -1), wanted("c", -1), validate_only=True)
    assert {code(topic) for topic in topics} == {"policy_violation"}


def test_the_last_value_of_a_duplicate_setting_applies(node):
    (topic,) = create(node, wanted(configs=[("retention.ms", "1"), ("retention.ms", "2")]))
    assert {config.name: config.value for config in topic.configs}["retention.ms"] == "2"


def test_clients_may_create_the_coordinators_topics(node):
    (topic,) = create(node, wanted("__share_group_state", configs=[("cleanup.policy", "compact")]))
    assert code(topic) == "none"
    ask(node, ApiKey.DELETE_TOPICS, 1, topic_names=["__share_group_state"], timeout=1000)


def test_an_empty_request_gets_an_empty_response(node):
    assert create(node) == ()


def test_create_access_to_the_topic_or_the_cluster_suffices(tmp_path):
    node = a_guarded_node(tmp_path / "log")
    (topic,) = create(node, wanted("mine-1"), principal=EVE)
    assert code(topic) == "topic_authorization_failed"
    allow(node, EVE, Operation.CREATE, ResourceType.TOPIC, "mine-", is_prefix=True)
    answers = create(node, wanted("mine-1"), wanted("other"), wanted("mine-1 "), principal=EVE)
    assert {topic.name: code(topic) for topic in answers} == {
        "mine-1": "none",
        "other": "topic_authorization_failed",
        "mine-1 ": "invalid_topic_exception",
    }
    assert partition_counts(node) == {"mine-1": 1}


def test_without_describe_configs_access_only_the_id_is_returned(tmp_path):
    node = a_guarded_node(tmp_path / "log")
    allow(node, EVE, Operation.CREATE, ResourceType.TOPIC, "t")
    (topic,) = create(node, wanted("t", 2), principal=EVE)
    assert code(topic) == "none"
    assert topic.topic_id is not None
    assert (topic.topic_config_error_code, topic.num_partitions, topic.replication_factor) == (29, -1, -1)
    assert not topic.configs
