"""What a real Kafka 4.3.1 answered to records that no good client sends, ours answers too."""

import pytest
from support.builders.builders import a_batch, a_record, a_transactional_batch, with_header_field
from support.nodes.whole_node import a_node, ask, make_topic

from broker_core.model.identifiers import CompressionType, TopicPartition
from broker_core.protocol.api_table import ApiKey
from broker_core.record.batch_header import compute_crc

GOOD = bytes(a_batch(2))
TRANSACTIONAL = bytes(a_transactional_batch(1))
OLD, ANY, NEW = (3, 6), (3, 6, 7, 9, 13), (7, 9, 13)
"""Versions of the request: before zstd, all, and from zstd on."""


def field(position, layout, value, batch=GOOD):
    return bytes(with_header_field(batch, position, layout, value, repair_crc=False))


def length(value, batch=GOOD):
    return field(8, ">i", value, batch)


def magic(value, batch=GOOD):
    return field(16, ">b", value, batch)


def base_offset(value, batch=GOOD):
    return field(0, ">q", value, batch)


def with_true_crc(batch):
    return field(17, ">I", compute_crc(batch, 0, len(batch)), batch)


def attributes(value, batch=GOOD):
    return with_true_crc(field(21, ">h", value, batch))


def record_count(value, batch=GOOD):
    return with_true_crc(field(57, ">i", value, batch))


def wrong_crc(batch=GOOD):
    return field(17, ">I", 0x1020304, batch)


LARGE = bytes(a_batch([a_record(value=b"x" * 1_100_000)]))
ZSTD = bytes(a_batch(compression=CompressionType.ZSTD))
NO_LOG_START = -1
ITS_LOG_START = 1

