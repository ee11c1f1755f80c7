import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders.log_builders import a_header, a_marker, a_marker_header

from broker_core.log.producer_state import AppendOrigin, KnownBatches, ProducerState
from broker_core.model.exceptions import (
    CoordinatorFencedError,
    InvalidTransactionStateError,
    OutOfOrderSequenceError,
    ProducerFencedError,
)
from broker_core.model.limits import MAX_SEQUENCE, PRODUCER_EXPIRATION_CHECK_MS

NOTHING_KNOWN = KnownBatches()


def a_batch(sequence: int, *, records: int = 1, base_offset: int = 0, epoch: int = 0, producer_id: int = 7, **more):
    return a_header(
        base_offset=base_offset, records=records, producer_id=producer_id, epoch=epoch, sequence=sequence, **more
    )


def a_state(*headers) -> ProducerState:
    state = ProducerState("t-0")
    for header in headers:
        state.replay(header)
    return state


def test_without_producer_state_any_first_sequence_is_accepted():
    assert a_state().plan_append([a_batch(41)]) == (None,)


def test_the_next_sequence_follows_the_last_record():
    state = a_state(a_batch(0, records=3))
    state.plan_append([a_batch(3, base_offset=3)])
    for wrong in (1, 2, 4):
        with pytest.raises(OutOfOrderSequenceError, match="next one is 3"):
            state.plan_append([a_batch(wrong, base_offset=3)])


def test_batches_of_one_append_follow_one_another():
    state = a_state(a_batch(0))
    state.plan_append([a_batch(1, base_offset=1), a_batch(2, base_offset=2)])
    with pytest.raises(OutOfOrderSequenceError):
        state.plan_append([a_batch(1, base_offset=1), a_batch(3, base_offset=2)])


def test_sequences_wrap_to_zero():
    state = a_state(a_batch(MAX_SEQUENCE - 1, records=2))
    state.plan_append([a_batch(0, base_offset=2)])
    across = a_state(a_batch(MAX_SEQUENCE, records=3))
    assert across.entries[7].last_sequence == 1
    assert across.entries[7].batches[0].first_sequence == MAX_SEQUENCE
    across.plan_append([a_batch(2, base_offset=3)])


def test_planning_changes_nothing():
    state = a_state(a_batch(0))
    before = dict(state.entries)
    state.plan_append([a_batch(1, base_offset=1, transactional=True), a_batch(2, base_offset=2, transactional=True)])
    assert dict(state.entries) == before
    assert state.first_unstable_offset() is None


def test_an_older_epoch_is_fenced():
    with pytest.raises(ProducerFencedError, match="the current epoch is 1"):
        a_state(a_batch(0, epoch=1)).plan_append([a_batch(1, epoch=0, base_offset=1)])


def test_a_new_epoch_starts_at_sequence_zero():
    state = a_state(a_batch(0))
    state.plan_append([a_batch(0, epoch=1, base_offset=1)])
    with pytest.raises(OutOfOrderSequenceError, match="must start with 0"):
        state.plan_append([a_batch(1, epoch=1, base_offset=1)])


def test_coordinator_appends_have_an_epoch_but_no_sequence():
    state = a_state(a_batch(5, epoch=1))
    state.plan_append([a_batch(-1, epoch=1, base_offset=1)], origin=AppendOrigin.COORDINATOR)
    with pytest.raises(ProducerFencedError):
        state.plan_append([a_batch(-1, epoch=0, base_offset=1)], origin=AppendOrigin.COORDINATOR)


def test_replicated_batches_are_accepted_without_a_sequence_check():
    a_state(a_batch(5, epoch=1)).plan_append([a_batch(99, base_offset=1)], origin=AppendOrigin.REPLICATION)


# -- retries --


def test_a_retry_of_each_of_the_last_five_batches_gets_its_offsets():
    state = a_state(*(a_batch(2 * i, records=2, base_offset=10 * i) for i in range(7)))
    for i in range(2, 7):
        known = state.find_known_batches([a_batch(2 * i, records=2)])
        assert (known.batch_count, known.base_offset, known.last_offset) == (1, 10 * i, 10 * i + 1)
    assert state.find_known_batches([a_batch(2, records=2)]) == NOTHING_KNOWN


