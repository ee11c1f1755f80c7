import pytest
from support.builders.builders import a_batch, a_transactional_batch
from support.nodes.whole_node import NO_ANSWER, a_node, ask, begin, fetch, make_topic, pass_time, produce

from broker_core.handlers.call import ConnectionEnd
from broker_core.model.identifiers import CompressionType
from broker_core.protocol.api_table import ApiKey
from broker_core.record.batch_reader import records_of


@pytest.fixture
def node(tmp_path):
    node = a_node(tmp_path / "log")
    make_topic(node, "t", 2)
    return node


def code(answer):
    return answer.error_code.name


def test_an_acknowledged_batch_has_its_offset_and_is_stored(node):
    first, second = produce(node, "t", a_batch(3)), produce(node, "t", a_batch(2))
    assert (code(first), first.base_offset, second.base_offset) == ("none", 0, 3)
    assert (first.log_append_time, first.log_start_offset) == (None, 0)
    assert [record.value for record in records_of(fetch(node, "t").records)][:3] == [b"value-0", b"value-1", b"value-2"]


@pytest.mark.parametrize("acks", [1, -1])
def test_nothing_is_acknowledged_before_it_is_written(node, acks):
    waiting = produce(node, "t", a_batch(1), acks=acks, run=False)
    assert waiting.answer is None
    node.jobs.run_all()
    assert code(waiting.answer.responses[0].partition_responses[0]) == "none"


def test_acks_0_is_written_without_a_response(node):
    assert produce(node, "t", a_batch(1), acks=0) == NO_ANSWER
    assert fetch(node, "t").high_watermark == 1


def test_acks_0_that_fails_closes_the_connection(node):
    end = produce(node, "nowhere", a_batch(1), acks=0)
    assert isinstance(end, ConnectionEnd)
    assert "unknown_topic_or_partition" in end.reason


def test_other_acks_are_refused(node):
    assert code(produce(node, "t", a_batch(1), acks=2)) == "invalid_required_acks"
    assert fetch(node, "t").high_watermark == 0


def test_each_partition_is_answered_separately(node):
    answer = ask(
        node,
        ApiKey.PRODUCE,
        9,
        acks=-1,
        timeout=1000,
        topic_data=[
            {"name": "t", "partition_data": [{"index": number, "records": a_batch(1)} for number in (1, 7, 0)]},
            {"name": "nowhere", "partition_data": [{"index": 0, "records": a_batch(1)}]},
        ],
    )
    found = {
        (topic.name, each.index): (code(each), each.base_offset)
        for topic in answer.responses
        for each in topic.partition_responses
    }
    assert found == {
        ("t", 1): ("none", 0),
        ("t", 7): ("unknown_topic_or_partition", -1),
        ("t", 0): ("none", 0),
        ("nowhere", 0): ("unknown_topic_or_partition", -1),
    }


@pytest.mark.parametrize(
    ("acks", "expected"),
    [
        (1, [("t", [(0, "none", 0), (1, "invalid_record", -1)])]),
        (5, [("t", [(0, "invalid_required_acks", -1), (1, "invalid_record", -1)])]),
    ],
)
def test_of_a_duplicate_partition_the_last_entry_applies_and_is_answered_once(node, acks, expected):
    def partitions(*pairs):
        return [{"index": number, "records": records} for number, records in pairs]

    answer = ask(
        node,
        ApiKey.PRODUCE,
        9,
        acks=acks,
        timeout=1000,
        topic_data=[
            {"name": "t", "partition_data": partitions((0, a_batch(1)), (1, a_batch(1)), (0, a_batch(3)))},
            {"name": "t", "partition_data": partitions((1, b""))},
        ],
    )
    found = [
        (topic.name, sorted((each.index, code(each), each.base_offset) for each in topic.partition_responses))
        for topic in answer.responses
    ]
    assert found == expected
    assert fetch(node, "t").high_watermark == (3 if acks == 1 else 0)


CORRUPT = a_batch(1)[:-1] + b"?"
TWO = a_batch(1) + a_batch(1)


@pytest.mark.parametrize("version", [3, 8, 13])
@pytest.mark.parametrize(
    ("given", "expected", "end"),
    [
        ((a_batch(2), a_batch(3)), ("none", 0), 3),
        ((CORRUPT, a_batch(1)), ("none", 0), 1),
        ((a_batch(1), CORRUPT), ("corrupt_message", -1), 0),
        ((None, a_batch(1)), ("none", 0), 1),
        # Kafka 4.3.1 gives these answers too, but appends the good batch. Of the last one it sends none.
        ((TWO, a_batch(1)), ("invalid_record", -1), 0),
        ((a_batch(1), TWO), ("invalid_record", -1), 0),
        ((b"", a_batch(1)), ("invalid_record", -1), 0),
        ((a_batch(1), b""), ("invalid_record", -1), 0),
        ((a_batch(1), None), ("invalid_record", -1), 0),
    ],
    ids=["good good", "corrupt good", "good corrupt", "null good", "two good", "good two", "empty good", "good empty",
         "good null"],
)  # fmt: skip
def test_a_refused_duplicate_partition_appends_nothing(node, version, given, expected, end):
    topic = {"name": "t"} if version < 13 else {"topic_id": node.topics.image.topics["t"].topic_id}
    partitions = [{"index": 0, "records": None if records is None else bytes(records)} for records in given]
    answer = ask(
        node, ApiKey.PRODUCE, version, acks=-1, timeout=1000, topic_data=[topic | {"partition_data": partitions}]
    )
    ((found,),) = (each.partition_responses for each in answer.responses)
    assert (code(found), found.base_offset) == expected
    assert fetch(node, "t").high_watermark == end


