"""The contract between a coordinator and whoever runs it.

    runner                                coordinator
    plan_*(request, ...)            ->    looks at its state, changes nothing
                                    <-    CoordinatorResult(records, reply)
    appends `records` to the log as ONE batch, so that a crash leaves all of them or none
    replay(record) for each         ->    the only place where state changes
    sends `reply`

A restart is the same replay from the log's start, so what a coordinator knows can never differ from what the log says.
When the append fails nothing was replayed, the reply is dropped and the caller hears of the failure instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

Reply = TypeVar("Reply")
Record = TypeVar("Record")
Replayed = TypeVar("Replayed", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorResult(Generic[Record, Reply]):
    """Records to append, in order, and the reply that holds once they are durable. No records: nothing changes."""

    records: tuple[Record, ...] = ()
    reply: Reply


class Replaying(Protocol[Replayed]):
    """State that is a fold over its log's records."""

    def replay(self, record: Replayed) -> None:
        """Changes the state by one committed record. Never fails on a record that `plan_*` produced."""
        ...