def test_the_same_first_sequence_with_another_length_is_not_a_retry():
    state = a_state(a_batch(0, records=2))
    assert state.find_known_batches([a_batch(0, records=1)]) == NOTHING_KNOWN
    with pytest.raises(OutOfOrderSequenceError):
        state.plan_append([a_batch(0, records=1, base_offset=2)])


def test_a_batch_of_another_epoch_or_without_a_producer_is_not_a_retry():
    state = a_state(a_batch(0))
    assert state.find_known_batches([a_batch(0, epoch=1)]) == NOTHING_KNOWN
    assert state.find_known_batches([a_header()]) == NOTHING_KNOWN


def test_a_retry_with_wrapped_sequences_is_recognized():
    state = a_state(a_batch(MAX_SEQUENCE, records=3, base_offset=4))
    assert state.find_known_batches([a_batch(MAX_SEQUENCE, records=3)]).base_offset == 4


@given(st.lists(st.integers(1, 4), min_size=1, max_size=9), st.integers(0, 9), st.integers(0, 5))
def test_a_retry_of_many_batches_is_recognized_up_to_the_appended_ones(sizes, written_count, earlier):
    append, sequence = [], 0
    for records in sizes:
        append.append(a_batch(sequence, records=records))
        sequence += records
    state, offset = ProducerState("t-0"), 100
    if earlier:
        state.replay(a_batch((-earlier) % (MAX_SEQUENCE + 1), records=earlier, base_offset=offset - earlier))
    written = append[:written_count]
    for header in written:
        state.replay(a_batch(header.base_sequence, records=header.record_count, base_offset=offset))
        offset += header.record_count
    known = state.find_known_batches(append)
    if not written:
        assert known == NOTHING_KNOWN
    else:
        assert (known.batch_count, known.base_offset, known.last_offset) == (len(written), 100, offset - 1)
    rest = append[known.batch_count :]
    state.plan_append(rest)


def test_an_append_that_only_overlaps_the_window_is_out_of_order():
    state = a_state(a_batch(0), a_batch(1, base_offset=1))
    assert state.find_known_batches([a_batch(5), a_batch(1)]) == NOTHING_KNOWN


# -- transactions --


def test_the_first_batch_of_a_transaction_opens_it_and_blocks_readers():
    state = a_state(a_batch(0, base_offset=3, transactional=True), a_batch(1, base_offset=4, transactional=True))
    assert state.open_transactions() == {7: 3}
    assert state.first_unstable_offset() == 3


def test_a_marker_completes_the_transaction():
    state = a_state(a_batch(0, base_offset=3, transactional=True))
    completed = state.replay(a_marker_header(base_offset=4, producer_id=7), marker=a_marker(is_commit=False))
    assert (completed.producer_id, completed.first_offset, completed.last_offset) == (7, 3, 4)
    assert completed.is_aborted
    assert completed.last_stable_offset == 5
    assert state.open_transactions() == {}


def test_a_transaction_blocks_readers_until_its_marker_is_replicated():
    state = a_state(a_batch(0, base_offset=3, transactional=True))
    state.replay(a_marker_header(base_offset=4, producer_id=7), marker=a_marker())
    state.on_high_watermark(4)
    assert state.first_unstable_offset() == 3
    state.on_high_watermark(5)
    assert state.first_unstable_offset() is None


def test_the_oldest_open_transaction_sets_the_last_stable_offset():
    state = a_state(
        a_batch(0, producer_id=1, base_offset=0, transactional=True),
        a_batch(0, producer_id=2, base_offset=1, transactional=True),
        a_batch(0, producer_id=3, base_offset=2, transactional=True),
    )
    assert state.replay(a_marker_header(base_offset=3, producer_id=2), marker=a_marker()).last_stable_offset == 0
    assert state.replay(a_marker_header(base_offset=4, producer_id=1), marker=a_marker()).last_stable_offset == 2
    assert state.replay(a_marker_header(base_offset=5, producer_id=3), marker=a_marker()).last_stable_offset == 6


def test_plan_and_replay_give_the_same_completed_transaction():
    state = a_state(a_batch(0, base_offset=0, transactional=True))
    append = [a_batch(1, base_offset=1, transactional=True), a_marker_header(base_offset=2, producer_id=7)]
    planned = state.plan_append(append, origin=AppendOrigin.COORDINATOR, markers=[None, a_marker(is_commit=False)])
    replayed = [state.replay(append[0]), state.replay(append[1], marker=a_marker(is_commit=False))]
    assert list(planned) == replayed


