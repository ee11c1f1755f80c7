"""Each step against the record that a real Kafka 4.3.1 wrote for the same request at the same time."""

from dataclasses import replace

import pytest

from broker_core.model.identifiers import TopicPartition
from broker_core.model.transaction_state import TransactionState
from broker_core.txn.transaction_steps import (
    LAST_GIVEN_EPOCH,
    MAX_PRODUCER_EPOCH,
    completed,
    first,
    initialised,
    is_exhausted,
    kept,
    prepared,
    rotated,
    with_partitions,
)
from broker_core.txn.txn_records import (
    TransactionRecord,
    TransactionValue,
    decode_transaction_record,
    encode_transaction_record,
)

ORDERS_1 = TopicPartition("orders", 1)
KEY = bytes.fromhex("000000057476322d61")

BEGUN = (
    "0001000000000000000000030000ea600102076f7264657273020000000100000001a220484971000001a2204849710200080000000000"
    "00000002020002"
)
"""Ongoing at epoch 3; then another instance of the producer takes over, and commits a transaction of its own."""
FENCED = (
    "0001000000000000000000040000ea600302076f7264657273020000000100000001a2204849f7000001a2204849710200080000000000"
    "00000002020002"
)
ABORTED = "0001000000000000000000040000ea600501000001a2204849f9000001a220484971020008000000000000000002020002"
TAKEN_OVER = "0001000000000000000000050000ea600000000001a220484a60ffffffffffffffff020008000000000000000002020002"
OPENED = (
    "0001000000000000000000050000ea600102076f7264657273020000000100000001a220484a76000001a220484a760200080000000000"
    "00000002020002"
)
DECIDED = (
    "0001000000000000000000060000ea600202076f7264657273020000000100000001a220484a7a000001a220484a760200080000000000"
    "00000002020002"
)
COMMITTED = "0001000000000000000000060000ea600401000001a220484a7b000001a220484a76020008000000000000000002020002"

FIRST = "000100000000000000010000000005dc0000000001a220484b09ffffffffffffffff0100080000000000000001"
"""Of another id, whose first transaction times out."""
FIRST_OPENED = (
    "000100000000000000010000000005dc0102076f7264657273020000000100000001a220484b19000001a220484b190200080000000000"
    "00000102020002"
)
TIMED_OUT = (
    "000100000000000000010001000005dc0302076f7264657273020000000100000001a220485280000001a220484b190200080000000000"
    "00000102020002"
)

BEFORE_NOTHING = "0001000000000000000000010000ea600401000001a2204848ed000001a2204847a6020008000000000000000002020002"
NOTHING_ABORTED = "0001000000000000000000020000ea600301000001a22048495b000001a22048495b020008000000000000000002020002"
"""An abort where nothing is open: no partition, and it begins now."""

LAST_DECIDED = (
    "000100000000000000347fff0000ea600202076f7264657273020000000000000001a2204adc10000001a2204adc0f0300080000000000"
    "0000340108000000000000003502020002"
)
"""The end of a transaction with epoch 32766: producer id 53 follows 52."""
LAST_COMMITTED = "0001000000000000003500000000ea600401000001a2204adc10000001a2204adc0f020008000000000000003402020002"


def value_of(hexadecimal):
    return decode_transaction_record(KEY, bytes.fromhex(hexadecimal)).value


def hex_of(value):
    record = TransactionRecord(transactional_id="tv2-a", value=value)
    return encode_transaction_record(record, timestamp_ms=0).value.hex()


def time_of(hexadecimal):
    return value_of(hexadecimal).last_update_ms


ABORT, COMMIT = TransactionState.PREPARE_ABORT, TransactionState.PREPARE_COMMIT


@pytest.mark.parametrize(
    ("before", "step", "after"),
    [
        (BEGUN, lambda value, now: prepared(value, ABORT, now_ms=now), FENCED),
        (FENCED, lambda value, now: completed(value, now_ms=now), ABORTED),
        (ABORTED, lambda value, now: initialised(value, timeout_ms=60_000, now_ms=now), TAKEN_OVER),
        (TAKEN_OVER, lambda value, now: with_partitions(value, [ORDERS_1], now_ms=now), OPENED),
        (OPENED, lambda value, now: prepared(value, COMMIT, now_ms=now), DECIDED),
        (DECIDED, lambda value, now: completed(value, now_ms=now), COMMITTED),
        (FIRST, lambda value, now: first(1, timeout_ms=1500, now_ms=now), FIRST),
        (FIRST, lambda value, now: with_partitions(value, [ORDERS_1], now_ms=now), FIRST_OPENED),
        (FIRST_OPENED, lambda value, now: prepared(value, ABORT, now_ms=now), TIMED_OUT),
        (BEFORE_NOTHING, lambda value, now: prepared(value, ABORT, now_ms=now), NOTHING_ABORTED),
        (LAST_DECIDED, lambda value, now: completed(value, now_ms=now), LAST_COMMITTED),
    ],
)
def test_a_step_writes_kafkas_record_byte_for_byte(before, step, after):
    assert hex_of(step(value_of(before), time_of(after))) == after


