"""Produce: what is accepted, what is refused, and what the log then holds."""

import struct

from differential.requests import (
    NO_SUCH,
    UNKNOWN_ID,
    fetch,
    fetch_fields,
    fetch_place,
    latest,
    new_producer,
    produce,
    produce_topic,
    write,
)
from differential.scenario import for_versions, once
from differential.side import Topic
from support.builders.builders import SOME_TIME_MS, a_batch, a_record

from broker_core.model.identifiers import CompressionType, TimestampType
from broker_core.protocol.api_table import ApiKey
from broker_core.record.batch_header import read_header, write_crc

FIXED = struct.Struct(">hiqqqhii")
"""Attributes to record count: what the CRC covers of a header."""
NAMES = (
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
)


def forged(batch=None, *, crc=True, **given):
    """A batch with other values in its header and a correct CRC."""
    batch = bytearray(a_batch() if batch is None else batch)
    values = dict(zip(NAMES, FIXED.unpack_from(batch, 21), strict=True)) | given
    FIXED.pack_into(batch, 21, *(values[name] for name in NAMES))
    if crc:
        write_crc(batch, 0)
    return batch


def with_bytes(position, data, batch=None):
    batch = bytearray(a_batch() if batch is None else batch)
    batch[position : position + len(data)] = data
    return batch


def odd_batches():
    """By name: batches that a broker must validate."""
    good = bytes(a_batch())
    zipped = a_batch(compression=CompressionType.GZIP)
    return {
        "magic 0": with_bytes(16, b"\0"),
        "magic 1": with_bytes(16, b"\1"),
        "magic 3": with_bytes(16, b"\3"),
        "wrong crc": with_bytes(17, b"\1\2\3\4"),
        "a changed record": with_bytes(len(good) - 2, b"\x7f"),
        "two batches": good + good,
        "a batch and some bytes": good + b"\0\1\2",
        "a batch that is cut off": good[:-3],
        "a header that is cut off": good[:40],
        "ten bytes": good[:10],
        "length too large": with_bytes(8, struct.pack(">i", len(good))),
        "length too small": with_bytes(8, struct.pack(">i", 20)),
        "negative length": with_bytes(8, struct.pack(">i", -5)),
        "length 0": with_bytes(8, struct.pack(">i", 0)),
        "base offset 7": with_bytes(0, struct.pack(">q", 7)),
        "base offset -7": with_bytes(0, struct.pack(">q", -7)),
        "leader epoch 9": with_bytes(12, struct.pack(">i", 9)),
        "no records": forged(record_count=0, last_offset_delta=-1),
        "count below": forged(record_count=2),
        "count above": forged(record_count=4),
        "negative count": forged(record_count=-1),
        "last delta below": forged(last_offset_delta=1),
        "last delta above": forged(last_offset_delta=3),
        "negative last delta": forged(last_offset_delta=-1),
        "control bit": forged(attributes=0x20),
        "transactional bit without a producer": forged(attributes=0x10),
        "log append time bit": forged(attributes=0x08),
        "delete horizon bit": forged(attributes=0x40),
        "unknown attribute bits": forged(attributes=0x80),
        "plain records that are gzip": forged(zipped, attributes=0),
        "gzip with count below": forged(zipped, record_count=2),
        "gzip with count above": forged(zipped, record_count=4),
        "gzip with a wrong max timestamp": forged(zipped, max_timestamp=SOME_TIME_MS + 77),
        "wrong max timestamp": forged(max_timestamp=SOME_TIME_MS + 77),
        "no max timestamp": forged(max_timestamp=-1),
        "no timestamps": a_batch([a_record(n, timestamp_ms=-1) for n in range(2)]),
        "negative timestamps": a_batch([a_record(n, timestamp_ms=-77 + n) for n in range(2)]),
        "timestamp 0": a_batch([a_record(0, timestamp_ms=0)]),
        "offsets with a gap": a_batch([a_record(0, offset=0), a_record(1, offset=5)]),
        "producer id without an epoch": forged(producer_id=5),
        "producer id without a sequence": forged(producer_id=5, producer_epoch=0),
        "epoch without a producer id": forged(producer_epoch=1),
        "sequence without a producer id": forged(base_sequence=0),
        "negative epoch": forged(producer_id=5, producer_epoch=-2, base_sequence=0),
        "negative sequence": forged(producer_id=5, producer_epoch=0, base_sequence=-2),
        "negative producer id": forged(producer_id=-5, producer_epoch=0, base_sequence=0),
    }


