"""Whatever bytes arrive, a node answers or closes that connection. No other client is affected."""

from __future__ import annotations

import logging
import random
import tracemalloc

import pytest
from fuzz.wire_node import MAX_FRAME_BYTES, WireNode
from fuzz.wire_requests import Dice, draw_request, frame_of, mutated, with_size
from support.builders.builders import a_batch
from support.nodes.whole_node import fetch, produce

from broker_core.model.identifiers import CompressionType
from broker_core.protocol.api_table import ApiKey, versions_with_schemas
from broker_core.protocol.served_versions import SERVED_VERSIONS
from broker_core.record.batch_header import HEADER_BYTES, write_crc
from broker_core.record.compression import compress

EVERY = [
    (key, version)
    for key, served in SERVED_VERSIONS.items()
    for version in served
    if version in versions_with_schemas(key)
]
LONGEST_WAIT_MS = 3_600_000
GROWTH_BYTES = 8 * 2**20
"""What the memory of a node may hold more than before, after requests that change next to nothing."""


@pytest.fixture(scope="module")
def wire(tmp_path_factory):
    return WireNode(tmp_path_factory.mktemp("wire") / "log")


@pytest.fixture(autouse=True)
def nothing_unexpected(wire, caplog):
    """No unexpected exception; a good client finds its records, and only those."""
    before = fetch(wire.node, "good").high_watermark
    with caplog.at_level(logging.WARNING):
        yield
    unexpected = [record for record in caplog.records if record.exc_info]
    assert not unexpected, unexpected[0].getMessage() + str(unexpected[0].exc_info)
    produce(wire.node, "good", a_batch(1))
    assert fetch(wire.node, "good").high_watermark == before + 1


def dice_of(wire, *seed):
    return Dice(random.Random(repr(seed)), topic_ids=wire.topic_ids)


def seeds(short, long):
    return [*range(short), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(short, long))]


@pytest.mark.parametrize("seed", seeds(2, 60))
def test_every_valid_request_is_answered_or_closes_the_connection(wire, seed):
    for key, version in EVERY:
        dice = dice_of(wire, seed, key, version)
        connection = wire.connect()
        connection.send(with_size(frame_of(draw_request(dice, key, version))))
        if connection.end is None and not connection.answers:
            wire.pass_time(LONGEST_WAIT_MS)
        assert connection.end is not None or len(connection.answers) == 1, (seed, key.label, version)


@pytest.mark.parametrize("seed", seeds(4, 200))
def test_a_malformed_request_is_answered_or_closes_the_connection(wire, seed):
    for key, version in EVERY:
        dice = dice_of(wire, "broken", seed, key, version)
        connection = wire.connect()
        connection.send(with_size(mutated(dice, frame_of(draw_request(dice, key, version)), first=8)))
        wire.pass_time(1)
        assert connection.end is not None or connection.asked_count == 1, (seed, key.label, version)
    wire.pass_time(LONGEST_WAIT_MS)


@pytest.mark.parametrize("key", SERVED_VERSIONS)
def test_a_request_truncated_anywhere_does_no_harm(wire, key):
    """As a frame of that size, and as a stream that goes no further."""
    for version in {SERVED_VERSIONS[key][-1], versions_with_schemas(key)[0]} & set(versions_with_schemas(key)):
        dice = dice_of(wire, "ends", key, version)
        frame = frame_of(draw_request(dice, key, version))
        for size in range(min(len(frame), 400)):
            connection = wire.connect()
            connection.send(with_size(frame[:size]))
            assert connection.end is not None or connection.asked_count == 1, (key.label, version, size)
        half = wire.connect()
        for at in range(len(frame) + 3):
            half.send(with_size(frame)[at : at + 1])
        assert (half.end, half.asked_count, half.answers) == (None, 0, [])


@pytest.mark.parametrize("seed", seeds(1, 50))
def test_random_bytes_close_the_connection(wire, seed):
    dice = dice_of(wire, "noise", seed)
    for _ in range(500):
        connection = wire.connect()
        noise = dice.random.randbytes(dice.random.randrange(1, 300))
        if dice.chance(0.7):
            key, version = dice.random.choice(EVERY)
            noise = with_size(key.to_bytes(2, "big") + version.to_bytes(2, "big") + noise)
        connection.send(noise)
        assert connection.end is not None or connection.asked_count <= 1
    wire.pass_time(1)


@pytest.mark.parametrize("size", [-1, -(2**31), MAX_FRAME_BYTES + 1, 2**31 - 1])
def test_an_invalid_size_closes_the_connection_before_allocating(wire, size):
    connection = wire.connect()
    tracemalloc.start()
    connection.send(size.to_bytes(4, "big", signed=True))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert connection.end is not None
    assert peak < 100_000


def test_false_counts_allocate_nothing(wire):
    """Every four bytes of every request in turn become the largest count."""
    tracemalloc.start()
    worst = (0, None)
    for key, served in SERVED_VERSIONS.items():
        frame = frame_of(draw_request(dice_of(wire, "lies", key), key, served[-1]))[:200]
        for at in range(8, len(frame), 2):
            for lie in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07"):
                tracemalloc.reset_peak()
                before, _ = tracemalloc.get_traced_memory()
                wire.connect().send(with_size(frame[:at] + lie + frame[at + len(lie) :]))
                _, peak = tracemalloc.get_traced_memory()
                worst = max(worst, (peak - before, f"{key.label} at {at}"))
    tracemalloc.stop()
    assert worst[0] < GROWTH_BYTES, worst


def test_fragmented_requests_interleave_with_those_of_other_connections(wire):
    dice = dice_of(wire, "pieces")
    streams = []
    for _ in range(40):
        chosen = [dice.random.choice(EVERY) for _ in range(5)]
        data = b"".join(
            with_size(frame_of(draw_request(dice, *one)))
            for one in chosen
            if one[0] is ApiKey.API_VERSIONS or one[0] is ApiKey.METADATA
        )
        streams.append([wire.connect(), data])
    while any(data for _, data in streams):
        stream = dice.random.choice([stream for stream in streams if stream[1]])
        size = dice.random.randrange(1, 30)
        stream[0].send(stream[1][:size])
        stream[1] = stream[1][size:]
    assert all(
        connection.end is not None or len(connection.answers) == connection.asked_count for connection, _ in streams
    )


def bomb(codec, inflated_bytes):
    """A batch of a few records that inflates to so many zeros."""
    header = bytearray(a_batch(3, compression=codec)[:HEADER_BYTES])
    batch = header + compress(codec, bytes(inflated_bytes), None)
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    write_crc(batch, 0)
    return batch


@pytest.mark.parametrize(
    "codec", [CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4, CompressionType.ZSTD]
)
def test_a_decompression_bomb_is_refused(wire, codec):
    before = fetch(wire.node, "t").high_watermark
    for inflated_bytes in (0, 1, 16 * 2**20):
        answer = produce(wire.node, "t", bomb(codec, inflated_bytes))
        assert answer.error_code.value != 0
    assert fetch(wire.node, "t").high_watermark == before


@pytest.mark.parametrize("rounds", [3, pytest.param(60, marks=pytest.mark.long)])
def test_refused_requests_do_not_grow_memory(wire, rounds):
    def send_all(number):
        for key, version in EVERY:
            frame = frame_of(draw_request(dice_of(wire, "grows", 0, key, version), key, version))
            wire.connect().send(with_size(frame[: 8 + number % max(1, len(frame) - 8)]))
        wire.pass_time(LONGEST_WAIT_MS)

    send_all(0)
    tracemalloc.start()
    for number in range(rounds):
        send_all(number)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < GROWTH_BYTES
