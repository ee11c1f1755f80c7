import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.runs.examples import examples

from broker_core.model.exceptions import MalformedMessageError
from broker_core.protocol.frame import SCRATCH_BYTES, TRUSTED_BYTES, FrameReader, framed


def stream_of(contents):
    return b"".join(bytes(part) for content in contents for part in framed([content]))


def all_frames(reader):
    return [bytes(frame) for frame in iter(reader.next_frame, None)]


@given(st.lists(st.binary(max_size=50), max_size=5), st.lists(st.integers(1, 7), min_size=1, max_size=50))
def test_frames_are_whole_with_any_fragmentation_of_the_stream(contents, lengths):
    stream, reader, found = stream_of(contents), FrameReader(max_frame_bytes=50), []
    while stream:
        for length in lengths:
            reader.receive_data(stream[:length])
            stream = stream[length:]
            found += all_frames(reader)
    assert found == contents


@examples(40)
@given(st.lists(st.integers(0, 3 * SCRATCH_BYTES), max_size=4), st.integers(1000, 2 * SCRATCH_BYTES))
def test_frames_received_in_place_are_equal(sizes, largest_receive):
    contents = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    stream, reader, found = stream_of(contents), FrameReader(max_frame_bytes=3 * SCRATCH_BYTES), []
    while stream:
        target = reader.buffer_to_fill()
        count = min(len(target), len(stream), largest_receive)
        assert count > 0
        target[:count] = stream[:count]
        reader.bytes_received(count)
        stream = stream[count:]
        found += all_frames(reader)
    assert found == contents


def test_a_large_frame_is_received_in_place():
    reader = FrameReader(max_frame_bytes=TRUSTED_BYTES)
    reader.receive_data(struct.pack(">i", TRUSTED_BYTES))
    target = reader.buffer_to_fill()
    assert len(target) == TRUSTED_BYTES
    target[:] = b"x" * TRUSTED_BYTES
    reader.bytes_received(TRUSTED_BYTES)
    frame = reader.next_frame()
    assert bytes(frame) == b"x" * TRUSTED_BYTES
    assert not frame.readonly


@pytest.mark.parametrize("size", [-1, -(2**31), 101, 2**31 - 1])
def test_a_size_out_of_bounds_is_refused_before_the_frame_arrives(size):
    reader = FrameReader(max_frame_bytes=100)
    reader.receive_data(struct.pack(">i", size))
    with pytest.raises(
        MalformedMessageError, match=f"a message of {size} bytes was announced, but at most 100 are allowed"
    ):
        reader.next_frame()


@examples(40)
@given(st.lists(st.binary(max_size=20), max_size=4), st.lists(st.integers(1, 9), min_size=1), st.booleans())
def test_whole_frames_before_an_invalid_size_are_returned_and_none_after_it(contents, lengths, in_place):
    stream, reader = stream_of(contents) + struct.pack(">i", -1) + stream_of([b"lost"]), FrameReader(max_frame_bytes=20)
    for number in range(len(stream)):
        piece, stream = stream[: lengths[number % len(lengths)]], stream[lengths[number % len(lengths)] :]
        if in_place:
            reader.buffer_to_fill()[: len(piece)] = piece
            reader.bytes_received(len(piece))
        else:
            reader.receive_data(piece)
    assert [bytes(reader.next_frame()) for _ in contents] == contents
    for _ in range(2):
        with pytest.raises(MalformedMessageError, match="-1 bytes"):
            reader.next_frame()


def test_the_bound_is_allowed_and_can_be_raised():
    reader = FrameReader(max_frame_bytes=100)
    reader.receive_data(struct.pack(">i", 100) + bytes(100))
    assert len(reader.next_frame()) == 100
    reader.max_frame_bytes = 101
    reader.receive_data(struct.pack(">i", 101) + bytes(101))
    assert len(reader.next_frame()) == 101


@pytest.mark.parametrize(
    ("answer", "said"), [(b"HTTP/1.1 400", "HTTP response"), (b"\x15\x03\x03\x00\x02", "security.protocol")]
)
def test_the_error_names_the_other_protocol(answer, said):
    reader = FrameReader(max_frame_bytes=2**20)
    reader.receive_data(answer)
    with pytest.raises(MalformedMessageError, match=said):
        reader.next_frame()


def test_empty_and_truncated_frames_are_handled():
    reader = FrameReader(max_frame_bytes=10)
    reader.receive_data(bytes(4))
    assert bytes(reader.next_frame()) == b""
    reader.receive_data(b"\0\0")
    assert reader.next_frame() is None
    reader.receive_data(b"\0\1x")
    assert bytes(reader.next_frame()) == b"x"


def test_memory_grows_with_the_received_bytes():
    size = 64 * TRUSTED_BYTES
    reader = FrameReader(max_frame_bytes=size)
    tracemalloc.start()
    reader.receive_data(size.to_bytes(4, "big") + b"x")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * TRUSTED_BYTES


@pytest.mark.parametrize("more", [-1, 0, 1, TRUSTED_BYTES, 3 * TRUSTED_BYTES + 5])
def test_a_frame_whose_buffer_grew_is_whole(more):
    frame = bytes(range(256)) * ((TRUSTED_BYTES + more) // 256 + 1)
    in_pieces, in_place = (FrameReader(max_frame_bytes=2 * len(frame)) for _ in range(2))
    data = len(frame).to_bytes(4, "big") + frame + b"\0\0\0\1z"
    for at in range(0, len(data), 300_001):
        in_pieces.receive_data(data[at : at + 300_001])
    while data:
        space = in_place.buffer_to_fill()
        count = min(len(space), len(data))
        space[:count] = data[:count]
        in_place.bytes_received(count)
        data = data[count:]
    for reader in (in_pieces, in_place):
        assert bytes(reader.next_frame()) == frame
        assert bytes(reader.next_frame()) == b"z"
