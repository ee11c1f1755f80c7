import pytest

from broker_core.coordinator.key_partition import java_hash, key_partition


@pytest.mark.parametrize(
    ("text", "number"),
    # What Java's String.hashCode is known to give, a surrogate pair among them.
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(2**31)), ("😀", 1772899)],
)
def test_a_key_is_hashed_as_in_java(text, number):
    assert java_hash(text) == number


def test_the_partition_of_a_negative_hash_is_taken_of_its_lower_bits():
    # -2**31 & 0x7fffffff is 0; 99162322 % 50 is 22
    assert [key_partition(key, 50) for key in ("polygenelubricants", "hello")] == [0, 22]
