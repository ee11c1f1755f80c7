"""Whatever is asked in whatever order: the state is what the log says, and the log keeps the rules."""

from dataclasses import replace

from hypothesis import event, given
from hypothesis import strategies as st
from support.nodes.coordinator_runner import ORDERS, TransactionRunner, refusal_of
from support.runs.examples import examples

from broker_core.cluster import TransactionalProducer
from broker_core.model.identifiers import ProducerIdAndEpoch
from broker_core.model.limits import TRANSACTIONAL_ID_EXPIRATION_MS
from broker_core.model.transaction_state import TransactionState
from broker_core.txn.transaction_steps import OLD_CLIENT_VERSION
from broker_core.txn.txn_records import TransactionRecord, TransactionValue, decode_transaction_record
from broker_core.txn.txn_states import COMPLETION, PREPARED, VALID_PREDECESSORS

IDS = ["a", "b", "c"]
ids = st.sampled_from(IDS)
partitions = st.lists(st.sampled_from(ORDERS), max_size=3)
# Who asks: the current owner, mostly; or one whose epoch or producer id is off.
epoch_steps = st.sampled_from([0, 0, 0, 0, -1, -1, 1, -2])
id_steps = st.sampled_from([0, 0, 0, 0, 0, 1, -1])
askers = st.tuples(ids, epoch_steps, id_steps)
requests = st.one_of(
    st.tuples(st.just("init"), ids, st.sampled_from([1, 1000, 900_000, 0, 900_001]), st.booleans()),
    st.tuples(st.just("add"), askers, partitions),
    st.tuples(st.just("end"), st.lists(askers, max_size=3), st.booleans()),
    st.tuples(st.just("renew"), askers),
    st.tuples(st.just("add of an old client"), askers, partitions),
    st.tuples(st.just("end of an old client"), askers, st.booleans()),
    st.tuples(st.just("complete"), st.integers(0, 3)),
    st.tuples(st.just("abort"), ids),
    st.tuples(st.just("expire"), st.sampled_from([0, 1, 999, 60_000, TRANSACTIONAL_ID_EXPIRATION_MS])),
)


def asker(runner, who):
    transactional_id, epoch_step, id_step = who
    described = runner.describe(transactional_id)
    known = (described.producer_id, described.producer_epoch) if described else (0, 0)
    return TransactionalProducer(
        transactional_id=transactional_id, producer_id=known[0] + id_step, producer_epoch=known[1] + epoch_step
    )


def ask(runner, request):
    runner.now_ms += 1
    match request:
        case ("init", transactional_id, timeout_ms, is_two_phase):
            runner.run(runner.plan_init(transactional_id, timeout_ms=timeout_ms, is_two_phase=is_two_phase))
        case ("add", who, wanted):
            runner.add(asker(runner, who), *wanted)
        case ("end", whom, commit):
            runner.decide(*(asker(runner, who) for who in whom), commit=commit)
        case ("renew", who):
            producer = asker(runner, who)
            runner.run(
                runner.coordinator.plan_init_producer(
                    producer.transactional_id,
                    timeout_ms=1000,
                    is_two_phase=False,
                    new_producer_id=runner.new_producer_id,
                    now_ms=runner.now_ms,
                    expected=ProducerIdAndEpoch(
                        producer_id=producer.producer_id, producer_epoch=producer.producer_epoch
                    ),
                )
            )
        case ("add of an old client", who, wanted):
            runner.run(
                runner.coordinator.plan_add_partitions(
                    asker(runner, who), wanted, now_ms=runner.now_ms, client_version=OLD_CLIENT_VERSION
                )
            )
        case ("end of an old client", who, commit):
            runner.run(
                runner.coordinator.plan_end_one(
                    asker(runner, who),
                    commit=commit,
                    new_producer_id=runner.new_producer_id,
                    now_ms=runner.now_ms,
                    client_version=OLD_CLIENT_VERSION,
                )
            )
        case ("complete", count):
            runner.run(runner.coordinator.plan_complete(runner.coordinator.ending()[:count], now_ms=runner.now_ms))
        case ("abort", transactional_id):
            runner.run(runner.coordinator.plan_abort(transactional_id, now_ms=runner.now_ms))
        case ("expire", later_ms):
            runner.now_ms += later_ms
            runner.run(runner.coordinator.plan_expire(runner.now_ms))


def decoded(log):
    return [decode_transaction_record(key, value) for key, value in log]


def newest_of_each_key(log):
    return dict(log).items()


def runner_at(epochs):
    """Ids as they may be found: unknown (None), or Empty at an epoch, close to the last one too."""
    runner = TransactionRunner()
    for transactional_id, epoch in zip(IDS, epochs, strict=True):
        if epoch is not None:
            runner.init(transactional_id)
            runner.climb(transactional_id, epoch)
    return runner


