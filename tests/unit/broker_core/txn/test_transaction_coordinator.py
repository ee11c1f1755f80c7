import copy
from dataclasses import replace

import pytest
from support.nodes.coordinator_runner import ORDERS, TransactionRunner, refusal_of

from broker_core.cluster import TransactionalProducer
from broker_core.model.exceptions import (
    ConcurrentTransactionsError,
    InvalidProducerIdMappingError,
    InvalidRequestError,
    InvalidTransactionStateError,
    InvalidTransactionTimeoutError,
    ProducerFencedError,
    UnknownTransactionalIdError,
    UnsupportedFormatError,
)
from broker_core.model.identifiers import SINGLE_USE_ID_PREFIX, TopicPartition
from broker_core.model.limits import (
    MAX_EXPIRED_ID_COUNT,
    NO_TRANSACTION_TIMEOUT_MS,
    SINGLE_USE_ID_EXPIRATION_MS,
    TRANSACTIONAL_ID_EXPIRATION_MS,
)
from broker_core.model.transaction_state import TransactionState
from broker_core.txn.transaction_coordinator import TransactionCoordinator
from broker_core.txn.transaction_replies import EndingTransaction
from broker_core.txn.txn_records import (
    TransactionRecord,
    decode_any_transaction_record,
    encode_transaction_record,
)


@pytest.fixture
def runner():
    return TransactionRunner()


def states(runner, *transactional_ids):
    described = runner.coordinator.describe(transactional_ids)
    return [described[each].state.label for each in transactional_ids]


def open_producers(runner, *transactional_ids):
    producers = [runner.init(each) for each in transactional_ids]
    for number, producer in enumerate(producers):
        runner.add(producer, ORDERS[number % len(ORDERS)])
    return producers


def test_a_plan_changes_nothing(runner):
    a, _ = open_producers(runner, "a", "b")
    before = copy.deepcopy(vars(runner.coordinator))
    coordinator = runner.coordinator
    runner.plan_init("a")
    runner.plan_init("new")
    coordinator.plan_add_partitions(a, ORDERS, now_ms=1)
    coordinator.plan_end([a], commit=True, new_producer_id=runner.new_producer_id, now_ms=1)
    coordinator.plan_complete(coordinator.ending(), now_ms=1)
    coordinator.plan_abort("b", now_ms=1)
    coordinator.plan_expire(10**15)
    assert vars(coordinator) == before


# -- init --


def test_a_first_producer_gets_a_new_id_and_epoch_0(runner):
    producer = runner.init()
    assert (producer.producer_id, producer.producer_epoch) == (1000, 0)
    assert states(runner, "t") == ["Empty"]


def test_the_next_instance_gets_the_next_epoch_and_fences_the_previous_one(runner):
    first, second = runner.init(), runner.init()
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, 1)
    assert isinstance(refusal_of(runner.add, first, ORDERS[0]), ProducerFencedError)


def test_an_open_transaction_is_aborted_before_the_next_instance_is_admitted(runner):
    (first,) = open_producers(runner, "t")
    assert runner.run(runner.plan_init()).producer is None
    ending = EndingTransaction(
        transactional_id="t",
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch + 1,
        is_commit=False,
        partitions=(ORDERS[0],),
        coordinator_epoch=0,
        is_epoch_bumped=True,
    )
    assert runner.coordinator.ending() == (ending,)
    waiting = runner.plan_init()
    assert (waiting.records, waiting.reply.producer) == ((), None)
    runner.complete()
    assert runner.run(runner.plan_init()).producer.producer_epoch == first.producer_epoch + 2


def test_a_decided_commit_is_completed_for_the_next_instance_and_not_aborted(runner):
    (first,) = open_producers(runner, "t")
    runner.decide(first, commit=True)
    assert runner.run(runner.plan_init()).producer is None
    assert [ending.is_commit for ending in runner.coordinator.ending()] == [True]
    assert runner.init().producer_epoch == first.producer_epoch + 2


def test_an_exhausted_epoch_rotates_to_a_new_producer_id(runner):
    """As measured: at epoch 32766 of producer id 56 a real Kafka's InitProducerId answered (57, 0)."""
    old = runner.init()
    assert runner.climb("t", 32_765).producer_epoch == 32_765
    assert runner.init().producer_epoch == 32_766
    new = runner.init()
    assert (new.producer_id, new.producer_epoch) == (old.producer_id + 1, 0)