@for_versions(ApiKey.PRODUCE)
def takes_what_is_good(play, version):
    topic = play.topic(partitions=2)
    for acks in (-1, 1, 0):
        # A refused produce with acks=0 closes the connection: that is another scenario.
        for codec in tuple(CompressionType)[: 4 if version < 7 and acks == 0 else 5]:
            produce(play, topic, a_batch(compression=codec), version=version, acks=acks, note=f"{codec.name} {acks=}")
    # After the requests that get no answer.
    write(play, topic, a_batch(1))
    play.ask(
        ApiKey.PRODUCE,
        version,
        note="both partitions",
        acks=-1,
        timeout=1000,
        topic_data=[produce_topic(topic, (1, bytes(a_batch(2))), (0, bytes(a_batch(1))))],
    )
    for partition in (0, 1):
        latest(play, topic, partition)
        fetch(play, fetch_place(topic, partition), note="all of it")


@for_versions(ApiKey.PRODUCE, also_recorded=(8,))
def refuses_places(play, version):
    topic, other = play.topic(partitions=2), play.topic("u")
    good = bytes(a_batch())
    odd = {
        "unknown topic": [produce_topic(Topic(NO_SUCH, UNKNOWN_ID), (0, good))],
        "no name and no id": [produce_topic(Topic("", None), (0, good))],
        "bad name": [produce_topic(Topic("a b/c", UNKNOWN_ID), (0, good))],
        "partition 2": [produce_topic(topic, (2, good))],
        "partition -1": [produce_topic(topic, (-1, good))],
        "partition 2**31-1": [produce_topic(topic, (2**31 - 1, good))],
        "a good and a bad one": [produce_topic(topic, (0, good), (7, good)), produce_topic(other, (0, good))],
        "a partition twice": [produce_topic(topic, (1, good), (1, bytes(a_batch(1))))],
        "a topic twice": [produce_topic(topic, (0, good)), produce_topic(topic, (1, good))],
        "a topic and a partition twice": [produce_topic(topic, (0, good)), produce_topic(topic, (0, good))],
        "no topics": [],
        "no partitions": [produce_topic(topic)],
        "empty records": [produce_topic(topic, (0, b""))],
        "an internal topic": [produce_topic(Topic("__consumer_offsets", UNKNOWN_ID), (0, good))],
    }
    for note, data in odd.items():
        play.ask(ApiKey.PRODUCE, version, note=note, acks=-1, timeout=1000, topic_data=data)
    for acks in (7, -2, 2):
        produce(play, topic, a_batch(), version=version, acks=acks, note=f"{acks=}")
    play.ask(
        ApiKey.PRODUCE, version, note="timeout -1", acks=1, timeout=-1, topic_data=[produce_topic(topic, (0, good))]
    )
    latest(play, topic)
    latest(play, topic, 1)


@for_versions(ApiKey.PRODUCE)
def refuses_a_partition_that_is_there_twice(play, version):
    """A topic for each: Kafka appends the good batch and answers with an error, ours appends nothing then."""
    good, cut_off = bytes(a_batch()), bytes(a_batch())[:40]
    magic_0, wrong_crc = bytes(with_bytes(16, b"\0")), bytes(with_bytes(17, b"\1\2\3\4"))
    cases = {
        "magic-0-first": (magic_0, good),
        "wrong-crc-first": (wrong_crc, good),
        "two-batches-first": (good + good, good),
        "no-records-first": (b"", good),
        "cut-off-first": (cut_off, good),
        "magic-0-last": (good, magic_0),
        "wrong-crc-last": (good, wrong_crc),
        "magic-0-in-the-middle": (good, magic_0, good),
        "both-bad": (magic_0, wrong_crc),
    }
    for note, given in cases.items():
        topic = play.topic(note)
        data = [produce_topic(topic, *((0, records) for records in given))]
        play.ask(ApiKey.PRODUCE, version, note=note, acks=-1, timeout=1000, topic_data=data)
    play.ask(
        ApiKey.PRODUCE,
        version,
        note="an unknown partition twice",
        acks=-1,
        timeout=1000,
        topic_data=[produce_topic(topic, (7, magic_0), (7, good))],
    )


@for_versions(ApiKey.PRODUCE, also_recorded=(8,))
def judges_batches(play, version):
    topic = play.topic()
    for note, batch in odd_batches().items():
        produce(play, topic, batch, version=version, note=note)
    latest(play, topic)
    fetch(play, fetch_place(topic), note="what was taken")


