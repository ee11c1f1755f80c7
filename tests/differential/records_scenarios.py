"""Contents of produced batches: records that are refused one by one (KIP-467), and wrong lengths and counts."""

import zlib

from differential.requests import fetch, fetch_place, latest, new_producer, produce
from differential.scenario import for_versions, once
from support.builders.builders import SOME_TIME_MS, a_batch, a_batch_of_content, a_record

from broker_core.model.identifiers import CompressionType, TimestampType
from broker_core.protocol.api_table import ApiKey
from broker_core.record.compression import compress
from broker_core.record.varint import append_varint

YEARS_MS = 3 * 10**11
OLD_MS, FUTURE_MS = 1000, 2**45
NO_KEY = {"key": None}
OLD, FUTURE = {"timestamp_ms": OLD_MS}, {"timestamp_ms": FUTURE_MS}
GOOD: dict = {}


def records(*kinds):
    return [a_record(number, **kind) for number, kind in enumerate(kinds)]


BAD_RECORDS = {
    "all good": records(GOOD, GOOD),
    "one without a key": records(GOOD, NO_KEY, GOOD),
    "all without a key": records(NO_KEY, NO_KEY),
    "five without a key": records(GOOD, NO_KEY, NO_KEY, GOOD, NO_KEY, NO_KEY, NO_KEY),
    "one too old": records(GOOD, OLD),
    "one too far ahead": records(GOOD, FUTURE),
    "old and ahead": records(OLD, GOOD, FUTURE, OLD),
    "no key, old, ahead": records(NO_KEY, OLD, FUTURE, GOOD),
    "no key and old in one": records(GOOD, NO_KEY | OLD),
    "without times": records({"timestamp_ms": -1}, {"timestamp_ms": -1} | NO_KEY),
}


FIRST_WITH_RECORD_ERRORS = 8


@for_versions(ApiKey.PRODUCE, also_recorded=(FIRST_WITH_RECORD_ERRORS,))
def records_that_are_refused(play, version):
    producer = new_producer(play)
    topics = {
        "plain": play.topic("plain"),
        "compacted": play.topic("compacted", cleanup__policy="compact,delete"),
        "times": play.topic("times", message__timestamp__before__max__ms=YEARS_MS),
        "both": play.topic("both", cleanup__policy="compact", message__timestamp__before__max__ms=YEARS_MS),
        "append": play.topic("append", cleanup__policy="compact", message__timestamp__type="LogAppendTime"),
        "recoded": play.topic("recoded", cleanup__policy="compact", compression__type="lz4"),
    }
    for name, topic in topics.items():
        for what, made in BAD_RECORDS.items():
            for codec in (CompressionType.NONE, CompressionType.GZIP):
                batch = a_batch(made, compression=codec)
                produce(play, topic, batch, version=version, note=f"{name}: {what}, {codec.name}")
        batch = a_batch(records(GOOD, NO_KEY, OLD), producer=(*producer, 0))
        produce(play, topic, batch, version=version, note=f"{name}: of an idempotent producer")
        for what, claimed_ms, made in (
            ("good", SOME_TIME_MS, records(GOOD, GOOD | {"value": None})),
            ("one without a key", SOME_TIME_MS, records(GOOD, NO_KEY, GOOD)),
            ("too old", OLD_MS, records(GOOD, NO_KEY)),
            ("too far ahead", FUTURE_MS, records(GOOD)),
        ):
            for codec in (CompressionType.NONE, CompressionType.GZIP):
                batch = a_batch(
                    made,
                    compression=codec,
                    timestamp_type=TimestampType.LOG_APPEND_TIME,
                    log_append_time_ms=claimed_ms,
                )
                note = f"{name}: with log append time, {what}, {codec.name}"
                produce(play, topic, batch, version=version, note=note)
        latest(play, topic)


def varint(value):
    encoded = bytearray()
    append_varint(encoded, value)
    return bytes(encoded)


def a_raw_record(
    *, attributes=0, timestamp_delta=0, offset_delta=0, key=b"k", value=b"v", headers=(), length=None, rest=b""
):
    """`key` and the like as bytes or None, or as the varint of a wrong length."""

    def field(data):
        if isinstance(data, int):
            return varint(data)
        return varint(-1) if data is None else varint(len(data)) + data

    body = bytes([attributes]) + varint(timestamp_delta) + varint(offset_delta) + field(key) + field(value)
    if isinstance(headers, int):
        body += varint(headers)
    else:
        body += varint(len(headers)) + b"".join(field(name) + field(content) for name, content in headers)
    body += rest
    return varint(len(body) if length is None else length) + body