def test_a_refused_init_uses_no_producer_id(runner):
    for options in ({"timeout_ms": 0}, {"transactional_id": ""}):
        with pytest.raises((InvalidTransactionTimeoutError, InvalidRequestError)):
            runner.init(**options)
    assert runner.init().producer_id == 1000
    assert len(runner.log) == 1


def test_each_init_sets_its_own_timeout(runner):
    runner.init(timeout_ms=1)
    runner.init(timeout_ms=2)
    assert runner.describe().timeout_ms == 2
    runner.init(is_two_phase=True)
    assert runner.describe().timeout_ms == NO_TRANSACTION_TIMEOUT_MS


def test_a_coordinator_may_allow_longer_timeouts(runner):
    runner.coordinator = TransactionCoordinator(longest_timeout_ms=2_000_000)
    assert runner.init(timeout_ms=2_000_000).producer_epoch == 0
    assert isinstance(refusal_of(runner.init, timeout_ms=2_000_001), InvalidTransactionTimeoutError)


# -- add partitions --


def test_the_first_partition_opens_the_transaction_and_others_join_it(runner):
    producer = runner.init()
    runner.add(producer, ORDERS[1])
    runner.now_ms += 500
    runner.add(producer, ORDERS[0], ORDERS[1])
    described = runner.describe()
    assert described.state is TransactionState.ONGOING
    assert (described.partitions, described.start_time_ms) == ((ORDERS[0], ORDERS[1]), 1_000_000)


def test_adding_known_partitions_writes_no_record(runner):
    producer = runner.init()
    runner.add(producer, *ORDERS)
    for again in ([ORDERS[1]], ORDERS, []):
        assert runner.coordinator.plan_add_partitions(producer, again, now_ms=1).records == ()


def test_adding_no_partitions_opens_no_transaction(runner):
    runner.add(runner.init())
    assert states(runner, "t") == ["Empty"]


def test_an_unknown_id_is_refused_everywhere(runner):
    nobody = TransactionalProducer(transactional_id="nobody", producer_id=1000, producer_epoch=0)
    runner.init()
    abort = runner.coordinator.plan_abort
    for action, arguments in ((runner.add, [nobody, ORDERS[0]]), (runner.decide, [nobody])):
        assert isinstance(refusal_of(action, *arguments), UnknownTransactionalIdError)
    assert isinstance(refusal_of(abort, "nobody", now_ms=1), UnknownTransactionalIdError)
    assert runner.coordinator.describe(["nobody"]) == {}


# -- end --


def test_the_markers_carry_the_epoch_after_the_end(runner):
    (producer,) = open_producers(runner, "t")
    (ending,) = runner.decide(producer)
    assert (ending.producer_id, ending.producer_epoch) == (producer.producer_id, producer.producer_epoch + 1)
    assert (ending.is_commit, ending.partitions, ending.coordinator_epoch) == (True, (ORDERS[0],), 0)
    assert runner.coordinator.ending() == (ending,)


def test_the_coordinator_epoch_is_the_leader_epoch_of_its_partition():
    runner = TransactionRunner()
    runner.coordinator = TransactionCoordinator(coordinator_epoch=9)
    (producer,) = open_producers(runner, "t")
    assert [ending.coordinator_epoch for ending in runner.decide(producer)] == [9]


def test_several_transactions_are_decided_by_one_plan(runner):
    driver, *tasks = open_producers(runner, "q-driver", "q-0-0", "q-1-0")
    log_before = len(runner.log)
    endings = runner.decide(driver, *tasks)
    assert [ending.transactional_id for ending in endings] == ["q-driver", "q-0-0", "q-1-0"]
    assert len(runner.log) == log_before + 3
    runner.complete()
    assert states(runner, "q-driver", "q-0-0", "q-1-0") == ["CompleteCommit"] * 3
    assert runner.coordinator.ending() == ()


@pytest.mark.parametrize("place", range(4))
def test_one_transaction_that_cannot_end_keeps_all_of_them_open(runner, place):
    good = open_producers(runner, "a", "b", "c")
    bad = runner.init("never-wrote")
    producers = [*good[:place], bad, *good[place:]]
    log_before = list(runner.log)
    refusal = refusal_of(runner.decide, *producers)
    assert isinstance(refusal, InvalidTransactionStateError)
    assert "'never-wrote' cannot commit: no transaction is open, since no partition was added" in refusal.message
    assert runner.log == log_before
    assert states(runner, "a", "b", "c") == ["Ongoing"] * 3


