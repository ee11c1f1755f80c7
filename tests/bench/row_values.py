"""The values that benches write and look for: numbered, so that every reader can say whether each came once.

A value is the number as text of twelve digits, filled with x to the size that is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_NUMBER = 10**11
DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTally:
    """What a reader counted; `numbers` is the sum of the numbers."""

    count: int
    value_bytes: int
    numbers: int


def value_of(number: int, size: int) -> bytes:
    """`size` below twelve keeps the last digits."""
    digits = b"%d" % (FIRST_NUMBER + number)
    return (digits + b"x" * (size - DIGITS)) if size >= DIGITS else digits[-size:]


def expected_tally(count: int, size: int) -> ReadTally:
    """Of the values 0 to count - 1, by arithmetic."""
    return ReadTally(count=count, value_bytes=count * size, numbers=count * (count - 1) // 2)


def tally_of(values: list[bytes]) -> ReadTally:
    """Of values of at least twelve bytes."""
    return ReadTally(
        count=len(values),
        value_bytes=sum(map(len, values)),
        numbers=sum(int(value[:DIGITS]) for value in values) - FIRST_NUMBER * len(values),
    )


def check_tally(found: ReadTally, expected: ReadTally, what: str) -> None:
    """Raises AssertionError: a rate of wrong results is no rate."""
    assert found == expected, f"{what}: found {found}, expected {expected}"