OF_THAT_PARTITION = {
    "codec 5": (attributes(5), NEW, "unknown_server_error", ITS_LOG_START),
    "codec 6": (attributes(6), NEW, "unknown_server_error", ITS_LOG_START),
    "codec 7": (attributes(7), NEW, "unknown_server_error", ITS_LOG_START),
    "codec 7 of an idempotent producer": (
        attributes(7, a_batch(1, producer=(99, 0, 0))), NEW, "unknown_server_error", ITS_LOG_START
    ),
    "codec 7, control bit": (attributes(0x27), NEW, "unknown_server_error", ITS_LOG_START),
    "codec 7, negative count": (attributes(7, record_count(-1)), NEW, "unknown_server_error", ITS_LOG_START),
    "codec 7 and some bytes": (attributes(7) + b"\0\1\2", NEW, "unknown_server_error", ITS_LOG_START),
    "codec 7, base offset 7": (base_offset(7, attributes(7)), NEW, "invalid_record", ITS_LOG_START),
    "codec 7, too large": (attributes(7, LARGE), NEW, "message_too_large", NO_LOG_START),
    "codec 7, wrong crc": (wrong_crc(attributes(7)), NEW, "corrupt_message", NO_LOG_START),
    "codec 7, length 14": (length(14, attributes(7)), NEW, "corrupt_message", NO_LOG_START),
    "codec 7 and another batch": (attributes(7) + GOOD, NEW, "invalid_record", NO_LOG_START),
    "codec 7, cut off": (attributes(7)[:-1], ANY, "invalid_record", NO_LOG_START),
    "zstd": (ZSTD, OLD, "unsupported_compression_type", NO_LOG_START),
    "zstd and another batch": (ZSTD + GOOD, OLD, "unsupported_compression_type", NO_LOG_START),
    "zstd, negative count": (record_count(-1, ZSTD), OLD, "unsupported_compression_type", NO_LOG_START),
    "negative count": (record_count(-1), ANY, "invalid_record", ITS_LOG_START),
    "negative count, wrong crc": (wrong_crc(record_count(-1)), ANY, "corrupt_message", NO_LOG_START),
    "negative count, base offset 7": (base_offset(7, record_count(-1)), ANY, "invalid_record", ITS_LOG_START),
    "negative count, too large": (record_count(-1, LARGE), ANY, "message_too_large", NO_LOG_START),
    "negative count and another batch": (record_count(-1) + GOOD, ANY, "invalid_record", NO_LOG_START),
    "wrong crc": (wrong_crc(), ANY, "corrupt_message", NO_LOG_START),
    "wrong crc, too large": (wrong_crc(LARGE), ANY, "message_too_large", NO_LOG_START),
    "wrong crc, base offset 7": (base_offset(7, wrong_crc()), ANY, "invalid_record", ITS_LOG_START),
    "length 14": (length(14), ANY, "corrupt_message", NO_LOG_START),
    "length 14, base offset 7": (base_offset(7, length(14)), ANY, "corrupt_message", NO_LOG_START),
    "length 48": (length(48), ANY, "corrupt_message", NO_LOG_START),
    "length 49": (length(49), ANY, "corrupt_message", NO_LOG_START),
    "a length of one byte less": (length(len(GOOD) - 13), ANY, "corrupt_message", NO_LOG_START),
    "a length of one byte more": (length(len(GOOD) - 11), ANY, "invalid_record", NO_LOG_START),
    "length 2**31-13": (length(2**31 - 13), ANY, "invalid_record", NO_LOG_START),
    "12 bytes that say 2**31-1": (length(2**31 - 1)[:12], ANY, "invalid_record", NO_LOG_START),
    "magic 0": (magic(0), ANY, "invalid_record", NO_LOG_START),
    "magic 1": (magic(1), ANY, "invalid_record", NO_LOG_START),
    "magic 0, a length beyond the end": (length(len(GOOD), magic(0)), ANY, "invalid_record", NO_LOG_START),
    "empty": (b"", ANY, "invalid_record", NO_LOG_START),
    "11 bytes": (bytes(11), ANY, "invalid_record", NO_LOG_START),
    "16 bytes of a batch": (GOOD[:16], ANY, "invalid_record", NO_LOG_START),
    "17 bytes of a batch": (GOOD[:17], ANY, "invalid_record", NO_LOG_START),
    "60 bytes of a batch": (GOOD[:60], ANY, "invalid_record", NO_LOG_START),
    "cut off": (GOOD[:-1], ANY, "invalid_record", NO_LOG_START),
    "12 zeros behind": (GOOD + bytes(12), ANY, "corrupt_message", NO_LOG_START),
    "a negative length behind": (GOOD + length(-1)[:12], ANY, "corrupt_message", NO_LOG_START),
    "magic 3 behind": (GOOD + magic(3), ANY, "corrupt_message", NO_LOG_START),
    "magic -1 behind": (GOOD + magic(-1), ANY, "corrupt_message", NO_LOG_START),
    "17 bytes with magic 3 behind": (GOOD + magic(3)[:17], ANY, "corrupt_message", NO_LOG_START),
    "another batch behind": (GOOD + GOOD, ANY, "invalid_record", NO_LOG_START),
    "magic 1 behind": (GOOD + magic(1), ANY, "invalid_record", NO_LOG_START),
    "codec 7 behind": (GOOD + attributes(7), ANY, "invalid_record", NO_LOG_START),
    "length 14 behind": (GOOD + length(14), ANY, "invalid_record", NO_LOG_START),
    "one byte behind": (GOOD + b"\0", ANY, "none", ITS_LOG_START),
    "11 zeros behind": (GOOD + bytes(11), ANY, "none", ITS_LOG_START),
    "16 bytes of a batch behind": (GOOD + GOOD[:16], ANY, "none", ITS_LOG_START),
    "a cut off batch behind": (GOOD + GOOD[:-1], ANY, "none", ITS_LOG_START),
}  # fmt: skip
"""By what was sent for partition 1: it, in which versions, the error and the log start offset that Kafka answered.

Asked of an Apache Kafka 4.3.1 (KRaft, one broker) in bytes over a socket, with acks -1 and 1, with good batches for two
more partitions before and behind it; the partitions' logs began at offset 1. The good ones were taken."""