def test_a_retry_completes_the_decision_of_a_dead_process(runner):
    producers = open_producers(runner, "a", "b")
    endings = runner.decide(*producers)
    log_before = list(runner.log)
    assert runner.decide(*producers) == endings
    runner.run(runner.coordinator.plan_complete(endings[:1], now_ms=1))
    assert runner.decide(*producers) == endings[1:]
    runner.complete()
    assert runner.decide(*producers) == ()
    assert len(runner.log) == len(log_before) + 2


def test_a_retry_may_include_other_transactions(runner):
    a, b = open_producers(runner, "a", "b")
    runner.end(a)
    assert [ending.transactional_id for ending in runner.decide(a, b)] == ["b"]


@pytest.mark.parametrize("is_complete", [False, True])
@pytest.mark.parametrize("was_commit", [False, True])
def test_a_retry_with_the_other_result_is_refused_with_the_result(runner, was_commit, is_complete):
    (producer,) = open_producers(runner, "t")
    runner.decide(producer, commit=was_commit)
    if is_complete:
        runner.complete()
    refusal = refusal_of(runner.decide, producer, commit=not was_commit)
    assert isinstance(refusal, InvalidTransactionStateError)
    assert ("was committed" if was_commit else "was aborted") in refusal.message


def test_a_commit_after_a_timeout_is_refused(runner):
    """As measured: the client of a real Kafka gets InvalidTxnStateException."""
    producer = runner.init(timeout_ms=1500)
    runner.add(producer, ORDERS[1])
    runner.now_ms += 2000
    runner.run(runner.coordinator.plan_expire(runner.now_ms))
    runner.complete()
    assert isinstance(refusal_of(runner.decide, producer), InvalidTransactionStateError)
    assert refusal_of(runner.decide, producer, commit=False) is None


def test_the_next_transaction_needs_the_epoch_after_the_end(runner):
    (producer,) = open_producers(runner, "t")
    runner.end(producer)
    assert isinstance(refusal_of(runner.add, producer, ORDERS[0]), ProducerFencedError)
    runner.add(next_epoch(producer), ORDERS[0])
    assert states(runner, "t") == ["Ongoing"]
    assert isinstance(refusal_of(runner.decide, producer), ProducerFencedError)


def next_epoch(producer, *, producer_id=None, producer_epoch=None):
    return TransactionalProducer(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id if producer_id is None else producer_id,
        producer_epoch=producer.producer_epoch + 1 if producer_epoch is None else producer_epoch,
    )


def test_an_abort_without_an_open_transaction_bumps_the_epoch_and_writes_no_marker(runner):
    producer = runner.init()
    (ending,) = runner.decide(producer, commit=False)
    assert (ending.partitions, ending.is_commit) == ((), False)
    runner.complete()
    assert runner.describe().producer_epoch == producer.producer_epoch + 1
    assert runner.decide(producer, commit=False) == ()


def test_an_end_with_the_last_epoch_continues_with_a_new_producer_id(runner):
    """The answers are those of a real Kafka 4.3.1 to the same requests."""
    runner.init()
    last = runner.climb("t", 32_766)
    runner.add(last, ORDERS[0])
    (ending,) = runner.decide(last)
    assert (ending.producer_id, ending.producer_epoch) == (last.producer_id, 32_767)
    assert runner.decide(last) == (ending,)
    runner.complete()
    described = runner.describe()
    new_id = last.producer_id + 1
    assert (described.producer_id, described.producer_epoch, described.state.label) == (new_id, 0, "CompleteCommit")
    assert runner.decide(last) == ()
    assert isinstance(refusal_of(runner.decide, last, commit=False), InvalidTransactionStateError)
    older = next_epoch(last, producer_epoch=32_765)
    assert isinstance(refusal_of(runner.decide, older), InvalidProducerIdMappingError)
    assert isinstance(refusal_of(runner.add, last, ORDERS[0]), InvalidProducerIdMappingError)
    runner.add(next_epoch(last, producer_id=new_id, producer_epoch=0), ORDERS[0])
    assert isinstance(refusal_of(runner.decide, last), InvalidProducerIdMappingError)