def test_a_plan_includes_a_transaction_that_opens_and_ends_in_one_append():
    append = [a_batch(0, transactional=True), a_marker_header(base_offset=1, producer_id=7)]
    planned = a_state().plan_append(append, origin=AppendOrigin.COORDINATOR, markers=[None, a_marker()])
    assert (planned[1].first_offset, planned[1].last_stable_offset) == (0, 2)


def test_a_marker_without_records_only_advances_the_epoch():
    state = a_state()
    assert state.replay(a_marker_header(base_offset=0, producer_id=7, epoch=3), marker=a_marker()) is None
    with pytest.raises(ProducerFencedError):
        state.plan_append([a_batch(0, epoch=2, base_offset=1)])


def test_sequences_continue_after_a_marker_of_the_same_epoch_and_restart_after_a_bump():
    state = a_state(a_batch(0, transactional=True))
    state.replay(a_marker_header(base_offset=1, producer_id=7), marker=a_marker())
    state.plan_append([a_batch(1, base_offset=2, transactional=True)])
    state.replay(a_marker_header(base_offset=2, producer_id=7, epoch=1), marker=a_marker())
    state.plan_append([a_batch(0, epoch=1, base_offset=3, transactional=True)])
    assert state.entries[7].batches == ()


def test_a_non_transactional_batch_inside_an_open_transaction_is_refused():
    with pytest.raises(InvalidTransactionStateError, match="offset 0"):
        a_state(a_batch(0, transactional=True)).plan_append([a_batch(1, base_offset=1)])


def test_a_coordinator_of_an_older_epoch_is_fenced():
    state = a_state(a_batch(0, transactional=True))
    state.replay(a_marker_header(base_offset=1, producer_id=7), marker=a_marker(coordinator_epoch=5))
    with pytest.raises(CoordinatorFencedError):
        state.plan_append(
            [a_marker_header(base_offset=2, producer_id=7)],
            origin=AppendOrigin.COORDINATOR,
            markers=[a_marker(coordinator_epoch=4)],
        )


def test_an_emptied_control_batch_changes_nothing():
    state = a_state(a_batch(0, transactional=True))
    assert state.replay(a_marker_header(base_offset=1, producer_id=7)) is None
    assert state.open_transactions() == {7: 0}
    assert state.end_offset == 2


# -- expiry and snapshots --


def test_idle_producers_expire_unless_a_transaction_is_open():
    state = a_state(
        a_batch(0, producer_id=1, timestamp_ms=1_000),
        a_batch(0, producer_id=2, timestamp_ms=5_000, base_offset=1),
        a_batch(0, producer_id=3, timestamp_ms=1_000, base_offset=2, transactional=True),
    )
    assert state.expire(6_000 - PRODUCER_EXPIRATION_CHECK_MS, producer_id_expiration_ms=5_000) == 0
    assert state.expire(6_000, producer_id_expiration_ms=5_000) == 1
    assert set(state.entries) == {2, 3}
    state.plan_append([a_batch(40, producer_id=1, base_offset=3)])


def test_a_producer_of_old_events_does_not_expire_while_it_writes():
    """A backfill's batches are years old by their own time; its retry after a roll was once appended a second time."""
    state = a_state(a_batch(0, producer_id=1, timestamp_ms=1_000))
    assert state.expire(10**9, producer_id_expiration_ms=5_000) == 0
    assert state.find_known_batches([a_batch(0, producer_id=1, timestamp_ms=1_000)]).batch_count == 1
    # Segments that begin one after the other do not make it silent.
    for later_ms in (0, 1, PRODUCER_EXPIRATION_CHECK_MS - 1):
        assert state.expire(10**9 + later_ms, producer_id_expiration_ms=5_000) == 0
    assert state.expire(10**9 + PRODUCER_EXPIRATION_CHECK_MS, producer_id_expiration_ms=5_000) == 1


def test_a_producer_of_old_events_does_not_expire_while_another_one_writes_old_events():
    """The other one's rolls forgot it, and its retry after a kill was appended a second time."""
    known = a_state(
        a_batch(0, producer_id=1, timestamp_ms=1_000), a_batch(0, producer_id=2, timestamp_ms=9_000, base_offset=1)
    )
    reopened = ProducerState("t-0", known.entries.values(), end_offset=2)
    reopened.replay(a_batch(7, producer_id=2, timestamp_ms=5_999, base_offset=2))
    assert reopened.expire(10**9, producer_id_expiration_ms=5_000) == 0
    assert reopened.find_known_batches([a_batch(0, producer_id=1, timestamp_ms=1_000)]).batch_count == 1