RAW = {
    "as it should be": a_raw_record(),
    "attributes": a_raw_record(attributes=0xFF),
    "key of -2": a_raw_record(key=-2),
    "key too long": a_raw_record(key=1000),
    "value of -2": a_raw_record(value=-2),
    "value too long": a_raw_record(value=1000),
    "headers -1": a_raw_record(headers=-1),
    "headers 1000": a_raw_record(headers=1000),
    "a header without a key": a_raw_record(headers=[(None, b"v")]),
    "a header key that is no text": a_raw_record(headers=[(b"\xff\xfe", b"v")]),
    "a header without a value": a_raw_record(headers=[(b"h", None)]),
    "a header value of -2": a_raw_record(headers=[(b"h", -2)]),
    "bytes behind": a_raw_record(rest=b"xyz"),
    "nothing": b"",
    "two": a_raw_record() + a_raw_record(offset_delta=1),
    "a good one and noise": a_raw_record() + b"\x20noise",
}


CUT = {
    "length 0": a_raw_record(length=0),
    "length -1": a_raw_record(length=-1),
    "length too short": a_raw_record(length=4),
    "length too long": a_raw_record(length=100),
}
"""Kafka stores these if they are compressed, and no consumer can read them."""
GAPS = {
    "offset delta 1": (a_raw_record(offset_delta=1), 1),
    "gap": (a_raw_record() + a_raw_record(offset_delta=2), 2),
    "twice the same": (a_raw_record() + a_raw_record(), 2),
}
"""Kafka stores these if they are not compressed, and its log has offsets that its index does not have."""


@for_versions(ApiKey.PRODUCE, first=9)
def records_that_are_broken(play, version):
    topic, compacted = play.topic(), play.topic("compacted", cleanup__policy="compact")
    for what, content in RAW.items():
        for codec in (CompressionType.NONE, CompressionType.GZIP):
            batch = a_batch_of_content(compress(codec, content), attributes=int(codec))
            produce(play, topic, batch, version=version, note=f"{what}, {codec.name}")
    for what, content in CUT.items():
        produce(play, topic, a_batch_of_content(content), version=version, note=what)
    for what, (content, count) in GAPS.items():
        batch = a_batch_of_content(compress(CompressionType.GZIP, content), record_count=count, attributes=1)
        produce(play, topic, batch, version=version, note=f"{what}, GZIP")
    keyless, bad = a_raw_record(key=None), a_raw_record(offset_delta=1, key=-2)
    for what, content in {
        "the second is broken": a_raw_record() + bad,
        "no key, then broken": keyless + bad,
    }.items():
        for codec in (CompressionType.NONE, CompressionType.GZIP):
            batch = a_batch_of_content(compress(codec, content), record_count=2, attributes=int(codec))
            produce(play, compacted, batch, version=version, note=f"compacted: {what}, {codec.name}")
    latest(play, topic)
    fetch(play, fetch_place(topic), note="what was taken")


CODECS = (CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4, CompressionType.ZSTD)


def tails():
    """By name, bytes after the compressed content."""
    return {
        "nothing": b"",
        "zeros": bytes(7),
        "many zeros": bytes(100),
        "one zero": b"\0",
        "noise": b"\x93\x01noise that is no frame\xff",
        "text": b"trailing",
        "one byte": b"\x55",
    }


@once()
def bytes_behind_compressed_content(play):
    content = b"".join(a_raw_record(offset_delta=number) for number in range(3))
    for codec in CODECS:
        frame = compress(codec, content)
        half = compress(codec, content[:11])
        other = compress(codec, content[11:])
        cases = {what: frame + tail for what, tail in tails().items()}
        cases |= {
            "an empty frame": frame + compress(codec, b""),
            "the half frame of another": frame + frame[: len(frame) // 2],
            "its first bytes": frame + frame[:6],
            "records in two frames": half + other,
            "a second frame of noise": frame + compress(codec, b"\x20noise"),
            "a second frame of zeros": frame + compress(codec, bytes(9)),
            "cut off": frame[:-3],
        }
        if codec is CompressionType.GZIP:
            cases["a wrong checksum"] = frame[:-8] + bytes(4) + frame[-4:]
            cases["a wrong length"] = frame[:-4] + bytes(4)
            cases["zlib in the place of gzip"] = zlib.compress(content)
        for what, payload in cases.items():
            topic = play.topic(f"{codec.name.lower()}-{what.replace(' ', '-')}")
            batch = a_batch_of_content(payload, record_count=3, attributes=int(codec))
            produce(play, topic, batch, note=f"{codec.name}: {what}")
            fetch(play, fetch_place(topic), note="what was taken")