def test_from_version_13_on_topics_have_ids(node):
    topic_id = node.topics.image.topics["t"].topic_id
    asked = {"acks": -1, "timeout": 1000}

    def ask_by(topic_id):
        topics = [{"topic_id": topic_id, "partition_data": [{"index": 0, "records": a_batch(1)}]}]
        (topic,) = ask(node, ApiKey.PRODUCE, 13, **asked, topic_data=topics).responses
        return topic.topic_id, code(topic.partition_responses[0])

    assert ask_by(topic_id) == (topic_id, "none")
    assert ask_by(None)[1] == "unknown_topic_id"


@pytest.mark.parametrize(
    ("records", "version", "expected"),
    [
        (None, 9, "invalid_record"),
        (b"", 9, "invalid_record"),
        (a_batch(1)[:60], 9, "invalid_record"),
        (a_batch(1)[:-1], 9, "invalid_record"),
        (bytes(11) + b"\x07" + bytes(60), 9, "corrupt_message"),
        (bytes(12), 9, "corrupt_message"),
        (bytes(16) + b"\x03", 9, "corrupt_message"),
        (a_batch(1) + a_batch(1)[:60], 9, "none"),
        (a_batch(1) + a_batch(1), 9, "invalid_record"),
        (a_batch(1, compression=CompressionType.ZSTD), 6, "unsupported_compression_type"),
        (a_batch(1, compression=CompressionType.ZSTD), 7, "none"),
    ],
    ids=[
        "null",
        "empty",
        "header cut off",
        "cut off",
        "no length",
        "nothing but a length of 0",
        "a length of 0 and a magic of 3",
        "whole and a rest",
        "two batches",
        "zstd before version 7",
        "zstd",
    ],
)
def test_a_partition_accepts_exactly_one_whole_batch(node, records, version, expected):
    assert code(produce(node, "t", records, version=version)) == expected


def test_old_formats_are_refused(node):
    old = a_batch(1)
    old[16] = 1
    assert code(produce(node, "t", old)) == "invalid_record"


def test_a_flipped_bit_is_a_corrupt_message(node):
    flipped = a_batch(3)
    flipped[-1] ^= 1
    assert code(produce(node, "t", flipped)) == "corrupt_message"


def test_clients_cannot_produce_to_internal_topics(node):
    assert code(produce(node, "__consumer_offsets", a_batch(1))) == "invalid_topic_exception"


def test_a_retry_gets_the_original_offset_and_a_gap_is_refused(node):
    first = produce(node, "t", a_batch(2, producer=(5, 0, 0)))
    again = produce(node, "t", a_batch(2, producer=(5, 0, 0)))
    gap = produce(node, "t", a_batch(1, producer=(5, 0, 9)))
    assert (first.base_offset, again.base_offset, code(gap)) == (0, 0, "out_of_order_sequence_number")
    assert fetch(node, "t").high_watermark == 2


def test_a_transactional_batch_needs_a_transactional_id(node):
    answer = produce(node, "t", a_transactional_batch(1))
    assert code(answer) == "transactional_id_authorization_failed"


def test_a_late_write_times_out_and_may_still_be_written(node):
    waiting = produce(node, "t", a_batch(1), timeout=30, run=False)
    node.clock.time_ms += 31
    node.on_time(node.clock.now_ms())
    assert code(waiting.answer.responses[0].partition_responses[0]) == "request_timed_out"
    node.jobs.run_all()
    assert fetch(node, "t").high_watermark == 1


def test_a_response_cancels_its_timer(node):
    before = len(node.timers)
    produce(node, "t", a_batch(1))
    assert len(node.timers) == before
    pass_time(node, 2000)


def test_a_request_without_topics_is_answered(node):
    assert ask(node, ApiKey.PRODUCE, 9, acks=-1, timeout=1000).responses == ()


def test_requests_to_one_partition_are_written_in_order(node):
    waiting = [produce(node, "t", a_batch(1, producer=(5, 0, number)), run=False) for number in range(5)]
    node.jobs.run_all()
    offsets = [each.answer.responses[0].partition_responses[0].base_offset for each in waiting]
    assert offsets == [0, 1, 2, 3, 4]


def test_without_write_access_nothing_is_written(tmp_path):
    node = a_node(
        tmp_path / "guarded",
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:admin",
    )
    topics = [{"name": "t", "num_partitions": 1, "replication_factor": 1}]
    ask(node, ApiKey.CREATE_TOPICS, principal="User:admin", topics=topics, timeout=1000)
    data = [{"name": "t", "partition_data": [{"index": 0, "records": a_batch(1)}]}]
    for principal, expected in (("User:eve", "topic_authorization_failed"), ("User:admin", "none")):
        waiting = begin(node, ApiKey.PRODUCE, 9, principal=principal, acks=-1, timeout=1000, topic_data=data)
        node.jobs.run_all()
        assert code(waiting.answer.responses[0].partition_responses[0]) == expected