@for_versions(ApiKey.PRODUCE)
def acks_0_that_is_refused(play, version):
    """Without an answer, an error can only be reported by closing the connection."""
    topic = play.topic()
    produce(play, topic, with_bytes(17, b"\1\2\3\4"), version=version, acks=0, note="wrong crc")
    play.listen("what comes of it")
    produce(play, topic, a_batch(), version=version, acks=0, partition=9, note="partition 9")
    play.listen("what comes of it")
    produce(play, topic, a_batch(), version=version, acks=0, note="good again")
    # After the request that gets no answer.
    write(play, topic, a_batch(1))
    latest(play, topic)


@for_versions(ApiKey.PRODUCE)
def idempotent_producers(play, version):
    topic = play.topic()
    producer = new_producer(play)

    def send(epoch, sequence, count=2, note="", batch=None):
        made = a_batch(count, producer=(producer[0], epoch, sequence)) if batch is None else batch
        produce(play, topic, made, version=version, note=note or f"{epoch=} {sequence=} {count=}")

    for sequence in (0, 2, 4, 6, 8, 10):
        send(0, sequence)
    send(0, 10, note="the last once more")
    send(0, 2, note="a remembered one once more")
    send(0, 0, note="a forgotten one once more")
    send(0, 10, 1, note="the same sequence, less records")
    send(0, 10, 3, note="the same sequence, more records")
    send(0, 20, note="a gap")
    send(0, 9, note="into what is there")
    send(2, 4, note="new epoch, not at 0")
    send(2, 0, note="new epoch")
    send(1, 0, note="old epoch")
    send(0, 12, note="oldest epoch")
    send(2, 2, note="goes on")
    strange = (producer[0] + 500_000, 0)
    for sequence in (0, 7):
        batch = a_batch(2, producer=(strange[0], 0, sequence + 1))
        produce(play, topic, batch, version=version, note=f"an unknown id at {sequence + 1}")
    two = a_batch(1, producer=(producer[0], 2, 4)) + a_batch(1, producer=(producer[0], 2, 5))
    send(2, 4, note="two batches", batch=two)
    latest(play, topic)
    play.ask(ApiKey.DESCRIBE_PRODUCERS, 0, topics=[{"name": topic.name, "partition_indexes": [0]}])


@once()
def cleaning_forgets_no_producer(play):
    """A compacted or deleted batch is still recognised when it is sent again."""
    seconds = {"segment__ms": 200, "min__cleanable__dirty__ratio": "0.01", "max__compaction__lag__ms": 200}
    topic = play.topic(cleanup__policy="compact,delete", **seconds)
    plain, mine = new_producer(play), play.name("tid")
    transactional = new_producer(play, mine)

    def batches(sequence):
        record = a_record(0, timestamp_ms=SOME_TIME_MS + 1000 * sequence)
        yield None, a_batch([record], producer=(*plain, sequence))
        yield mine, a_batch([record], producer=(*transactional, sequence), is_transactional=True)

    def send_all(note):
        for sequence in range(5):
            for transactional_id, batch in batches(sequence):
                produce(play, topic, batch, transactional_id=transactional_id, note=f"{note} {sequence}")

    def begin():
        play.quietly(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            v3_and_below_transactional_id=mine,
            v3_and_below_producer_id=transactional[0],
            v3_and_below_producer_epoch=transactional[1],
            v3_and_below_topics=[{"name": topic.name, "partitions": [0]}],
        )

    def end():
        ended = {"transactional_id": mine, "producer_id": transactional[0], "producer_epoch": transactional[1]}
        play.quietly(ApiKey.END_TXN, 3, committed=True, **ended)
        play.until_ended(mine)

    begin()
    send_all("first")
    end()
    for offset in range(2):
        later = SOME_TIME_MS + 10_000 * (offset + 1)
        write(play, topic, a_batch([a_record(0, key=b"later", timestamp_ms=later)]))
    play.until(lambda: first_offset(play, topic) > 5)
    begin()
    send_all("after compaction")
    place = {"partition_index": 0, "offset": -1}
    play.ask(ApiKey.DELETE_RECORDS, 2, topics=[{"name": topic.name, "partitions": [place]}], timeout=10_000)
    send_all("after DeleteRecords")
    end()
    play.ask(ApiKey.DESCRIBE_PRODUCERS, 0, topics=[{"name": topic.name, "partition_indexes": [0]}])
    latest(play, topic)


def first_offset(play, topic):
    """The first batch that a consumer gets."""
    answer = play.quietly(ApiKey.FETCH, 12, **fetch_fields(fetch_place(topic)))
    return read_header(answer.responses[0].partitions[0].records).base_offset


