import pytest
from support.nodes.whole_node import EVE, a_guarded_node, a_node, allow

from broker_core.handlers.call import Call, ConnectionEnd, Peer
from broker_core.model.access_control import SUPPORTED_OPERATIONS, Operation, ResourceType
from broker_core.protocol.api_table import ApiKey, message_types
from broker_core.protocol.connection import Request
from broker_core.protocol.message_builder import build


@pytest.fixture
def node(tmp_path):
    return a_node(tmp_path / "log")


def a_call(node, api_key=ApiKey.METADATA, version=8, *, principal="User:ANONYMOUS", client_id="me", **fields):
    """(call, what was sent)"""
    sent = []
    request = Request(
        api_key=api_key,
        api_version=version,
        correlation_id=7,
        client_id=client_id,
        message=build(message_types(api_key, version).request, fields),
    )
    peer = Peer(client_host="10.0.0.7", client_port=4711, listener="PLAINTEXT", principal=principal, connection_id=3)
    return Call(node=node, request=request, peer=peer, send=sent.append, now_ms=5), sent


def test_the_call_has_the_principal_and_the_request(node):
    call, _ = a_call(node)
    assert (call.api_key, call.version, call.client_id, call.client_host) == (ApiKey.METADATA, 8, "me", "10.0.0.7")
    assert (call.listener, call.principal, str(call.peer)) == ("PLAINTEXT", "User:ANONYMOUS", "10.0.0.7:4711")
    assert a_call(node, client_id=None)[0].client_id == ""


def test_a_response_has_the_requests_version_and_only_its_fields(node):
    for version in (0, 13):
        call, sent = a_call(node, version=version)
        call.respond(brokers=[{"node_id": 1, "host": "h", "port": 2, "rack": "r"}], cluster_id="c", topics=[])
        (answer,) = sent
        assert type(answer).__version__ == version
        assert getattr(answer, "cluster_id", None) == ("c" if version >= 2 else None)
        assert getattr(answer.brokers[0], "rack", None) == ("r" if version >= 1 else None)


def test_a_field_that_no_version_has_is_an_error(node):
    call, _ = a_call(node)
    with pytest.raises(TypeError, match="no_such"):
        call.respond(no_such=1)
    assert not call.is_answered


def test_a_call_is_answered_once(node):
    call, sent = a_call(node)
    call.respond()
    for again in (call.respond, call.respond_nothing, lambda: call.close_connection("why")):
        with pytest.raises(AssertionError, match="answered twice"):
            again()
    assert len(sent) == 1


def test_a_call_may_end_without_a_response_or_close_the_connection(node):
    call, sent = a_call(node)
    call.respond_nothing()
    other, _ = a_call(node)
    other_sent = []
    other._send = other_sent.append
    other.close_connection("it cannot be answered")
    assert (sent, other_sent) == ([None], [ConnectionEnd(reason="it cannot be answered")])


def test_a_field_that_an_old_version_lacks_has_its_default(node):
    assert a_call(node, version=0)[0].request_field("allow_auto_topic_creation", "old") == "old"
    assert (
        a_call(node, version=8, allow_auto_topic_creation=True)[0].request_field("allow_auto_topic_creation", 0) is True
    )


def test_without_an_authorizer_everything_is_allowed(node):
    call, _ = a_call(node, principal=EVE)
    assert call.is_allowed(Operation.ALTER, ResourceType.CLUSTER)
    assert call.allowed_operations(ResourceType.TOPIC, "t") == frozenset(SUPPORTED_OPERATIONS[ResourceType.TOPIC])


def test_acls_are_checked_for_the_client_and_its_host(tmp_path):
    node = a_guarded_node(tmp_path / "log")
    allow(node, EVE, Operation.READ, ResourceType.TOPIC, "t")
    call, _ = a_call(node, principal=EVE)
    assert call.is_allowed(Operation.READ, ResourceType.TOPIC, "t")
    assert not call.is_allowed(Operation.WRITE, ResourceType.TOPIC, "t")
    assert not call.is_allowed(Operation.READ, ResourceType.TOPIC, "u")
    assert call.allowed_operations(ResourceType.TOPIC, "t") == {Operation.READ, Operation.DESCRIBE}


def test_a_refusal_is_logged_unless_the_client_does_not_see_it(tmp_path, caplog):
    call, _ = a_call(a_guarded_node(tmp_path / "log"), principal=EVE)
    with caplog.at_level("INFO"):
        call.is_allowed(Operation.READ, ResourceType.TOPIC, "quiet", log_if_denied=False)
        call.is_allowed(Operation.READ, ResourceType.TOPIC, "loud")
    assert "loud" in caplog.text
    assert "quiet" not in caplog.text


@pytest.mark.parametrize(("work", "respond"), [(lambda: 1 / 0, print), (lambda: 1, lambda _: 1 / 0)])
def test_an_error_in_a_job_or_its_callback_closes_the_connection_and_answers_waiting_requests(node, work, respond):
    call, sent = a_call(node)
    call.after_job(work, respond)
    assert sent == []
    node.jobs.run_all()
    (end,) = sent
    assert "could not be answered" in end.reason


def test_the_result_of_a_job_is_returned(node):
    call, sent = a_call(node)
    call.after_job(lambda: "c", lambda found: call.respond(cluster_id=found))
    node.jobs.run_all()
    assert sent[0].cluster_id == "c"
