import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.log.offset_map import OffsetMap

DIGEST_KEY = bytes(range(16))


def a_map(keys: int = 100) -> OffsetMap:
    return OffsetMap(memory_bytes=24 * keys * 2, digest_key=DIGEST_KEY, load_factor=0.5)


@given(st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 2**63 - 1)), max_size=90))
def test_the_map_returns_the_last_offset_of_every_key(puts):
    table = a_map()
    for key, offset in puts:
        assert table.put(key, offset)
    newest = dict(puts)
    assert len(table) == len(newest)
    assert {key: table.get(key) for key in newest} == newest
    assert table.get(b"none of them") == -1


def test_a_full_map_refuses_new_keys_and_accepts_known_ones():
    table = a_map(keys=3)
    assert table.capacity == 3
    assert all(table.put(bytes([key]), key) for key in range(3))
    assert not table.put(b"new", 9)
    assert table.get(b"new") == -1
    assert table.put(b"\0", 10) and table.get(b"\0") == 10


def test_an_empty_key_is_a_key_and_differs_from_null():
    table = a_map()
    table.put(b"", 4)
    assert table.get(b"") == 4


def test_digests_depend_on_the_digest_key_to_prevent_prepared_collisions():
    ours, theirs = a_map(), OffsetMap(memory_bytes=4800, digest_key=bytes(16), load_factor=0.5)
    assert ours._digest(b"key") != theirs._digest(b"key")


def test_too_little_memory_or_too_short_a_digest_key_is_refused():
    with pytest.raises(ValueError, match="too few"):
        OffsetMap(memory_bytes=24, digest_key=DIGEST_KEY)
    with pytest.raises(ValueError, match="random bytes"):
        OffsetMap(memory_bytes=2400, digest_key=b"short")