def test_an_end_with_the_last_epoch_records_the_next_producer_id():
    open_value = TransactionValue(
        producer_id=52,
        producer_epoch=LAST_GIVEN_EPOCH,
        timeout_ms=60_000,
        state=TransactionState.ONGOING,
        partitions=(TopicPartition("orders", 0),),
        last_update_ms=1_795_838_106_639,
        start_ms=1_795_838_106_639,
        previous_producer_id=52,
    )
    decided = prepared(open_value, COMMIT, next_producer_id=53, now_ms=time_of(LAST_DECIDED))
    assert hex_of(decided) == LAST_DECIDED


def test_epochs_are_exhausted_one_before_the_highest():
    exhausted = [epoch for epoch in (0, 32_765, 32_766, 32_767) if is_exhausted(at_epoch(value_of(BEGUN), epoch))]
    assert exhausted == [32_766, 32_767]
    assert (LAST_GIVEN_EPOCH, MAX_PRODUCER_EPOCH) == (32_766, 32_767)


def at_epoch(value, epoch):
    return replace(value, producer_epoch=epoch)


def test_a_new_producer_id_starts_at_epoch_0_and_the_old_one_is_recorded():
    taken = rotated(value_of(ABORTED), 77, timeout_ms=5, now_ms=9)
    assert (taken.producer_id, taken.producer_epoch, taken.previous_producer_id) == (77, 0, 0)
    assert (taken.state, taken.timeout_ms, taken.start_ms, taken.last_update_ms) == (TransactionState.EMPTY, 5, -1, 9)


def test_after_a_rotation_the_next_transaction_has_the_new_id_as_previous_id():
    """So does a real Kafka's record of it: a late retry with the old id is none of this transaction."""
    opened = with_partitions(value_of(LAST_COMMITTED), [ORDERS_1], now_ms=1)
    assert (opened.producer_id, opened.producer_epoch, opened.previous_producer_id) == (53, 0, 53)


def test_partitions_are_sorted_and_unique():
    partitions = [TopicPartition("b", 0), TopicPartition("a", 2), TopicPartition("a", 10)]
    opened = with_partitions(value_of(FIRST), partitions, now_ms=1)
    more = with_partitions(opened, [TopicPartition("a", 3), TopicPartition("b", 0)], now_ms=2)
    assert [str(partition) for partition in more.partitions] == ["a-2", "a-3", "a-10", "b-0"]
    assert (more.start_ms, more.last_update_ms) == (1, 2)


@pytest.mark.parametrize(
    ("before", "step"),
    [
        (BEGUN, lambda value: initialised(value, timeout_ms=1, now_ms=1)),
        (BEGUN, lambda value: rotated(value, 7, timeout_ms=1, now_ms=1)),
        (FENCED, lambda value: with_partitions(value, [ORDERS_1], now_ms=1)),
        (FENCED, lambda value: prepared(value, COMMIT, now_ms=1)),
        (DECIDED, lambda value: prepared(value, ABORT, now_ms=1)),
        (TAKEN_OVER, lambda value: prepared(value, COMMIT, now_ms=1)),
    ],
)
def test_a_step_out_of_order_fails_an_assertion(before, step):
    with pytest.raises(AssertionError, match="cannot follow"):
        step(value_of(before))


def test_the_highest_epoch_can_still_be_aborted_and_never_overflows():
    """A log from elsewhere may hold it open."""
    stuck = at_epoch(value_of(BEGUN), MAX_PRODUCER_EPOCH)
    assert prepared(stuck, ABORT, now_ms=1).producer_epoch == MAX_PRODUCER_EPOCH
    with pytest.raises(AssertionError):
        prepared(stuck, COMMIT, now_ms=1)


def test_an_older_clients_transaction_keeps_its_epoch_in_each_record():
    """As a real Kafka 4.3.1 wrote it for AddPartitionsToTxn 3 and EndTxn 3: no client version, no bump."""
    empty = initialised(first(14, timeout_ms=60_000, now_ms=1), timeout_ms=60_000, now_ms=2)
    opened = with_partitions(empty, [ORDERS_1], now_ms=3, client_version=0)
    decided = prepared(opened, COMMIT, now_ms=4, client_version=0)
    ended = completed(decided, now_ms=5)
    written = [
        (each.state.label, each.producer_epoch, each.client_version, each.start_ms)
        for each in (empty, opened, decided, ended)
    ]
    assert written == [
        ("Empty", 1, 0, -1),
        ("Ongoing", 1, 0, 3),
        ("PrepareCommit", 1, 0, 3),
        ("CompleteCommit", 1, 0, 3),
    ]


def test_fencing_an_older_client_bumps_its_epoch():
    """As written by a real Kafka 4.3.1 for InitProducerId during such a transaction: version 2 from there on."""
    opened = with_partitions(first(49, timeout_ms=60_000, now_ms=1), [ORDERS_1], now_ms=3, client_version=0)
    fenced = prepared(opened, ABORT, now_ms=4)
    assert (fenced.producer_epoch, fenced.client_version) == (1, 2)
    assert completed(fenced, now_ms=5).client_version == 2


def test_an_assigned_epoch_is_kept():
    given = initialised(first(49, timeout_ms=60_000, now_ms=1), timeout_ms=60_000, now_ms=2)
    assert kept(given, timeout_ms=60_000, now_ms=3) == replace(given, last_update_ms=3)
