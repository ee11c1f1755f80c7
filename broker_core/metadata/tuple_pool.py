"""Tuples as small numbers: replica lists and directories repeat over thousands of partitions, so each is kept once."""

from __future__ import annotations

from array import array
from typing import Any

EMPTY_TUPLE = 0
"""The number of the empty tuple, which every pool has for ever."""


class TuplePool:
    """Counts its users: an unused tuple is dropped, and its number is reused."""

    def __init__(self) -> None:
        self._tuples: list[tuple[Any, ...]] = [()]
        self._use_counts = array("i", [1])
        self._numbers: dict[tuple[Any, ...], int] = {(): EMPTY_TUPLE}
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, number: int) -> tuple[Any, ...]:
        return self._tuples[number]

    def acquire(self, items: tuple[Any, ...]) -> int:
        """The number of the tuple, with one user more."""
        number = self._numbers.get(items)
        if number is None:
            number = self._place(items)
        self._use_counts[number] += 1
        return number

    def release(self, number: int) -> None:
        """One user less."""
        self._use_counts[number] -= 1
        assert self._use_counts[number] >= 0, f"tuple {number} was released more often than acquired"
        if not self._use_counts[number]:
            del self._numbers[self._tuples[number]]
            self._tuples[number] = ()
            self._free.append(number)

    def copy(self) -> TuplePool:
        other = TuplePool()
        other._tuples, other._use_counts = self._tuples[:], self._use_counts[:]
        other._numbers, other._free = self._numbers.copy(), self._free[:]
        return other

    def _place(self, items: tuple[Any, ...]) -> int:
        if self._free:
            number = self._free.pop()
            self._tuples[number] = items
        else:
            number = len(self._tuples)
            self._tuples.append(items)
            self._use_counts.append(0)
        self._numbers[items] = number
        return number
