import pytest
from support.nodes.whole_node import EVE, a_guarded_node, a_node, ask, begin

from broker_core.model.exceptions import StorageError
from broker_core.model.identifiers import TopicPartition
from broker_core.protocol.api_table import ApiKey

TOPICS = ["__consumer_offsets", "__transaction_state"]


@pytest.fixture
def node(tmp_path):
    return a_node(tmp_path, node_id=7)


def find(node, version, key_type=0, **fields):
    given = {"key": "k", "key_type": key_type, "coordinator_keys": ("k", "l")} | fields
    if version == 0:
        del given["key_type"]
    return ask(node, ApiKey.FIND_COORDINATOR, version, **given)


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("key_type", [0, 1])
def test_every_version_returns_the_single_node_as_coordinator(node, version, key_type):
    answer = find(node, version, key_type)
    found = answer.coordinators if version >= 4 else [answer]
    assert {(each.error_code.name, each.node_id, each.host, each.port) for each in found} == {
        ("none", 7, "127.0.0.1", 9092)
    }
    if version >= 4:
        assert [(each.key, each.error_message) for each in found] == [("k", ""), ("l", "")]


@pytest.mark.parametrize("version", [1, 3])
def test_old_versions_return_none_as_a_string_like_kafka(node, version):
    assert find(node, version).error_message == "NONE"


@pytest.mark.parametrize("key_type", [2, 9])
@pytest.mark.parametrize("version", [1, 6])
def test_other_coordinator_types_are_refused(node, version, key_type):
    answer = find(node, version, key_type)
    found = answer.coordinators if version >= 4 else [answer]
    assert {(each.error_code.name, each.node_id, each.host, each.port) for each in found} == {
        ("invalid_request", -1, "", -1)
    }


@pytest.mark.parametrize(
    ("key_type", "error"), [(0, "group_authorization_failed"), (1, "transactional_id_authorization_failed")]
)
def test_a_client_without_describe_access_is_refused(tmp_path, key_type, error):
    node = a_guarded_node(tmp_path)
    answer = find(node, 6, key_type, principal=EVE)
    assert {each.error_code.name for each in answer.coordinators} == {error}
    assert find(node, 3, key_type, principal=EVE).error_code.name == error
    assert node.topics.image.topics == {}


@pytest.mark.parametrize("key_type", [0, 1])
@pytest.mark.parametrize("version", [1, 6])
def test_the_response_waits_for_the_coordinators_topic_which_is_created_once(node, version, key_type):
    given = {"key": "k", "key_type": key_type, "coordinator_keys": ("k",)}
    waiting = [begin(node, ApiKey.FIND_COORDINATOR, version, **given) for _ in range(2)]
    assert [one.answer for one in waiting] == [None, None]
    node.jobs.run_all()
    for one in waiting:
        (found,) = one.answer.coordinators if version >= 4 else [one.answer]
        assert (found.error_code.name, found.node_id) == ("none", 7)
    assert list(node.topics.image.topics) == [TOPICS[key_type]]
    assert node.replicas.get(TopicPartition(TOPICS[key_type], 0)).bounds.high_watermark == 0


def test_without_the_topic_the_coordinator_is_not_available(tmp_path):
    node = a_node(tmp_path)
    node.topics.create_topic = lambda name, *, on_error, **given: on_error(StorageError("no space"))
    answer = find(node, 6)
    assert {(each.error_code.name, each.node_id) for each in answer.coordinators} == {("coordinator_not_available", -1)}
