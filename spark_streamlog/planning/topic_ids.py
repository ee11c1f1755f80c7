"""The topics that a vector of offsets belongs to. The checkpoint's JSON has topic names and offsets; a topic that was
deleted and recreated has the same name and another id.

    vectors       the ends that Spark logged, or may log: each by its digest, with the topic ids of that time

An unknown vector proves nothing: it may be older than this memory. Ids are written with Kafka's 22 characters.
"""

from __future__ import annotations

import hashlib
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from spark_streamlog.planning.stream_offset import StreamOffset, to_checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorTopics:
    """A vector of offsets, and the ids of its topics."""

    offsets: StreamOffset
    topic_ids: Mapping[str, UUID]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTopics:
    """The topics that a vector of offsets belongs to. `ids` of the topics in `unknown` are only assumed."""

    ids: Mapping[str, UUID] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()

    @classmethod
    def all_of(cls, topic_ids: Mapping[str, UUID]) -> KnownTopics:
        return cls(ids=topic_ids)

    @property
    def known_ids(self) -> Mapping[str, UUID]:
        return {topic: topic_id for topic, topic_id in self.ids.items() if topic not in self.unknown}

    def is_unknown(self, topic: str) -> bool:
        return topic in self.unknown or topic not in self.ids

    def or_now(self, ids_now: Mapping[str, UUID]) -> KnownTopics:
        """Unknown ids are assumed to be the current ones."""
        return KnownTopics(ids={**ids_now, **self.ids}, unknown=self.unknown | (ids_now.keys() - self.ids.keys()))

    def changed_to(self, other_ids: Mapping[str, UUID]) -> dict[str, tuple[UUID, UUID]]:
        """Topics whose id differs in the other one: the old id and the new id."""
        return {
            topic: (self.ids[topic], other_ids[topic])
            for topic in self.ids.keys() & other_ids.keys()
            if self.ids[topic] != other_ids[topic]
        }


def digest_of(offsets: StreamOffset, target: str) -> str:
    """`target` names the log: two sources of one query may have the same offsets in the same names."""
    text = json.dumps([target, to_checkpoint(offsets)], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def to_document(vectors: Iterable[tuple[str, Mapping[str, UUID]]]) -> dict[str, Any]:
    """For JSON: each set of ids once, and the digests in their order."""
    sets: list[dict[str, str]] = []
    by_digest: dict[str, int] = {}
    for digest, topic_ids in vectors:
        names = {topic: _text_of(topic_ids[topic]) for topic in sorted(topic_ids)}
        if names not in sets:
            sets.append(names)
        by_digest[digest] = sets.index(names)
    return {"ids": sets, "vectors": by_digest}


def from_document(document: Any) -> dict[str, dict[str, UUID]]:
    """The reverse. Raises ValueError for anything else."""
    try:
        sets = [{str(topic): _id_of(text) for topic, text in one.items()} for one in document["ids"]]
        return {str(digest): sets[number] for digest, number in document["vectors"].items()}
    except (TypeError, LookupError, AttributeError) as error:
        raise ValueError(f"this is not a stored list of topic ids: {error!r}") from error


def _text_of(topic_id: UUID) -> str:
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def _id_of(text: str) -> UUID:
    return UUID(bytes=urlsafe_b64decode(text + "=="))
