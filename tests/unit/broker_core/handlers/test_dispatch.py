import logging

import pytest
from support.builders.builders import a_batch
from support.nodes.whole_node import LISTENER, NO_ANSWER, a_node, ask, begin, make_topic, produce

from broker_core.handlers.call import Peer
from broker_core.handlers.dispatch import dispatch
from broker_core.model.exceptions import MalformedMessageError, StorageError
from broker_core.protocol.api_table import ApiKey, message_types
from broker_core.protocol.connection import Request
from broker_core.protocol.message_builder import build
from broker_core.protocol.served_versions import SERVED_VERSIONS

PEER = Peer(client_host="127.0.0.1", client_port=1, listener=LISTENER, principal="User:ANONYMOUS", connection_id=1)


@pytest.fixture
def node(tmp_path):
    return a_node(tmp_path / "log")


def send(node, api_key, version, message=None, peer=PEER):
    """Answers so far."""
    answers = []
    request = Request(api_key=api_key, api_version=version, correlation_id=1, client_id=None, message=message)
    dispatch(node, request, peer, answers.append, 0)
    return answers


def message_of(api_key, version, **fields):
    return build(message_types(api_key, version).request, fields)


@pytest.mark.parametrize(
    ("api_key", "version"),
    [(ApiKey.FETCH, 3), (ApiKey.FETCH, 19), (ApiKey.PRODUCE, 2), (4, 0), (6, 0), (93, 0), (-1, 0), (999, 7)],
)
def test_an_unsupported_api_closes_the_connection(node, api_key, version):
    with pytest.raises(MalformedMessageError, match="is not supported"):
        send(node, api_key, version)


def test_a_version_with_a_schema_that_is_not_advertised_is_not_served(node):
    version = SERVED_VERSIONS[ApiKey.INIT_PRODUCER_ID][-1] + 1
    message = message_of(ApiKey.INIT_PRODUCER_ID, version - 1)
    with pytest.raises(MalformedMessageError):
        send(node, ApiKey.INIT_PRODUCER_ID, version, message)


@pytest.mark.parametrize("version", [5, 99])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(node, version):
    (answer,) = send(node, ApiKey.API_VERSIONS, version)
    assert (type(answer).__version__, answer.error_code.name) == (0, "unsupported_version")
    ranges = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert ranges[ApiKey.API_VERSIONS] == (0, 4)


def without(node, attribute):
    """A node that breaks where a handler asks it for something."""
    delattr(node, attribute)


def test_an_unexpected_handler_error_is_logged_and_returned_if_the_response_has_an_error_code(node, caplog):
    without(node, "topics")
    with caplog.at_level(logging.ERROR):
        (answer,) = send(node, ApiKey.LIST_CONFIG_RESOURCES, 1, message_of(ApiKey.LIST_CONFIG_RESOURCES, 1))
    assert answer.error_code.name == "unknown_server_error"
    assert "ListConfigResources" in caplog.text


def test_without_an_error_code_in_the_response_the_connection_closes(node):
    without(node, "topics")
    with pytest.raises(AttributeError):
        send(node, ApiKey.METADATA, 12, message_of(ApiKey.METADATA, 12, topics=None))


def test_a_known_error_has_its_own_code(node):
    class Broken:
        def __getattr__(self, name):
            raise StorageError("the disk failed")

    node.topics = Broken()
    (answer,) = send(node, ApiKey.LIST_CONFIG_RESOURCES, 1, message_of(ApiKey.LIST_CONFIG_RESOURCES, 1))
    assert answer.error_code.name == "kafka_storage_error"


def test_an_error_after_the_response_is_not_answered_again(node):
    def broken_send(message):
        raise OSError("the connection broke")

    request = Request(api_key=ApiKey.LIST_CONFIG_RESOURCES, api_version=1, correlation_id=1, client_id=None,
                      message=message_of(ApiKey.LIST_CONFIG_RESOURCES, 1))  # fmt: skip
    with pytest.raises(OSError, match="the connection broke"):
        dispatch(node, request, PEER, broken_send, 0)


def test_a_response_may_be_sent_later_or_never(node):
    make_topic(node, "t")
    waiting = produce(node, "t", a_batch(1), run=False)
    assert waiting.answer is None
    node.jobs.run_all()
    assert waiting.answer is not None
    assert produce(node, "t", a_batch(1), acks=0) == NO_ANSWER


FIELDS = {
    ApiKey.METADATA: {"topics": ()},
    ApiKey.API_VERSIONS: {"client_software_name": "x", "client_software_version": "1"},
}


@pytest.mark.parametrize("api_key", sorted(SERVED_VERSIONS), ids=lambda key: ApiKey(key).label)
def test_an_empty_request_is_answered_in_every_version_that_is_served(node, api_key):
    """Kafka's schemas have defaults for everything: no handler may stumble over them."""
    for version in SERVED_VERSIONS[api_key]:
        if api_key == ApiKey.PRODUCE and version < 3:
            continue  # announced for old librdkafka only
        waiting = begin(node, api_key, version, **FIELDS.get(api_key, {}))
        node.jobs.run_all()
        node.clock.time_ms += 60_000
        node.on_time(node.clock.now_ms())
        node.jobs.run_all()
        assert waiting.answer is not None, version


def test_requests_of_a_client_are_answered_in_order(node):
    """Creating, then writing, then deleting, all before the disk has done anything."""
    make_topic(node, "t")
    written = [produce(node, "t", a_batch(1), run=False) for _ in range(3)]
    deleted = begin(node, ApiKey.DELETE_TOPICS, 1, topic_names=["t"], timeout=1000)
    node.jobs.run_all()
    assert all(each.answer is not None for each in written)
    assert deleted.answer.responses[0].error_code.name == "none"
    assert ask(node, ApiKey.METADATA, 12, topics=None).topics == ()