def test_a_fence_at_the_last_epoch_gives_the_next_init_a_new_producer_id(runner):
    runner.init()
    last = runner.climb("t", 32_766)
    runner.add(last, ORDERS[0])
    new = runner.init()
    assert (new.producer_id, new.producer_epoch) == (last.producer_id + 1, 0)


def test_a_duplicate_id_is_refused(runner):
    (producer,) = open_producers(runner, "t")
    with pytest.raises(InvalidRequestError, match="given twice"):
        runner.decide(producer, producer)


def test_a_refused_end_uses_no_producer_id(runner):
    runner.init("full")
    full = runner.climb("full", 32_766)
    runner.add(full, ORDERS[0])
    assert refusal_of(runner.decide, full, runner.init("never-wrote")) is not None
    assert runner.new_producer_id() == 1002


def test_ending_no_transactions_succeeds(runner):
    assert runner.decide() == ()


# -- complete --


def test_a_completed_transaction_is_not_completed_again(runner):
    """Two processes write the same markers; one is late, and the id's next transaction is being ended by then."""
    (first,) = open_producers(runner, "t")
    late = runner.decide(first)
    runner.complete()
    second = next_epoch(first)
    runner.add(second, ORDERS[1])
    assert runner.coordinator.plan_complete(late, now_ms=1).records == ()
    runner.decide(second)
    assert runner.coordinator.plan_complete(late, now_ms=1).records == ()
    assert states(runner, "t") == ["PrepareCommit"]


def test_an_expired_transaction_is_not_completed(runner):
    ghost = EndingTransaction(
        transactional_id="ghost",
        producer_id=1,
        producer_epoch=1,
        is_commit=True,
        partitions=(),
        coordinator_epoch=0,
        is_epoch_bumped=True,
    )
    assert runner.coordinator.plan_complete([ghost], now_ms=1).records == ()


# -- abort by an administrator --


def test_abort_by_id_aborts_and_fences_an_open_transaction(runner):
    (producer,) = open_producers(runner, "t")
    ending = runner.run(runner.coordinator.plan_abort("t", now_ms=1))
    assert (ending.is_commit, ending.producer_epoch) == (False, producer.producer_epoch + 1)
    assert runner.coordinator.ending() == (ending,)
    for action, arguments in ((runner.add, [producer, ORDERS[1]]), (runner.decide, [producer])):
        assert refusal_of(action, *arguments) is not None


def test_abort_by_id_does_not_change_a_decision(runner):
    (producer,) = open_producers(runner, "t")
    (decided,) = runner.decide(producer)
    result = runner.coordinator.plan_abort("t", now_ms=1)
    assert (result.records, result.reply) == ((), decided)
    assert result.reply.is_commit


def test_abort_by_id_without_an_open_transaction_does_nothing(runner):
    (producer,) = open_producers(runner, "t")
    runner.end(producer)
    for transactional_id in ("t", runner.init("empty").transactional_id):
        result = runner.coordinator.plan_abort(transactional_id, now_ms=1)
        assert (result.records, result.reply) == ((), None)


# -- time --


def test_a_transaction_is_aborted_when_it_has_been_open_for_its_timeout(runner):
    producer = runner.init(timeout_ms=5000)
    assert runner.coordinator.next_expiry_ms() is None
    runner.add(producer, ORDERS[0])
    assert runner.coordinator.next_expiry_ms() == 1_005_000
    runner.now_ms = 1_003_000
    runner.add(producer, ORDERS[1])
    assert runner.coordinator.next_expiry_ms() == 1_005_000, "a later partition buys no time"
    assert runner.coordinator.plan_expire(1_004_999).records == ()
    (ending,) = runner.run(runner.coordinator.plan_expire(1_005_000))
    assert (ending.is_commit, ending.producer_epoch) == (False, producer.producer_epoch + 1)
    assert ending.partitions == (ORDERS[0], ORDERS[1])
    assert runner.coordinator.next_expiry_ms() is None
    assert runner.coordinator.plan_expire(1_005_000).records == ()


