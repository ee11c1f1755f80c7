"""Who may do what, against what a real Kafka 4.3.1 answered to the same requests."""

import pytest
from support.nodes.coordinator_runner import ORDERS, TransactionRunner, refusal_of

from broker_core.cluster import TransactionalProducer
from broker_core.coordinator.record_fields import MAX_STRING_BYTES
from broker_core.model.exceptions import (
    ConcurrentTransactionsError,
    InvalidProducerIdMappingError,
    InvalidRequestError,
    InvalidTransactionStateError,
    InvalidTransactionTimeoutError,
    ProducerFencedError,
)
from broker_core.model.limits import MAX_TRANSACTION_TIMEOUT_MS, NO_TRANSACTION_TIMEOUT_MS
from broker_core.txn.producer_checks import check_transactional_id, checked_timeout_ms

ANSWERED_BY_KAFKA_4_3_1 = """
    Empty           commit  older  PRODUCER_FENCED              Empty           0
    Empty           commit  same   INVALID_TXN_STATE            Empty           0
    Empty           commit  newer  PRODUCER_FENCED              Empty           0
    Empty           commit  other  INVALID_PRODUCER_ID_MAPPING  Empty           0
    Empty           abort   older  PRODUCER_FENCED              Empty           0
    Empty           abort   same   -                            CompleteAbort   1
    Empty           abort   newer  PRODUCER_FENCED              Empty           0
    Empty           abort   other  INVALID_PRODUCER_ID_MAPPING  Empty           0
    Empty           add     older  PRODUCER_FENCED              Empty           0
    Empty           add     same   -                            Ongoing         0
    Empty           add     newer  PRODUCER_FENCED              Empty           0
    Empty           add     other  INVALID_PRODUCER_ID_MAPPING  Empty           0
    Ongoing         commit  older  PRODUCER_FENCED              Ongoing         0
    Ongoing         commit  same   -                            CompleteCommit  1
    Ongoing         commit  newer  PRODUCER_FENCED              Ongoing         0
    Ongoing         commit  other  INVALID_PRODUCER_ID_MAPPING  Ongoing         0
    Ongoing         abort   older  PRODUCER_FENCED              Ongoing         0
    Ongoing         abort   same   -                            CompleteAbort   1
    Ongoing         abort   newer  PRODUCER_FENCED              Ongoing         0
    Ongoing         abort   other  INVALID_PRODUCER_ID_MAPPING  Ongoing         0
    Ongoing         add     older  PRODUCER_FENCED              Ongoing         0
    Ongoing         add     same   -                            Ongoing         0
    Ongoing         add     newer  PRODUCER_FENCED              Ongoing         0
    Ongoing         add     other  INVALID_PRODUCER_ID_MAPPING  Ongoing         0
    CompleteCommit  commit  older  -                            CompleteCommit  0
    CompleteCommit  commit  same   INVALID_TXN_STATE            CompleteCommit  0
    CompleteCommit  commit  newer  PRODUCER_FENCED              CompleteCommit  0
    CompleteCommit  commit  other  INVALID_PRODUCER_ID_MAPPING  CompleteCommit  0
    CompleteCommit  abort   older  INVALID_TXN_STATE            CompleteCommit  0
    CompleteCommit  abort   same   -                            CompleteAbort   1
    CompleteCommit  abort   newer  PRODUCER_FENCED              CompleteCommit  0
    CompleteCommit  abort   other  INVALID_PRODUCER_ID_MAPPING  CompleteCommit  0
    CompleteCommit  add     older  PRODUCER_FENCED              CompleteCommit  0
    CompleteCommit  add     same   -                            Ongoing         0
    CompleteCommit  add     newer  PRODUCER_FENCED              CompleteCommit  0
    CompleteCommit  add     other  INVALID_PRODUCER_ID_MAPPING  CompleteCommit  0
    CompleteAbort   commit  older  INVALID_TXN_STATE            CompleteAbort   0
    CompleteAbort   commit  same   INVALID_TXN_STATE            CompleteAbort   0
    CompleteAbort   commit  newer  PRODUCER_FENCED              CompleteAbort   0
    CompleteAbort   commit  other  INVALID_PRODUCER_ID_MAPPING  CompleteAbort   0
    CompleteAbort   abort   older  -                            CompleteAbort   0
    CompleteAbort   abort   same   -                            CompleteAbort   1
    CompleteAbort   abort   newer  PRODUCER_FENCED              CompleteAbort   0
    CompleteAbort   abort   other  INVALID_PRODUCER_ID_MAPPING  CompleteAbort   0
    CompleteAbort   add     older  PRODUCER_FENCED              CompleteAbort   0
    CompleteAbort   add     same   -                            Ongoing         0
    CompleteAbort   add     newer  PRODUCER_FENCED              CompleteAbort   0
    CompleteAbort   add     other  INVALID_PRODUCER_ID_MAPPING  CompleteAbort   0
"""
"""State; EndTxn 5 or AddPartitionsToTxn 3; with the epoch before, the current, the next one, or with another producer
id; the answer; then the state and by how much the epoch is higher. `older` is the epoch before the end, or before init.
"""
ANSWERS = [line.split() for line in ANSWERED_BY_KAFKA_4_3_1.strip().splitlines()]
REFUSALS = {
    "-": type(None),
    "PRODUCER_FENCED": ProducerFencedError,
    "INVALID_TXN_STATE": InvalidTransactionStateError,
    "INVALID_PRODUCER_ID_MAPPING": InvalidProducerIdMappingError,
}


@pytest.fixture
def runner():
    return TransactionRunner()


def producer_in(runner, state):
    producer = runner.init()
    if state == "Empty":
        return runner.init()
    if state == "Ongoing":
        producer = runner.init()
    runner.add(producer, ORDERS[0])
    if state.startswith("Complete"):
        runner.end(producer, commit=state == "CompleteCommit")
    return producer_now(runner)


