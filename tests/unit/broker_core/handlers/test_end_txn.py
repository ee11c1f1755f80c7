"""Ends and additions in every state, by whom ever, against what a real Kafka 4.3.1 answered to the same requests."""

import pytest
from support.nodes.transaction_node import TransactionNode

ANSWERED_BY_KAFKA_4_3_1_TO_OLD_CLIENTS = """
    Empty           commit  older  PRODUCER_FENCED              Empty
    Empty           commit  same   INVALID_TXN_STATE            Empty
    Empty           commit  newer  PRODUCER_FENCED              Empty
    Empty           commit  other  INVALID_PRODUCER_ID_MAPPING  Empty
    Empty           abort   older  PRODUCER_FENCED              Empty
    Empty           abort   same   INVALID_TXN_STATE            Empty
    Empty           abort   newer  PRODUCER_FENCED              Empty
    Empty           abort   other  INVALID_PRODUCER_ID_MAPPING  Empty
    Empty           add     older  PRODUCER_FENCED              Empty
    Empty           add     same   NONE                         Ongoing
    Empty           add     newer  PRODUCER_FENCED              Empty
    Empty           add     other  INVALID_PRODUCER_ID_MAPPING  Empty
    Ongoing         commit  older  PRODUCER_FENCED              Ongoing
    Ongoing         commit  same   NONE                         CompleteCommit
    Ongoing         commit  newer  PRODUCER_FENCED              Ongoing
    Ongoing         commit  other  INVALID_PRODUCER_ID_MAPPING  Ongoing
    Ongoing         abort   older  PRODUCER_FENCED              Ongoing
    Ongoing         abort   same   NONE                         CompleteAbort
    Ongoing         abort   newer  PRODUCER_FENCED              Ongoing
    Ongoing         abort   other  INVALID_PRODUCER_ID_MAPPING  Ongoing
    Ongoing         add     older  PRODUCER_FENCED              Ongoing
    Ongoing         add     same   NONE                         Ongoing
    Ongoing         add     newer  PRODUCER_FENCED              Ongoing
    Ongoing         add     other  INVALID_PRODUCER_ID_MAPPING  Ongoing
    CompleteCommit  commit  older  PRODUCER_FENCED              CompleteCommit
    CompleteCommit  commit  same   NONE                         CompleteCommit
    CompleteCommit  commit  newer  PRODUCER_FENCED              CompleteCommit
    CompleteCommit  commit  other  INVALID_PRODUCER_ID_MAPPING  CompleteCommit
    CompleteCommit  abort   older  PRODUCER_FENCED              CompleteCommit
    CompleteCommit  abort   same   INVALID_TXN_STATE            CompleteCommit
    CompleteCommit  abort   newer  PRODUCER_FENCED              CompleteCommit
    CompleteCommit  abort   other  INVALID_PRODUCER_ID_MAPPING  CompleteCommit
    CompleteCommit  add     older  PRODUCER_FENCED              CompleteCommit
    CompleteCommit  add     same   NONE                         Ongoing
    CompleteCommit  add     newer  PRODUCER_FENCED              CompleteCommit
    CompleteCommit  add     other  INVALID_PRODUCER_ID_MAPPING  CompleteCommit
    CompleteAbort   commit  older  PRODUCER_FENCED              CompleteAbort
    CompleteAbort   commit  same   INVALID_TXN_STATE            CompleteAbort
    CompleteAbort   commit  newer  PRODUCER_FENCED              CompleteAbort
    CompleteAbort   commit  other  INVALID_PRODUCER_ID_MAPPING  CompleteAbort
    CompleteAbort   abort   older  PRODUCER_FENCED              CompleteAbort
    CompleteAbort   abort   same   NONE                         CompleteAbort
    CompleteAbort   abort   newer  PRODUCER_FENCED              CompleteAbort
    CompleteAbort   abort   other  INVALID_PRODUCER_ID_MAPPING  CompleteAbort
    CompleteAbort   add     older  PRODUCER_FENCED              CompleteAbort
    CompleteAbort   add     same   NONE                         Ongoing
    CompleteAbort   add     newer  PRODUCER_FENCED              CompleteAbort
    CompleteAbort   add     other  INVALID_PRODUCER_ID_MAPPING  CompleteAbort
"""
"""State; EndTxn 3 or AddPartitionsToTxn 3; with the epoch before, the current, the next one, or with another producer
id; the answer; the state afterwards. The epoch never changes."""
ANSWERS = [line.split() for line in ANSWERED_BY_KAFKA_4_3_1_TO_OLD_CLIENTS.strip().splitlines()]


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    return TransactionNode(tmp_path_factory.mktemp("node"))


@pytest.fixture
def name(request):
    return request.node.name


def asker_in(node, name, state):
    node.producer(name)
    producer = node.producer(name)
    if state != "Empty":
        assert node.add(producer, 0, transactional_id=name) == ["none"]
    if state.startswith("Complete"):
        assert node.end(producer, commit=state == "CompleteCommit", transactional_id=name, version=3) == "none"
    assert node.state(name) == (state, producer[1])
    return producer


@pytest.mark.parametrize(("state", "what", "who", "answer", "state_after"), ANSWERS, ids=map(" ".join, ANSWERS))
def test_old_clients_get_kafkas_response_to_every_request_in_every_state(
    node, name, state, what, who, answer, state_after
):
    producer_id, epoch = asker_in(node, name, state)
    asker = producer_id + 7 * (who == "other"), epoch + {"older": -1, "newer": 1}.get(who, 0)
    if what == "add":
        (answered,) = node.add(asker, 1, transactional_id=name)
    else:
        answered = node.end(asker, commit=what == "commit", transactional_id=name, version=3)
    assert (answered.upper(), node.state(name)) == (answer, (state_after, epoch))


def test_version_5_returns_the_next_producer_id_and_epoch(node, name):
    producer_id, epoch = node.producer(name)
    node.add((producer_id, epoch), 0, transactional_id=name)
    assert node.end((producer_id, epoch), transactional_id=name) == ("none", producer_id, epoch + 1)
    assert node.end((producer_id, epoch), transactional_id=name) == ("none", producer_id, epoch + 1), "a retry"
    assert node.end((producer_id, epoch + 1), commit=False, transactional_id=name) == ("none", producer_id, epoch + 2)
    assert node.end((producer_id, epoch + 9), transactional_id=name) == ("producer_fenced", -1, -1)


def test_a_retry_during_an_end_gets_a_retriable_error(node, name):
    producer = node.producer(name)
    node.add(producer, 0, transactional_id=name)
    first = node.send_end(producer, transactional_id=name)
    second = node.send_end(producer, transactional_id=name)
    node.jobs.run_all()
    assert [each.error_code.name for each in first + second] == ["none", "concurrent_transactions"]
    assert node.state(name) == ("CompleteCommit", producer[1] + 1)


@pytest.mark.parametrize(("version", "answer"), [(0, "invalid_producer_epoch"), (1, "invalid_producer_epoch"),
                                                 (2, "producer_fenced"), (4, "producer_fenced")])  # fmt: skip
def test_the_error_for_a_fenced_producer_depends_on_the_version(node, name, version, answer):
    node.producer(name)
    producer_id, epoch = node.producer(name)
    assert node.end((producer_id, epoch - 1), transactional_id=name, version=version) == answer


def test_an_unknown_id_has_no_producer_mapping_and_an_empty_one_is_invalid(node):
    assert node.end((1, 1), transactional_id="never", version=3) == "invalid_producer_id_mapping"
    assert node.end((1, 1), transactional_id="", version=3) == "invalid_request"
