import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.model.exceptions import CorruptBatchError, UnsupportedFormatError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.transaction_state import TransactionState
from broker_core.txn.txn_records import (
    TransactionRecord,
    TransactionValue,
    decode_transaction_record,
    encode_transaction_record,
)

TV2_KEY = "000000057476322d61"
"""Of transactional id "tv2-a"."""

# Key, value and what they say: records of a real Kafka 4.3.1's `__transaction_state`. The first comes from librdkafka,
# which does not know transactions version 2; the others from Kafka's own client.
WRITTEN_BY_KAFKA_4_3_1 = [
    (
        "00000008676f6c64656e2d30",
        "0001000000000000000400000000ea600102116f70656e2d7472616e73616374696f6e020000000000000001a21f5895fc000001a2"
        "1f5895fc0100080000000000000004",
        "golden-0",
        TransactionValue(
            producer_id=4, producer_epoch=0, timeout_ms=60_000, state=TransactionState.ONGOING,
            partitions=(TopicPartition("open-transaction", 0),), last_update_ms=1_795_822_228_988,
            start_ms=1_795_822_228_988, previous_producer_id=4,
        ),
    ),
    (
        TV2_KEY,
        "0001000000000000000000000000ea600000000001a220484721ffffffffffffffff0100080000000000000000",
        "tv2-a",
        TransactionValue(
            producer_id=0, producer_epoch=0, timeout_ms=60_000, state=TransactionState.EMPTY,
            last_update_ms=1_795_837_937_441, start_ms=-1, previous_producer_id=0,
        ),
    ),
    (
        TV2_KEY,
        "0001000000000000000000010000ea600204064772757365020000000000076f726465727303000000000000000200135f5f636f6e"
        "73756d65725f6f666673657473020000000000000001a2204848e4000001a2204847a6020008000000000000000002020002",
        "tv2-a",
        TransactionValue(
            producer_id=0, producer_epoch=1, timeout_ms=60_000, state=TransactionState.PREPARE_COMMIT,
            partitions=(
                TopicPartition("Gruse", 0), TopicPartition("orders", 0), TopicPartition("orders", 2),
                TopicPartition("__consumer_offsets", 0),
            ),
            last_update_ms=1_795_837_937_892, start_ms=1_795_837_937_574, previous_producer_id=0, client_version=2,
        ),
    ),
    (
        TV2_KEY,
        "0001000000000000000000010000ea600401000001a2204848ed000001a2204847a6020008000000000000000002020002",
        "tv2-a",
        TransactionValue(
            producer_id=0, producer_epoch=1, timeout_ms=60_000, state=TransactionState.COMPLETE_COMMIT,
            last_update_ms=1_795_837_937_901, start_ms=1_795_837_937_574, previous_producer_id=0, client_version=2,
        ),
    ),
    (
        "0000000665782d656e64",
        "000100000000000000347fff0000ea600202076f7264657273020000000000000001a2204adc10000001a2204adc0f030008000000"
        "00000000340108000000000000003502020002",
        "ex-end",
        TransactionValue(
            producer_id=52, producer_epoch=32_767, timeout_ms=60_000, state=TransactionState.PREPARE_COMMIT,
            partitions=(TopicPartition("orders", 0),), last_update_ms=1_795_838_106_640, start_ms=1_795_838_106_639,
            previous_producer_id=52, next_producer_id=53, client_version=2,
        ),
    ),
    (TV2_KEY, None, "tv2-a", None),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value", "transactional_id", "expected"), WRITTEN_BY_KAFKA_4_3_1)
def test_records_that_kafka_wrote_round_trip(key, value, transactional_id, expected):
    value_bytes = None if value is None else bytes.fromhex(value)
    record = TransactionRecord(transactional_id=transactional_id, value=expected)
    assert decode_transaction_record(bytes.fromhex(key), value_bytes) == record
    stored = encode_transaction_record(record, timestamp_ms=17)
    assert (stored.key.hex(), stored.value, stored.timestamp_ms) == (key, value_bytes, 17)


def test_a_value_of_version_0_is_read():
    """By the schema: plain strings and arrays, no tagged fields. Kafka writes it below metadata.version 4.0."""
    value = bytes.fromhex(
        "0000" "0000000000000004" "0003" "0000ea60" "01"
        "00000001" "0001" "61" "00000002" "00000000" "00000007"
        "000001a21f5895fc" "000001a21f5895fb"
    )  # fmt: skip
    record = decode_transaction_record(bytes.fromhex(TV2_KEY), value)
    assert record.value == TransactionValue(
        producer_id=4,
        producer_epoch=3,
        timeout_ms=60_000,
        state=TransactionState.ONGOING,
        partitions=(TopicPartition("a", 0), TopicPartition("a", 7)),
        last_update_ms=0x1A21F5895FC,
        start_ms=0x1A21F5895FB,
    )


def test_an_empty_id_of_version_0_has_a_null_array():
    head = "0000" "0000000000000004" "0003" "0000ea60" "00"  # fmt: skip
    value = bytes.fromhex(head + "ffffffff" + "00000000000003e8" + "ffffffffffffffff")
    assert decode_transaction_record(bytes.fromhex(TV2_KEY), value).value.partitions == ()


int16s = st.integers(-(2**15), 2**15 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
stored_states = [TransactionState(number) for number in range(6)]
partition_tuples = st.dictionaries(texts, st.lists(int32s, min_size=1, max_size=3), max_size=3).map(
    lambda by_topic: tuple(TopicPartition(topic, number) for topic, numbers in by_topic.items() for number in numbers)
)


@st.composite
def values(draw):
    state = draw(st.sampled_from(stored_states))
    return TransactionValue(
        producer_id=draw(int64s), producer_epoch=draw(int16s), timeout_ms=draw(int32s), state=state,
        partitions=() if state is TransactionState.EMPTY else draw(partition_tuples),
        last_update_ms=draw(int64s), start_ms=draw(int64s), previous_producer_id=draw(int64s),
        next_producer_id=draw(int64s), client_version=draw(int16s), next_producer_epoch=draw(int16s),
    )  # fmt: skip


@given(texts, st.none() | values())
def test_written_records_round_trip(transactional_id, value):
    record = TransactionRecord(transactional_id=transactional_id, value=value)
    stored = encode_transaction_record(record, timestamp_ms=0)
    assert decode_transaction_record(stored.key, stored.value) == record


@given(values(), st.data())
def test_a_truncated_value_is_corrupt(value, data):
    stored = encode_transaction_record(TransactionRecord(transactional_id="t", value=value), timestamp_ms=0)
    cut = data.draw(st.integers(0, len(stored.value) - 1))
    with pytest.raises(CorruptBatchError):
        decode_transaction_record(stored.key, stored.value[:cut])


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_decode_or_are_refused(key, value):
    for prefix in (b"", b"\0\0", b"\0\1"):
        try:
            decode_transaction_record(b"\0\0" + key, prefix + value)
        except (CorruptBatchError, UnsupportedFormatError) as refusal:
            assert refusal.message


def test_a_key_of_a_newer_version_is_skipped():
    assert decode_transaction_record(bytes.fromhex("0001" "0001" "61"), b"\0\7whatever") is None  # fmt: skip


def test_a_value_of_a_newer_version_is_refused():
    with pytest.raises(UnsupportedFormatError, match="version 2, supported are 0 and 1: a newer version wrote it"):
        decode_transaction_record(bytes.fromhex(TV2_KEY), b"\0\2")


@pytest.mark.parametrize(
    ("number", "error"),
    [("06", "Dead, which is never stored"), ("07", "PrepareEpochFence, which is never stored"), ("08", "state 8")],
)
def test_an_unknown_state_is_corrupt(number, error):
    value = bytes.fromhex("0001" "0000000000000004" "0003" "0000ea60" + number)  # fmt: skip
    with pytest.raises(CorruptBatchError, match=error):
        decode_transaction_record(bytes.fromhex(TV2_KEY), value)


def test_an_unknown_tagged_field_is_ignored():
    key, value, _, expected = WRITTEN_BY_KAFKA_4_3_1[1]
    longer = value.removesuffix("0100080000000000000000") + "0200080000000000000000" + "0902beef"
    assert decode_transaction_record(bytes.fromhex(key), bytes.fromhex(longer)).value == expected


@pytest.mark.parametrize("count", ["ffffffff7f", "8080808001"])
def test_an_array_count_beyond_the_bytes_allocates_nothing(count):
    head = "0001" "0000000000000004" "0003" "0000ea60" "01"  # fmt: skip
    with pytest.raises(CorruptBatchError):
        decode_transaction_record(bytes.fromhex(TV2_KEY), bytes.fromhex(head + count))