def producer_now(runner, *, later=0, other=0):
    described = runner.describe()
    return TransactionalProducer(
        transactional_id="t",
        producer_id=described.producer_id + other,
        producer_epoch=described.producer_epoch + later,
    )


def request(runner, what, producer):
    if what == "add":
        return refusal_of(runner.add, producer, ORDERS[1])
    return refusal_of(runner.end, producer, commit=what == "commit")


@pytest.mark.parametrize(("state", "what", "who", "answer", "state_after", "higher"), ANSWERS, ids=" ".join)
def test_every_request_in_every_state_matches_kafka(runner, state, what, who, answer, state_after, higher):
    asking = producer_in(runner, state)
    assert runner.describe().state.label == state
    asks_as = {"older": {"later": -1}, "same": {}, "newer": {"later": 1}, "other": {"other": 7}}[who]
    log_before = list(runner.log)
    refusal = request(runner, what, producer_now(runner, **asks_as))
    assert type(refusal) is REFUSALS[answer], refusal
    described = runner.describe()
    assert (described.state.label, described.producer_epoch - asking.producer_epoch) == (state_after, int(higher))
    if refusal is not None:
        assert runner.log == log_before
        assert "t" in refusal.message


def test_the_table_is_complete():
    states, requests, askers = ("Empty", "Ongoing", "CompleteCommit", "CompleteAbort"), "commit abort add", 4
    assert len({tuple(line[:3]) for line in ANSWERS}) == len(states) * len(requests.split()) * askers


@pytest.mark.parametrize("decided", ["commit", "abort"])
@pytest.mark.parametrize(
    ("what", "who", "expected"),
    [
        ("commit", {"later": -1}, {"commit": type(None), "abort": InvalidTransactionStateError}),
        ("abort", {"later": -1}, {"commit": InvalidTransactionStateError, "abort": type(None)}),
        *((what, {}, ConcurrentTransactionsError) for what in ("commit", "abort", "add")),
        *((what, {"later": -2}, ProducerFencedError) for what in ("commit", "abort", "add")),
        *((what, {"other": 7}, InvalidProducerIdMappingError) for what in ("commit", "abort", "add")),
        ("add", {"later": -1}, ProducerFencedError),
    ],
)
def test_while_markers_are_missing_only_a_retry_succeeds(runner, decided, what, who, expected):
    """Which state that is cannot be asked of a real Kafka: it is over before the next request."""
    runner.init()
    producer = runner.init()
    runner.add(producer, ORDERS[0])
    runner.decide(producer, commit=decided == "commit")
    log_before = list(runner.log)
    kind = expected[decided] if isinstance(expected, dict) else expected
    asking = producer_now(runner, **who)
    plan = runner.add if what == "add" else runner.decide
    refusal = refusal_of(plan, asking, *([ORDERS[1]] if what == "add" else []), **end_options(what))
    assert type(refusal) is kind, refusal
    assert runner.log == log_before


def end_options(what):
    return {} if what == "add" else {"commit": what == "commit"}


def test_the_last_epoch_is_never_assigned(runner):
    """32767 is the epoch after fencing: no producer was given it."""
    runner.init()
    runner.add(runner.climb("t", 32_766), ORDERS[0])
    runner.run(runner.coordinator.plan_abort("t", now_ms=0))
    runner.complete()
    assert producer_now(runner).producer_epoch == 32_767
    for what in ("commit", "abort", "add"):
        refusal = request(runner, what, producer_now(runner))
        assert isinstance(refusal, ProducerFencedError)
        assert "which was never assigned" in refusal.message


@pytest.mark.parametrize("timeout_ms", [1, MAX_TRANSACTION_TIMEOUT_MS])
def test_a_timeout_within_the_bounds_is_accepted(timeout_ms):
    assert checked_timeout_ms(timeout_ms, is_two_phase=False) == timeout_ms


@pytest.mark.parametrize("timeout_ms", [0, -1, MAX_TRANSACTION_TIMEOUT_MS + 1, NO_TRANSACTION_TIMEOUT_MS])
def test_a_timeout_outside_the_bounds_is_refused(timeout_ms):
    with pytest.raises(InvalidTransactionTimeoutError, match=r"from 1 to 900000 ms \(transaction.max.timeout.ms\)"):
        checked_timeout_ms(timeout_ms, is_two_phase=False)


def test_a_coordinator_may_allow_longer_timeouts():
    longest_ms = MAX_TRANSACTION_TIMEOUT_MS + 1
    assert checked_timeout_ms(longest_ms, is_two_phase=False, longest_ms=longest_ms) == longest_ms
    with pytest.raises(InvalidTransactionTimeoutError, match="from 1 to 900001 ms"):
        checked_timeout_ms(longest_ms + 1, is_two_phase=False, longest_ms=longest_ms)


def test_a_two_phase_transaction_has_no_timeout():
    assert checked_timeout_ms(-5, is_two_phase=True) == NO_TRANSACTION_TIMEOUT_MS


@pytest.mark.parametrize("transactional_id", ["x" * MAX_STRING_BYTES, "ü" * (MAX_STRING_BYTES // 2), " "])
def test_an_id_that_fits_its_record_is_accepted(transactional_id):
    check_transactional_id(transactional_id)


@pytest.mark.parametrize(
    "transactional_id", ["", "x" * (MAX_STRING_BYTES + 1), "ü" * (MAX_STRING_BYTES // 2 + 1), "\ud800"]
)
def test_an_id_that_cannot_be_stored_is_refused(transactional_id):
    with pytest.raises(InvalidRequestError, match="transactional id"):
        check_transactional_id(transactional_id)
