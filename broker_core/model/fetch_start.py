"""Where a fetch begins that is one of several in a request."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchStart:
    """In one partition; `topic_id`: the offsets are those of this topic."""

    from_offset: int
    topic_id: UUID