OF_ALL_PARTITIONS = {
    **{f"length {n}": (length(n), ANY, "corrupt_message") for n in (-(2**31), -5, -1, 0, 13)},
    **{f"magic {n}": (magic(n), ANY, "corrupt_message") for n in (-128, -1, 3, 127)},
    "length 0, magic 0": (length(0, magic(0)), ANY, "corrupt_message"),
    "12 zeros": (bytes(12), ANY, "corrupt_message"),
    "16 bytes with length -1": (length(-1)[:16], ANY, "corrupt_message"),
    "17 bytes with magic 3": (magic(3)[:17], ANY, "corrupt_message"),
    "magic 3, a length beyond the end": (length(len(GOOD), magic(3)), ANY, "corrupt_message"),
    "magic 3, length 2**31-1": (length(2**31 - 1, magic(3)), ANY, "corrupt_message"),
    "length 2**31-12": (length(2**31 - 12), ANY, "unknown_server_error"),
    "length 2**31-1": (length(2**31 - 1), ANY, "unknown_server_error"),
    "17 bytes with length 2**31-1": (length(2**31 - 1)[:17], ANY, "unknown_server_error"),
    "length 2**31-1 behind": (GOOD + length(2**31 - 1), ANY, "unknown_server_error"),
    "codec 5": (attributes(5), OLD, "unknown_server_error"),
    "codec 7": (attributes(7), OLD, "unknown_server_error"),
    "codec 7, wrong crc": (wrong_crc(attributes(7)), OLD, "unknown_server_error"),
    "codec 7, length 14": (length(14, attributes(7)), OLD, "unknown_server_error"),
    "codec 7 and another batch": (attributes(7) + GOOD, OLD, "unknown_server_error"),
    "transactional without an id": (TRANSACTIONAL, NEW, "transactional_id_authorization_failed"),
    "transactional without an id, two batches": (TRANSACTIONAL * 2, NEW, "transactional_id_authorization_failed"),
    "transactional without an id, wrong crc": (wrong_crc(TRANSACTIONAL), NEW, "transactional_id_authorization_failed"),
    "transactional without an id, length 14": (
        length(14, TRANSACTIONAL), NEW, "transactional_id_authorization_failed"
    ),
    "transactional without an id, codec 7": (
        attributes(0x17, TRANSACTIONAL), NEW, "transactional_id_authorization_failed"
    ),
}  # fmt: skip
"""The same, asked in the same way: this error was answered for all three partitions, without a log start offset, and
nothing was taken."""


def rows(table):
    return [
        pytest.param(version, *row, id=f"{name}, version {version}")
        for name, (records, versions, *row_rest) in table.items()
        for version in versions
        for row in [(records, *row_rest)]
    ]


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """With a topic of three partitions, whose logs begin at offset 1."""
    node = a_node(tmp_path_factory.mktemp("node") / "log")
    make_topic(node, "t", 3)
    for partition in range(3):
        produced(node, 9, [(partition, bytes(a_batch(1)))])
    places = [{"partition_index": partition, "offset": 1} for partition in range(3)]
    ask(node, ApiKey.DELETE_RECORDS, 2, topics=[{"name": "t", "partitions": places}], timeout=1000)
    return node


def produced(node, version, pairs, **more):
    """What is answered, by partition: (the error, whether it has a base offset, the log start offset)."""
    topic_id = node.topics.image.topics["t"].topic_id
    named = {"topic_id": topic_id} if version >= 13 else {"name": "t"}
    data = [{"index": partition, "records": records} for partition, records in pairs]
    asked = {"acks": -1, "timeout": 1000, "transactional_id": None} | more
    answer = ask(node, ApiKey.PRODUCE, version, **asked, topic_data=[{**named, "partition_data": data}])
    return {
        each.index: (each.error_code.name, each.base_offset >= 0, each.log_start_offset if version >= 5 else None)
        for topic in answer.responses
        for each in topic.partition_responses
    }


def ends(node):
    return [node.replicas.get(TopicPartition("t", partition)).bounds.high_watermark for partition in range(3)]


@pytest.mark.parametrize(("version", "records", "error", "log_start"), rows(OF_THAT_PARTITION))
def test_an_invalid_batch_fails_only_its_partition(node, version, records, error, log_start):
    before = ends(node)
    log_starts = (1, log_start) if version >= 5 else (None, None)
    answers = produced(node, version, [(0, GOOD), (1, records), (2, GOOD)])
    taken = ("none", True, log_starts[0])
    assert answers == {0: taken, 1: (error, error == "none", log_starts[1]), 2: taken}
    assert ends(node) == [before[0] + 2, before[1] + 2 * (error == "none"), before[2] + 2]