beginnings = st.tuples(*[st.sampled_from([None, 0, 32_763, 32_764, 32_765, 32_766])] * len(IDS))


@examples(80)
@given(beginnings, st.lists(requests, min_size=5, max_size=40))
def test_the_state_matches_a_replay_of_the_log(epochs, asked):
    runner = runner_at(epochs)
    for request in asked:
        before, log_before = vars(runner.replayed()), list(runner.log)
        refusal = refusal_of(ask, runner, request)
        event(f"{request[0]}: {type(refusal).__name__}")
        if refusal is not None:
            assert runner.log == log_before
            assert vars(runner.coordinator) == before
        assert vars(runner.coordinator) == vars(runner.replayed())
    assert vars(runner.replayed(newest_of_each_key(runner.log))) == vars(runner.coordinator), "compaction loses nothing"


@examples(60)
@given(beginnings, st.lists(requests, min_size=5, max_size=40))
def test_the_log_satisfies_the_transaction_invariants(epochs, asked):
    runner = runner_at(epochs)
    begun = len(runner.log)
    for request in asked:
        refusal_of(ask, runner, request)
    newest: dict[str, TransactionRecord] = {}
    owners: dict[int, str] = {}
    for at, record in enumerate(decoded(runner.log)):
        before = newest.get(record.transactional_id)
        if at >= begun:
            follows(before and before.value, record.value)
        if record.value is not None:
            assert owners.setdefault(record.value.producer_id, record.transactional_id) == record.transactional_id
        newest[record.transactional_id] = record


def follows(before: TransactionValue | None, after: TransactionValue | None) -> None:
    if before is None:
        assert after is not None
        assert (after.state, after.producer_epoch) == (TransactionState.EMPTY, 0)
        return
    if after is None:
        assert before.state in VALID_PREDECESSORS[TransactionState.DEAD]
        return
    assert before.state in VALID_PREDECESSORS[after.state]
    bumped = {TransactionState.EMPTY, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}
    is_rotated = after.producer_id != before.producer_id
    if is_rotated:
        assert (after.producer_epoch, after.previous_producer_id) == (0, before.producer_id)
        assert before.producer_epoch >= 32_766
        assert after.state.label in {"Empty", "CompleteCommit", "CompleteAbort"}
    else:
        is_kept = after.state is TransactionState.EMPTY and before.state in COMPLETION.values()
        is_old = after.state in PREPARED and after.client_version < 2
        steps = {0, 1} if is_kept else {0} if is_old else {int(after.state in bumped)}
        assert after.producer_epoch - before.producer_epoch in steps
        assert after.producer_epoch <= (32_767 if after.state.label.endswith(("Commit", "Abort")) else 32_766)
    if after.state.label.startswith("Prepare"):
        assert after.partitions == before.partitions, "a marker for each partition, and no other"
    if after.state is TransactionState.ONGOING:
        assert set(before.partitions) < set(after.partitions)


@examples(60)
@given(st.lists(requests, max_size=25), st.booleans())
def test_one_end_decides_for_all_or_none(asked, commit):
    runner = runner_at((0, 0, 0))
    for request in asked:
        refusal_of(ask, runner, request)
    producers = [asker(runner, (transactional_id, 0, 0)) for transactional_id in IDS]
    each_alone = [refusal_of(lambda p=producer: plan_end(runner, [p], commit)) for producer in producers]
    together = refusal_of(plan_end, runner, producers, commit)
    assert (together is None) == all(refusal is None for refusal in each_alone)
    if together is None:
        records = plan_end(runner, producers, commit).records
        assert [record.transactional_id for record in records] == IDS
        target = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
        assert {record.value.state for record in records} == {target}


def plan_end(runner, producers, commit):
    return runner.coordinator.plan_end(producers, commit=commit, new_producer_id=runner.new_producer_id, now_ms=1)


@examples(60)
@given(st.lists(requests, max_size=40))
def test_after_a_takeover_earlier_producers_are_fenced(asked):
    runner = runner_at((0, 0, 0))
    seen = set()
    for request in asked:
        refusal_of(ask, runner, request)
        seen |= {asker(runner, (transactional_id, 0, 0)) for transactional_id in IDS}
    newest = {transactional_id: runner.init(transactional_id) for transactional_id in IDS}
    log_before = list(runner.log)
    for earlier in seen - set(newest.values()):
        for action in (runner.add, runner.decide, lambda producer: runner.decide(producer, commit=False)):
            assert refusal_of(action, replace(earlier), *([ORDERS[0]] if action == runner.add else [])) is not None
    assert runner.log == log_before
