from uuid import UUID

import pytest
from support.nodes.whole_node import EVE, a_guarded_node, a_node, allow, ask, begin, make_topic

from broker_core.model.access_control import CLUSTER_NAME, Operation, ResourceType
from broker_core.protocol.api_table import ApiKey

UNKNOWN_ID = UUID("11111111-2222-3333-4444-555555555555")
NOT_ASKED_FOR = -(2**31)


@pytest.fixture
def node(tmp_path):
    return a_node(tmp_path / "log")


def look(node, topics, version=None, *, auto=False, **more):
    return ask(node, ApiKey.METADATA, version, topics=topics, allow_auto_topic_creation=auto, **more)


def named(*names):
    return [{"name": name, "topic_id": None} for name in names]


def by_id(*ids):
    return [{"name": None, "topic_id": topic_id} for topic_id in ids]


def codes(answer):
    return {topic.name: topic.error_code.name for topic in answer.topics if not topic.name or topic.name[:2] != "__"}


@pytest.mark.parametrize("version", range(14))
def test_a_topic_is_shown_with_its_partitions_and_their_leader(node, version):
    topic_id = make_topic(node, "t", 2)
    answer = look(node, named("t"), version)
    (topic,) = answer.topics
    assert (topic.error_code.name, topic.name, getattr(topic, "is_internal", False)) == ("none", "t", False)
    assert getattr(topic, "topic_id", topic_id) == topic_id
    partitions = sorted(topic.partitions, key=lambda each: each.partition_index)
    assert [each.partition_index for each in partitions] == [0, 1]
    for partition in partitions:
        assert (partition.error_code.name, partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (
            "none", node.cluster.node_id, (node.cluster.node_id,), (node.cluster.node_id,),
        )  # fmt: skip
        assert (getattr(partition, "leader_epoch", 0), getattr(partition, "offline_replicas", ())) == (0, ())


@pytest.mark.parametrize("version", range(14))
def test_the_broker_is_the_controller_at_its_listener_address(node, version):
    answer = look(node, named("nowhere"), version)
    (broker,) = answer.brokers
    assert (broker.node_id, broker.host) == (node.cluster.node_id, "127.0.0.1")
    assert broker.port > 0
    assert getattr(broker, "rack", None) is None
    assert getattr(answer, "controller_id", node.cluster.node_id) == node.cluster.node_id
    assert getattr(answer, "cluster_id", node.cluster.cluster_id) == node.cluster.cluster_id


@pytest.mark.parametrize(("version", "topics"), [(0, ()), *((version, None) for version in range(1, 14))])
def test_null_means_all_topics_and_in_version_0_an_empty_list(node, version, topics):
    make_topic(node, "t")
    make_topic(node, "u")
    assert codes(look(node, topics, version)) == {"t": "none", "u": "none"}


@pytest.mark.parametrize("version", range(1, 14))
def test_an_empty_list_means_no_topics(node, version):
    make_topic(node, "t")
    assert look(node, (), version).topics == ()


def test_a_duplicate_topic_is_shown_once(node):
    make_topic(node, "t")
    assert len(look(node, named("t", "t")).topics) == 1
    assert len(look(node, named("nowhere", "nowhere")).topics) == 1


@pytest.mark.parametrize("version", range(4, 14))
def test_a_missing_topic_without_auto_creation_is_unknown(node, version):
    answer = look(node, named("nowhere"), version)
    assert codes(answer) == {"nowhere": "unknown_topic_or_partition"}
    assert answer.topics[0].partitions == ()
    assert codes(look(node, None, version)) == {}


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "x" * 250])
@pytest.mark.parametrize("auto", [False, True])
def test_an_invalid_topic_name_is_refused(node, name, auto):
    assert codes(look(node, named(name), auto=auto)) == {name: "invalid_topic_exception"}


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 13])
def test_an_unknown_topic_is_auto_created_if_the_client_allows_it(node, version):
    """Before version 4 a client cannot say, and wants it."""
    assert codes(look(node, named("new"), version, auto=True)) == {"new": "unknown_topic_or_partition"}
    (topic,) = look(node, named("new")).topics
    assert (topic.error_code.name, len(topic.partitions)) == ("none", 1)


def test_an_auto_created_topic_has_num_partitions(tmp_path):
    node = a_node(tmp_path / "log", num_partitions=3)
    look(node, named("new"), auto=True)
    assert len(look(node, named("new")).topics[0].partitions) == 3


def test_two_concurrent_requests_create_one_topic(node):
    waiting = [begin(node, ApiKey.METADATA, topics=named("new"), allow_auto_topic_creation=True) for _ in range(2)]
    node.jobs.run_all()
    assert [codes(each.answer) for each in waiting] == [{"new": "unknown_topic_or_partition"}] * 2
    assert codes(look(node, None)) == {"new": "none"}


def test_auto_create_topics_enable_false_disables_auto_creation(tmp_path):
    node = a_node(tmp_path / "log", auto_create_topics_enable="false")
    for version in (0, 4, 13):
        assert codes(look(node, named("new"), version, auto=True)) == {"new": "unknown_topic_or_partition"}
    assert codes(look(node, None)) == {}