@for_versions(ApiKey.PRODUCE)
def sequences_wrap(play, version):
    topic = play.topic()
    producer = new_producer(play)
    last = 2**31 - 1
    for sequence, count in ((last - 1, 2), (0, 1), (1, 1), (last - 1, 2), (last, 2), (3, 1), (2, 1)):
        batch = a_batch(count, producer=(producer[0], 0, sequence))
        produce(play, topic, batch, version=version, note=f"{sequence=} {count=}")
    latest(play, topic)


@for_versions(ApiKey.PRODUCE, also_recorded=(8,))
def settings_of_a_topic(play, version):
    large = [a_record(0, value=b"v" * 3000)]
    old_time = [a_record(0, timestamp_ms=1000)]
    late_time = [a_record(0, timestamp_ms=2**45)]
    cases = (
        (
            "append-time",
            {"message__timestamp__type": "LogAppendTime"},
            [
                a_batch(),
                a_batch(compression=CompressionType.GZIP),
                a_batch(timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=SOME_TIME_MS),
                a_batch(old_time),
            ],
        ),
        (
            "small",
            {"max__message__bytes": 1000},
            [a_batch(), a_batch(large), a_batch(large, compression=CompressionType.GZIP)],
        ),
        (
            "compacted",
            {"cleanup__policy": "compact"},
            [
                a_batch(),
                a_batch([a_record(0, key=None)]),
                a_batch([a_record(0), a_record(1, key=None), a_record(2, key=b"")]),
            ],
        ),
        ("past", {"message__timestamp__before__max__ms": 1000}, [a_batch(), a_batch(late_time)]),
        ("future", {"message__timestamp__after__max__ms": 1000}, [a_batch(old_time), a_batch(late_time)]),
        ("gzip", {"compression__type": "gzip"}, [a_batch(), a_batch(compression=CompressionType.LZ4)]),
        ("plain", {"compression__type": "uncompressed"}, [a_batch(), a_batch(compression=CompressionType.ZSTD)]),
        ("zstd", {"compression__type": "zstd"}, [a_batch(), a_batch(compression=CompressionType.ZSTD)]),
        ("isr", {"min__insync__replicas": 2}, [a_batch()]),
    )
    for suffix, configs, batches in cases:
        topic = play.topic(suffix, **configs)
        for number, batch in enumerate(batches):
            for acks in (-1, 1):
                produce(play, topic, batch, version=version, acks=acks, note=f"{suffix} {number} {acks=}")
        latest(play, topic)
        fetch(play, fetch_place(topic), note="headers")


@for_versions(ApiKey.PRODUCE)
def transactional_rules(play, version):
    topic = play.topic()
    mine = play.name("tid")
    producer = new_producer(play, mine)

    def send(transactional_id, batch, note):
        produce(play, topic, batch, version=version, transactional_id=transactional_id, note=note)

    batch = a_batch(1, producer=(*producer, 0), is_transactional=True)
    send(None, batch, "without an id")
    send("", batch, "with an empty id")
    send(mine, a_batch(1), "with an id, plain batch")
    send(play.name("other"), batch, "with another's id")
    send(mine, a_batch(1, producer=(producer[0] + 1000, 0, 0), is_transactional=True), "with another's producer id")
    send(mine, a_batch(1, producer=(producer[0], 7, 0), is_transactional=True), "with an epoch from the future")
    send(mine, batch, "partition not added")
    send(mine, a_batch(1, producer=(*producer, 1), is_transactional=True), "and the next one")
    latest(play, topic)
    play.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[mine])
    # Ended, so that no transaction stays open.
    play.ask(
        ApiKey.END_TXN, 4, transactional_id=mine, producer_id=producer[0], producer_epoch=producer[1], committed=True
    )


@once()
def versions_that_only_exist_to_be_seen(play):
    """Produce is announced from version 0."""
    for version in (0, 1, 2):
        body = struct.pack(">hhih", 0, version, 77, -1) + struct.pack(">hii", 1, 1000, 0)
        play.raw(body, f"Produce v{version}")
    for version in (14, -1, 99):
        play.raw(struct.pack(">hhih", 0, version, 77, -1), f"Produce v{version}")


@once()
def many_batches_then_every_offset(play):
    topic = play.topic(partitions=1)
    for count in (1, 5, 2, 1, 7):
        write(play, topic, a_batch(count))
    for offset in range(17):
        fetch(play, fetch_place(topic, 0, offset, max_bytes=1), note=f"from {offset}")