@pytest.mark.parametrize(("version", "records", "error"), rows(OF_ALL_PARTITIONS))
def test_bytes_that_kafka_cannot_parse_fail_the_whole_request(node, version, records, error):
    before = ends(node)
    answers = produced(node, version, [(0, GOOD), (1, records), (2, GOOD)])
    assert answers == dict.fromkeys(range(3), (error, False, -1 if version >= 5 else None))
    assert ends(node) == before


def test_unparsable_bytes_in_a_missing_partition_also_fail_the_whole_request(node):
    of_all = ("corrupt_message", False, -1)
    assert produced(node, 9, [(7, magic(3)), (0, GOOD)]) == {7: of_all, 0: of_all}
    assert produced(node, 9, [(1, magic(3))]) == {1: of_all}


def test_batches_after_a_transactional_one_are_not_inspected(node):
    unauthorized = ("transactional_id_authorization_failed", False, -1)
    found = produced(node, 9, [(0, TRANSACTIONAL), (1, magic(3)), (2, length(2**31 - 1))])
    assert found == dict.fromkeys(range(3), unauthorized)
    assert produced(node, 9, [(0, magic(3)), (1, TRANSACTIONAL)])[1][0] == "corrupt_message"
    found = produced(node, 9, [(7, TRANSACTIONAL), (1, magic(3)), (0, GOOD)], transactional_id="mine")
    assert [found[partition][0] for partition in (7, 1, 0)] == [
        "unknown_topic_or_partition",
        "corrupt_message",
        "none",
    ]
    found = produced(node, 9, [(7, TRANSACTIONAL), (1, length(2**31 - 1)), (0, GOOD)], transactional_id="mine")
    assert {error for error, *_ in found.values()} == {"unknown_server_error"}


@pytest.mark.parametrize("acks", [2, -2])
def test_invalid_acks_are_checked_after_the_batches(node, acks):
    refused, before = ("invalid_required_acks", False, -1), ends(node)
    assert produced(node, 9, [(0, GOOD), (1, GOOD)], acks=acks) == {0: refused, 1: refused}
    assert produced(node, 9, [(0, GOOD), (1, b"")], acks=acks) == {0: refused, 1: ("invalid_record", False, -1)}
    assert produced(node, 9, [(0, GOOD), (7, GOOD)], acks=acks)[7][0] == "unknown_topic_or_partition"
    assert produced(node, 9, [(0, GOOD), (1, magic(3))], acks=acks)[0][0] == "corrupt_message"
    assert ends(node) == before


def test_null_records_are_answered_where_kafka_sends_no_response(node):
    """Kafka 4.3.1 gives no answer to a request with null records, and its connection hangs: that is not imitated."""
    assert produced(node, 9, [(0, GOOD), (1, None)]) == {0: ("none", True, 1), 1: ("invalid_record", False, -1)}


def test_each_partition_of_a_refused_request_gets_the_reason(node):
    named = [{"name": "t", "partition_data": [{"index": 0, "records": GOOD}, {"index": 1, "records": magic(3)}]}]
    (topic,) = ask(node, ApiKey.PRODUCE, 9, acks=1, timeout=1000, transactional_id=None, topic_data=named).responses
    assert {each.error_message for each in topic.partition_responses} == {"Invalid magic found in record: 3"}


@pytest.mark.parametrize(
    ("first", "last", "answer"),
    [
        (magic(0), GOOD, ("invalid_record", False, -1)),
        (GOOD + GOOD, GOOD, ("invalid_record", False, -1)),
        (b"", GOOD, ("invalid_record", False, -1)),
        (GOOD, magic(0), ("invalid_record", False, -1)),
        (GOOD, GOOD, ("none", True, 0)),
    ],
)
def test_a_partition_that_is_there_twice_is_refused_if_either_is_no_single_batch(node, first, last, answer):
    """Kafka answers the same; it has appended the good batch, so that its producer sends it twice."""
    before = ends(node)
    found = produced(node, 9, [(0, first), (0, last)])[0]
    assert found[:2] == answer[:2]
    assert (ends(node) == before) is (answer[0] != "none")
