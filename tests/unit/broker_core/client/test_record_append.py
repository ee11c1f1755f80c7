import pytest
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32, i64
from support.brokers.scripted_broker import CLOSE, NO_TIME, ScriptedBroker, schema_of

from broker_core.cluster import TransactionalProducer
from broker_core.model.exceptions import (
    CorruptBatchError,
    InvalidRecordError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    RequestTimedOutError,
)
from broker_core.model.identifiers import TopicPartition
from broker_core.protocol.api_table import ApiKey
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_header import read_header
from broker_core.record.batch_reader import Record, iter_headers

T0 = TopicPartition("t", 0)


def batches(count, *, first=0, records=2, producer_id=5, **given):
    """Batches of one producer, as an encoder leaves them: with offsets that count on."""
    return bytearray(
        b"".join(
            build_batch(
                [Record(value=b"v", timestamp_ms=1)] * records,
                base_offset=number * records,
                producer_id=producer_id,
                producer_epoch=0 if producer_id >= 0 else -1,
                base_sequence=(first + number) * records if producer_id >= 0 else -1,
                **given,
            )
            for number in range(count)
        )
    )


class Leader:
    """Takes batches in order of their sequences, as a partition's leader does. `before` may answer otherwise."""

    def __init__(self):
        self.log = []
        self.seen = []
        self.before = None

    def __call__(self, request):
        message = request.message
        batch = bytes(message.topic_data[0].partition_data[0].records)
        header = read_header(batch)
        assert len(list(iter_headers(batch))) == 1, "a broker takes one batch of a partition in a request"
        assert header.base_offset == 0, "a broker refuses a batch that seems to know its offset"
        self.seen.append(header.base_sequence)
        answer = self.before(header) if self.before is not None else None
        if answer is not None:
            return answer
        sequences = [taken for taken, _ in self.log]
        if header.base_sequence in sequences and header.producer_id >= 0:
            return produced(self.log[sequences.index(header.base_sequence)][1])
        if self.log and header.producer_id >= 0 and header.base_sequence != sequences[-1] + 2:
            return produced(-1, ErrorCode.out_of_order_sequence_number)
        self.log.append((header.base_sequence, 100 + 2 * len(self.log)))
        return produced(self.log[-1][1])


def produced(base_offset, error=ErrorCode.none, message=None, reasons=()):
    schema = schema_of(ApiKey.PRODUCE, 9)
    return schema.ProduceResponse(
        responses=(
            schema.TopicProduceResponse(
                name=TopicName("t"),
                partition_responses=(
                    schema.PartitionProduceResponse(
                        index=i32(0),
                        error_code=error,
                        base_offset=i64(base_offset),
                        log_append_time=None,
                        record_errors=tuple(
                            schema.BatchIndexAndErrorMessage(batch_index=i32(0), batch_index_error_message=reason)
                            for reason in reasons
                        ),
                        error_message=message,
                    ),
                ),
            ),
        ),
        throttle_time=NO_TIME,
    )


@pytest.fixture
def leader():
    return Leader()


@pytest.fixture
def broker(leader):
    with ScriptedBroker() as scripted:
        scripted.topics["t"] = 1
        scripted.script(ApiKey.PRODUCE, leader)
        yield scripted


@pytest.fixture
def client(broker):
    return broker.client()


def test_an_append_of_several_batches_sends_one_request_per_batch(client, leader, broker):
    data = batches(12)
    result = client.append(T0, data)
    assert leader.seen == list(range(0, 24, 2))
    assert (result.base_offset, result.last_offset, result.log_append_time_ms) == (100, 123, -1)
    assert [header.base_offset for _, header in iter_headers(data)] == list(range(100, 124, 2))
    assert {message.acks for message in broker.asked(ApiKey.PRODUCE)} == {-1}


def test_records_are_sent_unchanged(client, broker):
    data = batches(1)
    sent = bytes(data)
    client.append(T0, data)
    assert bytes(broker.asked(ApiKey.PRODUCE)[0].topic_data[0].partition_data[0].records)[16:] == sent[16:]


@pytest.mark.parametrize(
    "error", [CLOSE, produced(-1, ErrorCode.not_enough_replicas), produced(-1, ErrorCode.request_timed_out)]
)
@pytest.mark.parametrize("failing", [0, 2, 6, 14])
def test_a_transient_failure_is_retried_without_duplicates(client, leader, error, failing):
    hits = []

    def fail_once(header):
        if header.base_sequence == failing and not hits:
            hits.append(header)
            return error
        return None

    leader.before = fail_once
    assert client.append(T0, batches(8)).last_offset == 115
    assert hits, "the fault was not hit"
    assert [sequence for sequence, _ in leader.log] == list(range(0, 16, 2))


