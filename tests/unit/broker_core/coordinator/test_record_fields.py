import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial.readers import read_compact_string, read_int16, read_legacy_string, read_unsigned_varint

from broker_core.coordinator.record_fields import (
    MAX_STRING_BYTES,
    FieldReader,
    array_count_bytes,
    compact_string_bytes,
    fits_string,
    string_bytes,
    tagged_fields_bytes,
    unsigned_varint,
    uuid_of,
)
from broker_core.model.exceptions import CorruptBatchError


def reader(hexadecimal):
    return FieldReader(bytes.fromhex(hexadecimal), "record of a test")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


@given(texts)
def test_strings_match_kio(text):
    assert read_legacy_string(string_bytes(text), 0) == (text, len(string_bytes(text)))
    assert read_compact_string(compact_string_bytes(text), 0) == (text, len(compact_string_bytes(text)))


@given(st.integers(0, 2**31 - 1))
def test_numbers_match_kio(number):
    assert read_unsigned_varint(unsigned_varint(number), 0) == (number, len(unsigned_varint(number)))


@pytest.mark.parametrize(
    ("count", "plain", "flexible"),
    [(None, "ffffffff", "00"), (0, "00000000", "01"), (1, "00000001", "02"), (200, "000000c8", "c901")],
)
def test_array_counts_round_trip(count, plain, flexible):
    for is_flexible, written in ((False, plain), (True, flexible)):
        assert array_count_bytes(count, is_flexible=is_flexible).hex() == written
        body = reader(written + "00" * (count or 0))
        assert body.take_count(is_flexible=is_flexible, item_bytes=1) == count


@pytest.mark.parametrize(("is_flexible", "count"), [(False, "00000003"), (True, "04")])
def test_a_count_is_checked_against_the_remaining_bytes(is_flexible, count):
    assert reader(count + "00" * 6).take_count(is_flexible=is_flexible, item_bytes=2) == 3
    with pytest.raises(CorruptBatchError, match="claims 3 items of 2 bytes or more"):
        reader(count + "00" * 5).take_count(is_flexible=is_flexible, item_bytes=2)


def test_tagged_fields_are_in_ascending_order():
    written = tagged_fields_bytes({200: b"", 0: b"\1\2"})
    assert written.hex() == "02" "0002" "0102" "c80100"  # fmt: skip
    assert FieldReader(written, "x").take_tagged_fields() == {0: b"\1\2", 200: b""}
    assert tagged_fields_bytes({}) == b"\0"


@pytest.mark.parametrize("written", ["0100ff7f", "010002aa", "01", "0100", "ffffffff0f"])
def test_a_tagged_field_that_does_not_fit_is_corrupt(written):
    with pytest.raises(CorruptBatchError):
        reader(written).take_tagged_fields()


def test_fixed_fields_are_read_together_or_not_at_all():
    form = struct.Struct(">qh")
    body = reader("0000000000000005" "fffe" "07")  # fmt: skip
    assert body.take_fixed(form) == (5, -2)
    with pytest.raises(CorruptBatchError, match="record of a test of 11 bytes, at byte 10: breaks off where 10 more"):
        body.take_fixed(form)
    assert body.rest() == b"\7"


@pytest.mark.parametrize("written", ["", "00"])
def test_a_truncated_field_is_corrupt(written):
    with pytest.raises(CorruptBatchError, match="at byte 0: ends too early"):
        reader(written).take(read_int16)


@pytest.mark.parametrize("written", ["0002ff41", "ffff", "00024100"])
def test_invalid_strings_are_corrupt(written):
    body = reader(written)
    if written == "00024100":
        assert body.take_string(is_flexible=False) == "A\0"
    else:
        with pytest.raises(CorruptBatchError):
            body.take_string(is_flexible=False)


def test_a_string_fits_up_to_its_limit():
    for text in ("x" * MAX_STRING_BYTES, "ü" * (MAX_STRING_BYTES // 2)):
        assert fits_string(text)
        assert read_legacy_string(string_bytes(text), 0)[0] == text
    assert not fits_string("x" * (MAX_STRING_BYTES + 1))
    assert not fits_string("ü" * (MAX_STRING_BYTES // 2 + 1))
    assert not fits_string("\udc80")


def test_the_zero_id_decodes_as_none():
    assert uuid_of(bytes(16)) is None
    assert uuid_of(bytes(15) + b"\1") == UUID(int=1)
