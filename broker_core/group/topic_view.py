"""The topics as the groups of a coordinator see them: ids, partition counts, and a hash of both.

The view changes only by `refresh`, so each decision of a group sees one state of the metadata. The coordinators of a
node share one.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

_INT64: Final = struct.Struct(">q")
_INT32: Final = struct.Struct(">i")


class TopicFacts(NamedTuple):
    topic_id: UUID
    partition_count: int


class TopicView:
    """`source` returns all topics by name, at any time."""

    def __init__(self, source: Callable[[], Mapping[str, TopicFacts]]) -> None:
        self._source = source
        self._facts: dict[str, TopicFacts] = {}
        self._names: dict[UUID, str] = {}
        self.version = 0
        """Grows with each change."""
        self.grown_in = 0
        """The newest version that has a topic which the one before did not have."""
        self.refresh()

    def refresh(self) -> bool:
        """Takes the current topics; returns whether something has changed."""
        facts = dict(self._source())
        if facts == self._facts:
            return False
        names = {each.topic_id: name for name, each in facts.items()}
        self.version += 1
        if names.keys() - self._names.keys():
            self.grown_in = self.version
        self._facts, self._names = facts, names
        return True

    @property
    def facts(self) -> Mapping[str, TopicFacts]:
        """Of all topics, by name: the same object until they change."""
        return self._facts

    def names(self) -> Iterable[str]:
        return self._facts.keys()

    def ids_of(self, names: Iterable[str]) -> frozenset[UUID]:
        """Only of existing topics."""
        return frozenset(self._facts[name].topic_id for name in names if name in self._facts)

    def name_of(self, topic_id: UUID) -> str | None:
        return self._names.get(topic_id)

    def id_of(self, name: str) -> UUID | None:
        facts = self._facts.get(name)
        return None if facts is None else facts.topic_id

    def partition_counts(self, topic_ids: Iterable[UUID]) -> dict[UUID, int]:
        """Only of existing topics."""
        return {topic_id: self._facts[self._names[topic_id]].partition_count for topic_id in topic_ids}

    def hash_of(self, names: Iterable[str]) -> int:
        """Changes when one of the topics is created, deleted, recreated or extended. 0 if none of them exists.

        It is compared only within one group, so the function need not be Kafka's: a group that comes from a Kafka is
        assigned once more, with the same result if nothing changed.
        """
        there = sorted(name for name in names if name in self._facts)
        if not there:
            return 0
        hasher = hashlib.blake2b(digest_size=8)
        for name in there:
            facts = self._facts[name]
            content = name.encode()
            hasher.update(_INT32.pack(len(content)) + content)
            hasher.update(facts.topic_id.bytes + _INT32.pack(facts.partition_count))
        number: int = _INT64.unpack(hasher.digest())[0]
        return number
