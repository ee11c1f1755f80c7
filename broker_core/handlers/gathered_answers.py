"""Collects an answer for each item of a request; the whole answer is sent with the last of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class GatheredAnswers(Generic[Key]):
    """`respond` gets the answers by key, in the order of the keys; at once if there are no keys."""

    def __init__(self, keys: Iterable[Key], respond: Callable[[Mapping[Key, dict[str, Any]]], None]) -> None:
        self._answers: dict[Key, dict[str, Any] | None] = dict.fromkeys(keys)
        self._left = len(self._answers)
        self._respond = respond
        if not self._left:
            respond({})

    def add(self, key: Key, answer: dict[str, Any]) -> None:
        """Once for each key."""
        assert self._answers[key] is None, f"{key!r} was answered twice"
        self._answers[key] = answer
        self._left -= 1
        if not self._left:
            self._respond({each: given for each, given in self._answers.items() if given is not None})