@pytest.mark.parametrize("lost", [0, 2, 14])
def test_a_lost_response_causes_no_duplicate(client, leader, lost):
    hits = []

    def lose_answer(header):
        if header.base_sequence == lost and not hits:
            hits.append(header)
            leader.log.append((header.base_sequence, 100 + 2 * len(leader.log)))
            return CLOSE
        return None

    leader.before = lose_answer
    assert client.append(T0, batches(8)).last_offset == 115
    assert hits, "the fault was not hit"
    assert [sequence for sequence, _ in leader.log] == list(range(0, 16, 2))


def test_the_first_batch_of_a_producer_is_sent_alone(client, leader):
    """A leader that knows nothing of a producer takes any sequence: a second batch must not overtake a failed first."""
    hits = []

    def refuse_first(header):
        if header.base_sequence == 0 and not hits:
            hits.append(header)
            return produced(-1, ErrorCode.not_enough_replicas)
        return None

    leader.before = refuse_first
    client.append(T0, batches(3))
    assert leader.seen[:2] == [0, 0]


def test_batches_without_a_producer_are_sent_one_by_one(client, leader):
    assert client.append(T0, batches(3, producer_id=-1)).base_offset == 100
    assert len(leader.log) == 3


def test_a_duplicate_without_an_offset_counts_as_written(client, leader):
    leader.before = lambda header: produced(-1, ErrorCode.duplicate_sequence_number)
    result = client.append(T0, batches(1))
    assert result.is_duplicate


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.out_of_order_sequence_number, OutOfOrderSequenceError),
        (ErrorCode.producer_fenced, ProducerFencedError),
        (ErrorCode.invalid_producer_epoch, ProducerFencedError),
        (ErrorCode.corrupt_message, CorruptBatchError),
    ],
)
def test_a_fatal_refusal_is_raised_immediately(client, leader, code, kind):
    leader.before = lambda header: produced(-1, code)
    with pytest.raises(kind):
        client.append(T0, batches(1))
    assert len(leader.seen) == 1


def test_the_brokers_reasons_are_reported(client, leader):
    leader.before = lambda header: produced(
        -1, ErrorCode.invalid_record, "One or more records have been rejected", ["Compacted topic cannot accept …"]
    )
    with pytest.raises(InvalidRecordError, match=r"records have been rejected \(Compacted topic cannot accept …\)"):
        client.append(T0, batches(1))


def test_an_append_that_waits_for_replicas_says_so(leader, broker, monkeypatch, caplog):
    monkeypatch.setattr("broker_core.client.retry_warning.QUIET_SECONDS", 0.02)
    refused = []

    def refuse_until_told(header):
        refused.append(header)
        return None if caplog.records else produced(-1, ErrorCode.not_enough_replicas)

    leader.before = refuse_until_told
    broker.client(delivery__timeout__ms=60_000).append(T0, batches(1))
    assert len(refused) > 1
    assert caplog.messages == [
        "append to t-0: the broker answered NOT_ENOUGH_REPLICAS (fewer replicas are in sync than the topic setting"
        " min.insync.replicas requires); trying for up to 60 s (delivery.timeout.ms)"
    ]


def test_an_append_that_never_succeeds_ends_with_the_delivery_timeout(leader, broker):
    leader.before = lambda header: produced(-1, ErrorCode.not_enough_replicas)
    with pytest.raises(RequestTimedOutError, match=r"800 ms \(delivery.timeout.ms\).*min.insync.replicas"):
        broker.client(delivery__timeout__ms=800).append(T0, batches(1))


def test_an_invalid_append_is_not_sent(client, leader):
    with pytest.raises(InvalidRecordError, match="holds no batch"):
        client.append(T0, bytearray())
    with pytest.raises(InvalidRecordError, match="3 bytes follow the last whole batch"):
        client.append(T0, batches(1) + b"abc")
    with pytest.raises(InvalidRecordError, match="not initialized by this client"):
        client.append(T0, batches(1, is_transactional=True))
    assert leader.seen == []


def test_a_transactional_batch_is_sent_with_its_transactional_id(client, broker):
    added = schema_of(ApiKey.ADD_PARTITIONS_TO_TXN, 3).AddPartitionsToTxnResponse(
        throttle_time=NO_TIME, results_by_topic_v3_and_below=()
    )
    broker.script(ApiKey.ADD_PARTITIONS_TO_TXN, added)
    producer = TransactionalProducer(transactional_id="me", producer_id=5, producer_epoch=0)
    client.add_partitions_to_transaction(producer, [T0])
    client.append(T0, batches(1, is_transactional=True))
    assert broker.asked(ApiKey.PRODUCE)[0].transactional_id == "me"
    client.append(T0, batches(1, first=1))
    assert broker.asked(ApiKey.PRODUCE)[1].transactional_id is None