def test_a_producer_expires_once_later_events_exceed_the_expiration_time():
    known = a_state(a_batch(0, producer_id=1, timestamp_ms=1_000))
    reopened = ProducerState("t-0", known.entries.values(), end_offset=1)
    reopened.replay(a_batch(0, producer_id=2, timestamp_ms=6_000, base_offset=1))
    assert reopened.expire(10**9, producer_id_expiration_ms=5_000) == 1
    assert set(reopened.entries) == {2}


def test_idle_producers_are_checked_immediately_after_the_clock_was_set_back():
    state = a_state(a_batch(0, producer_id=1, timestamp_ms=1_000))
    assert state.expire(10**9, producer_id_expiration_ms=5_000) == 0
    assert state.expire(10**8, producer_id_expiration_ms=5_000) == 1


def test_a_state_from_a_snapshot_continues():
    full = a_state(a_batch(0, producer_id=2, transactional=True), a_batch(0, base_offset=1, transactional=True))
    again = ProducerState("t-0", reversed(full.entries.values()), end_offset=2)
    assert again.open_transactions() == full.open_transactions()
    assert list(again.open_transactions()) == [2, 7]
    assert again.find_known_batches([a_batch(0, transactional=True)]).base_offset == 1


@given(st.integers(0, 3), st.lists(st.integers(1, 4), min_size=1, max_size=7), st.integers(1, 4))
def test_retries_are_recognized_where_sequences_wrap(before_wrap, sizes, size):
    state, sequence, offset, sent = ProducerState("t-0"), MAX_SEQUENCE - before_wrap, 0, []
    for records in sizes:
        sent.append(a_batch(sequence, records=records, base_offset=offset))
        state.replay(sent[-1])
        offset, sequence = offset + records, (sequence + records) % (MAX_SEQUENCE + 1)
    assert state.find_known_batches([a_batch(sequence, records=size)]) == KnownBatches()
    for header in sent[-5:]:
        assert state.find_known_batches([header]).base_offset == header.base_offset


def five_batches(*, from_sequence=0, **more):
    return [a_batch(number, base_offset=100 + number, **more) for number in range(from_sequence, from_sequence + 5)]


def sequences(state):
    return [batch.last_sequence for batch in state.entries[7].batches]


@pytest.mark.parametrize(
    ("since_snapshot", "known"),
    [
        (five_batches()[4:], [0, 1, 2, 3, 4]),
        (five_batches()[3:], [0, 1, 2, 3, 4]),
        (five_batches(from_sequence=5)[:1], [1, 2, 3, 4, 5]),
        (five_batches(from_sequence=5)[:3], [3, 4, 5, 6, 7]),
    ],
    ids=["the last one", "the last two", "the next one", "the next three"],
)
def test_batches_that_a_snapshot_leaves_out_are_taken_from_an_earlier_state(since_snapshot, known):
    state = a_state(*since_snapshot)
    state.remember_earlier(a_state(*five_batches()))
    assert sequences(state) == known


@pytest.mark.parametrize(
    "since_snapshot",
    [
        [a_batch(6, base_offset=106)],
        [a_batch(5, base_offset=103)],
        [a_batch(4, base_offset=110)],
        [a_batch(0, base_offset=105, epoch=1)],
        [a_batch(5, base_offset=105, producer_id=8), a_batch(9, base_offset=109)],
    ],
    ids=["behind a gap", "at a lower offset", "at another offset", "a new epoch", "another producer"],
)
def test_what_does_not_continue_an_earlier_state_takes_nothing_of_it(since_snapshot):
    state = a_state(*since_snapshot)
    before = dict(state.entries)
    state.remember_earlier(a_state(*five_batches()))
    assert dict(state.entries) == before


def test_a_wrapped_sequence_continues_an_earlier_state():
    state = a_state(a_batch(0, base_offset=51))
    state.remember_earlier(a_state(a_batch(MAX_SEQUENCE, base_offset=50)))
    assert sequences(state) == [MAX_SEQUENCE, 0]