def test_the_next_expiry_is_the_earliest_timeout(runner):
    for name, timeout_ms in (("a", 9000), ("b", 3000), ("c", 6000)):
        runner.add(runner.init(name, timeout_ms=timeout_ms), ORDERS[0])
    runner.add(runner.init("two-phase", is_two_phase=True), ORDERS[0])
    assert runner.coordinator.next_expiry_ms() == 1_003_000
    assert [ending.transactional_id for ending in runner.run(runner.coordinator.plan_expire(1_006_000))] == ["b", "c"]


def test_a_two_phase_transaction_never_times_out(runner):
    producer = runner.init(is_two_phase=True)
    runner.add(producer, ORDERS[0])
    assert runner.coordinator.next_expiry_ms() is None
    assert runner.coordinator.plan_expire(10**15).records == ()
    runner.end(producer)
    assert states(runner, "t") == ["CompleteCommit"]


def test_a_decided_transaction_never_times_out(runner):
    (producer,) = open_producers(runner, "t")
    runner.decide(producer)
    assert runner.coordinator.plan_expire(10**15).records == ()


def test_idle_transactional_ids_expire(runner):
    open_producers(runner, "open")
    (ended,) = open_producers(runner, "ended")
    runner.end(ended)
    runner.init("never-wrote")
    due_ms = runner.now_ms + TRANSACTIONAL_ID_EXPIRATION_MS
    assert [r for r in runner.coordinator.plan_expire(due_ms - 1).records if r.value is None] == []
    forgotten = [r.transactional_id for r in runner.coordinator.plan_expire(due_ms).records if r.value is None]
    assert forgotten == ["ended", "never-wrote"]
    runner.run(runner.coordinator.plan_expire(due_ms))
    assert [each.transactional_id for each in runner.coordinator.list_transactions()] == ["open"]
    assert isinstance(refusal_of(runner.add, next_epoch(ended), ORDERS[0]), UnknownTransactionalIdError)
    assert runner.init("ended").producer_id != ended.producer_id


def test_single_use_ids_expire_soon(runner):
    name = f"{SINGLE_USE_ID_PREFIX}1-0-0"
    runner.init("driver")
    (ended,) = open_producers(runner, name)
    runner.end(ended)
    open_producers(runner, f"{SINGLE_USE_ID_PREFIX}2-0-0")
    due_ms = runner.now_ms + SINGLE_USE_ID_EXPIRATION_MS
    assert [r for r in runner.coordinator.plan_expire(due_ms - 1).records if r.value is None] == []
    assert [r.transactional_id for r in runner.coordinator.plan_expire(due_ms).records if r.value is None] == [name]


# -- what is known --


def test_only_an_open_transaction_with_the_partition_may_be_written_to(runner):
    (producer,) = open_producers(runner, "t")
    check = runner.coordinator.check_append
    check(producer.producer_id, 0, ORDERS[0])
    for kind, asked, said in (
        (InvalidTransactionStateError, (producer.producer_id, 0, ORDERS[2]), "orders-2 was not added"),
        (ProducerFencedError, (producer.producer_id, 1, ORDERS[0]), "which was never assigned"),
        (InvalidProducerIdMappingError, (77, 0, ORDERS[0]), "producer 77"),
    ):
        refusal = refusal_of(check, *asked)
        assert isinstance(refusal, kind)
        assert said in refusal.message
    runner.decide(producer)
    assert isinstance(refusal_of(check, producer.producer_id, 0, ORDERS[0]), ProducerFencedError)
    assert isinstance(refusal_of(check, producer.producer_id, 1, ORDERS[0]), InvalidTransactionStateError)
    runner.complete()
    refusal = refusal_of(check, producer.producer_id, 1, ORDERS[0])
    assert isinstance(refusal, InvalidTransactionStateError)
    assert "none open (CompleteCommit): add the partition" in refusal.message


def test_a_rotated_producer_id_cannot_write(runner):
    runner.init()
    last = runner.climb("t", 32_766)
    runner.add(last, ORDERS[0])
    runner.coordinator.check_append(last.producer_id, 32_766, ORDERS[0])
    runner.end(last)
    refusal = refusal_of(runner.coordinator.check_append, last.producer_id, 32_766, ORDERS[0])
    assert isinstance(refusal, InvalidProducerIdMappingError)


