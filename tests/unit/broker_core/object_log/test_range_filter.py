import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.objects.object_builders import a_range

from broker_core.object_log.range_filter import build_range_filter, filter_denies, filter_problem, filter_span
from broker_core.object_log.stored_batches import seal
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record

maybe_keys = st.lists(st.none() | st.binary(max_size=6), min_size=1, max_size=40)


def a_filtered_range(keys, *, batch_size=7):
    """(range, its batches, the object: something else, the batches, their filter)."""
    batches = bytearray()
    for start in range(0, len(keys), batch_size):
        batches += build_batch([Record(key=key, value=b"v") for key in keys[start : start + batch_size]])
    seal(batches)
    key_filter = build_range_filter(batches, least_bytes=1)
    data = a_range(position=5, size=len(batches), offsets=len(keys), filter_bytes=len(key_filter))
    return data, batches, b"other" + batches + key_filter


def denies(data, stored, key):
    span = filter_span(data, key)
    return filter_denies(data, key, None if span is None else stored[span[0] : sum(span)])


@given(maybe_keys, st.none() | st.binary(max_size=6))
def test_a_range_with_the_key_is_never_excluded(keys, key):
    data, _, stored = a_filtered_range(keys)
    assert not (denies(data, stored, key) and key in keys)


@given(maybe_keys)
def test_a_range_without_the_key_is_excluded(keys):
    data, _, stored = a_filtered_range(keys)
    assert denies(data, stored, b"a longer key")
    assert denies(data, stored, None) == (None not in keys)


def test_records_without_keys_need_no_look_at_the_filter():
    data, _, stored = a_filtered_range([None] * 9)
    assert filter_span(data, b"k") is None and denies(data, stored, b"k")
    assert not denies(data, stored, None)


def test_a_range_without_a_filter_is_never_excluded():
    data = a_range()
    assert (filter_span(data, b"k"), filter_span(data, None)) == (None, None)
    assert not filter_denies(data, b"k", None) and not filter_denies(data, None, None)


def test_a_range_that_is_too_small_gets_none():
    batch = build_batch([Record(key=b"k", value=b"v")])
    seal(batch)
    assert build_range_filter(batch, least_bytes=len(batch) + 1) == b""
    assert build_range_filter(batch, least_bytes=len(batch))


def test_batches_that_cannot_be_decoded_get_none():
    batch = build_batch([Record(key=b"k", value=b"v")])
    batch[-1] ^= 1
    assert build_range_filter(batch, least_bytes=1) == b""


@pytest.mark.parametrize("key", [b"absent", None])
def test_every_flipped_bit_of_what_is_read_leaves_the_range_to_its_reader(key):
    data, batches, stored = a_filtered_range([b"k"])
    position, size = filter_span(data, key)
    assert denies(data, stored, key)
    for place in [*range(position, position + 64), position + size - 1]:
        damaged = bytearray(stored)
        damaged[place] ^= 4
        assert not denies(data, bytes(damaged), key)
        assert filter_problem(data, batches, damaged[5 + len(batches) :]) is not None
    assert not denies(data, stored[: position + size - 1], key)


def test_a_filter_of_other_records_is_found_by_verification():
    data, batches, stored = a_filtered_range([b"a", b"b"])
    assert filter_problem(data, batches, stored[5 + len(batches) :]) is None
    _, _, other = a_filtered_range([b"a", b"c"])
    problem = filter_problem(data, batches, other[5 + len(batches) :])
    assert problem == (0, "the key filter misses an existing key", True)
    longer = a_range(size=len(batches) + 1, filter_bytes=data.filter_bytes)
    assert "not made for this range" in filter_problem(longer, batches, stored[5 + len(batches) :])[1]
