"""The contract between a coordinator and its runner.

    runner                                coordinator
    plan_*(request, ...)            ->    reads its state, changes nothing
                                    <-    CoordinatorResult(records, reply)
    appends `records` to the log as ONE batch, so that a crash leaves all of them or none
    replay(record) for each         ->    the only place where state changes
    sends `reply`

A restart is the same replay from the log's start, so a coordinator's state never differs from its log. If the append
fails, nothing is replayed, the reply is dropped and the caller gets the error instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

Reply = TypeVar("Reply")
Record = TypeVar("Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorResult(Generic[Record, Reply]):
    """Records to append, in order, and the reply that is valid once they are durable. No records: no change."""

    records: tuple[Record, ...] = ()
    reply: Reply