def test_internal_topics_are_auto_created_with_their_coordinators_settings(tmp_path):
    node = a_node(tmp_path / "log", num_partitions=3)
    look(node, named("__consumer_offsets"), auto=True)
    (topic,) = look(node, named("__consumer_offsets")).topics
    assert (topic.error_code.name, topic.is_internal, len(topic.partitions)) == ("none", True, 1)
    assert node.topics.topic("__consumer_offsets").configs["cleanup.policy"] == "compact"


@pytest.mark.parametrize("version", [12, 13])
def test_topics_are_found_by_id(node, version):
    topic_id = make_topic(node, "t", 2)
    (topic,) = look(node, by_id(topic_id), version).topics
    assert (topic.error_code.name, topic.name, topic.topic_id, len(topic.partitions)) == ("none", "t", topic_id, 2)


def test_an_unknown_topic_id_is_unknown(node):
    (topic,) = look(node, by_id(UNKNOWN_ID)).topics
    assert (topic.error_code.name, topic.name, topic.topic_id) == ("unknown_topic_id", None, UNKNOWN_ID)


@pytest.mark.parametrize("version", [10, 11])
def test_versions_10_and_11_refuse_topic_ids(node, version):
    topic_id = make_topic(node, "t")
    (topic,) = look(node, [{"name": "t", "topic_id": topic_id}], version).topics
    assert topic.error_code.name == "invalid_request"


@pytest.mark.parametrize(
    ("version", "expected"), [(10, "invalid_request"), (11, "invalid_request"), (12, "unknown_server_error")]
)
def test_a_topic_without_name_and_id_fails_the_request(node, version, expected):
    make_topic(node, "t")
    answer = look(node, [{"name": "t", "topic_id": None}, {"name": None, "topic_id": None}], version)
    assert [topic.error_code.name for topic in answer.topics] == [expected] * 2


def test_with_ids_names_are_ignored(node):
    topic_id = make_topic(node, "t")
    make_topic(node, "u")
    answer = look(node, [{"name": "zz", "topic_id": topic_id}, {"name": "u", "topic_id": None}])
    assert codes(answer) == {"t": "none"}
    assert len(look(node, by_id(topic_id, topic_id)).topics) == 1


def test_a_colliding_name_stays_unknown(node):
    make_topic(node, "a_b")
    for auto in (False, True, False):
        assert codes(look(node, named("a.b"), auto=auto)) == {"a.b": "unknown_topic_or_partition"}


def test_authorized_operations_are_returned_on_request(node):
    make_topic(node, "t")
    answer = look(node, named("t"), 8)
    assert (answer.cluster_authorized_operations, answer.topics[0].topic_authorized_operations) == (
        NOT_ASKED_FOR, NOT_ASKED_FOR,
    )  # fmt: skip
    whole = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    answer = look(node, named("t"), 8, **whole)
    assert bits(answer.topics[0].topic_authorized_operations) == {3, 4, 5, 6, 7, 8, 10, 11}
    assert bits(answer.cluster_authorized_operations) == {5, 7, 8, 9, 10, 11, 12}
    assert look(node, named("t"), 13, include_topic_authorized_operations=True).topics[0].topic_authorized_operations


def bits(field):
    return {number for number in range(32) if field >> number & 1}


def test_without_describe_access_existing_and_missing_topics_look_the_same(tmp_path):
    node = a_guarded_node(tmp_path / "log")
    topic_id = make_topic(node, "t")
    refused = "topic_authorization_failed"
    assert codes(look(node, named("t", "nowhere"), principal=EVE)) == {"t": refused, "nowhere": refused}
    assert look(node, None, principal=EVE).topics == ()
    (topic,) = look(node, by_id(topic_id), principal=EVE).topics
    assert (topic.error_code.name, topic.name, topic.topic_id, topic.partitions) == (refused, None, topic_id, ())
    (topic,) = look(node, named("t"), principal=EVE).topics
    assert (topic.topic_id, topic.partitions) == (None, ())


def test_only_topics_with_describe_access_are_listed(tmp_path):
    node = a_guarded_node(tmp_path / "log")
    for name in ("mine", "other"):
        make_topic(node, name)
    allow(node, EVE, Operation.READ, ResourceType.TOPIC, "mine")
    answer = look(node, None, 8, principal=EVE, include_topic_authorized_operations=True,
                  include_cluster_authorized_operations=True)  # fmt: skip
    assert codes(answer) == {"mine": "none"}
    assert bits(answer.topics[0].topic_authorized_operations) == {3, 8}
    assert answer.cluster_authorized_operations == 0


def test_cluster_operations_need_describe_access_to_the_cluster(tmp_path):
    node = a_guarded_node(tmp_path / "log")
    allow(node, EVE, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    answer = look(node, (), 8, principal=EVE, include_cluster_authorized_operations=True)
    assert bits(answer.cluster_authorized_operations) == {8}


def test_auto_creation_needs_create_access(tmp_path):
    node = a_guarded_node(tmp_path / "log")
    allow(node, EVE, Operation.DESCRIBE, ResourceType.TOPIC, "new", is_prefix=True)
    assert codes(look(node, named("new"), auto=True, principal=EVE)) == {"new": "topic_authorization_failed"}
    assert codes(look(node, named("new"), auto=False, principal=EVE)) == {"new": "unknown_topic_or_partition"}
    allow(node, EVE, Operation.CREATE, ResourceType.TOPIC, "new-2")
    look(node, named("new-2"), auto=True, principal=EVE)
    assert codes(look(node, None)) == {"new-2": "none"}