def test_a_description_has_the_start_time_of_the_open_transaction(runner):
    producer = runner.init(timeout_ms=7000)
    assert runner.describe().start_time_ms == -1
    runner.add(producer, ORDERS[0], TopicPartition("__consumer_offsets", 0))
    described = runner.describe()
    assert (described.transactional_id, described.timeout_ms, described.start_time_ms) == ("t", 7000, 1_000_000)
    assert described.partitions == (TopicPartition("__consumer_offsets", 0), ORDERS[0])
    runner.decide(producer)
    assert (runner.describe().start_time_ms, len(runner.describe().partitions)) == (1_000_000, 2)
    runner.complete()
    assert (runner.describe().start_time_ms, runner.describe().partitions) == (-1, ())


def test_ids_are_listed_in_order_by_prefix_and_state(runner):
    open_producers(runner, "q-1", "q-0", "r")
    runner.init("q-driver")

    def listed(**wanted):
        return [each.transactional_id for each in runner.coordinator.list_transactions(**wanted)]

    assert listed() == ["q-0", "q-1", "q-driver", "r"]
    assert listed(prefix="q-", states={TransactionState.ONGOING}) == ["q-0", "q-1"]
    assert listed(states=[]) == []


def test_during_an_end_no_partitions_are_added(runner):
    (producer,) = open_producers(runner, "t")
    runner.decide(producer)
    refusal = refusal_of(runner.add, next_epoch(producer), ORDERS[0])
    assert isinstance(refusal, ConcurrentTransactionsError)
    assert "PrepareCommit" in refusal.message


@pytest.mark.parametrize("more", [0, 1])
def test_expirations_and_timeouts_are_bounded_per_plan(runner, more):
    """All of a large installation's as one batch would be refused, again and again."""
    for number in range(MAX_EXPIRED_ID_COUNT + more):
        runner.init(f"idle{number:05}")
        runner.add(runner.init(f"open{number:05}"), ORDERS[0])
    due_ms = runner.now_ms + TRANSACTIONAL_ID_EXPIRATION_MS
    for expected in (MAX_EXPIRED_ID_COUNT, more):
        planned = runner.coordinator.plan_expire(due_ms)
        assert (len(planned.reply), len(planned.records)) == (expected, 2 * expected)
        runner.run(planned)


def test_during_an_end_the_next_producer_id_gets_a_retriable_error(runner):
    runner.init()
    old = runner.climb("t", 32_766)
    runner.add(old, ORDERS[0])
    runner.decide(old)
    new = replace(old, producer_id=old.producer_id + 1, producer_epoch=0)
    coordinator = runner.coordinator
    for early in (
        lambda: coordinator.plan_add_partitions(new, [ORDERS[0]], now_ms=1),
        lambda: coordinator.partitions_outside(new, [ORDERS[0]]),
        lambda: coordinator.check_append(new.producer_id, 0, ORDERS[0]),
        lambda: runner.decide(new),
    ):
        assert isinstance(refusal_of(early), ConcurrentTransactionsError)
    runner.complete()
    runner.add(new, ORDERS[0])
    coordinator.check_append(new.producer_id, 0, ORDERS[0])
    assert isinstance(
        refusal_of(coordinator.check_append, old.producer_id, 32_766, ORDERS[0]), InvalidProducerIdMappingError
    )
    assert isinstance(
        refusal_of(coordinator.check_append, new.producer_id + 1, 0, ORDERS[0]), InvalidProducerIdMappingError
    )


def test_an_id_whose_record_only_a_newer_version_can_read_is_refused_and_the_others_are_not():
    coordinator = TransactionCoordinator()
    stored = encode_transaction_record(TransactionRecord(transactional_id="newer"), timestamp_ms=0)
    record = decode_any_transaction_record(stored.key, b"\0\x63?")
    assert record == TransactionRecord(transactional_id="newer", is_unreadable=True)
    coordinator.replay(record)

    def init(transactional_id):
        return coordinator.plan_init_producer(
            transactional_id, timeout_ms=1000, is_two_phase=False, new_producer_id=lambda: 1, now_ms=0
        )

    for refused in (lambda: init("newer"), lambda: coordinator.value("newer")):
        with pytest.raises(UnsupportedFormatError, match="'newer' has a record of a newer version"):
            refused()
    assert init("fine").reply.producer is not None
    coordinator.replay(TransactionRecord(transactional_id="newer"))
    assert coordinator.value("newer") is None
