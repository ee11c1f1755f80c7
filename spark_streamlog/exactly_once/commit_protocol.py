"""The interface between the sink and an implementation of exactly-once commits.

    driver   token = driver_side.take_over()                     before the tasks start; pickled to them
    task     task_side.may_write(batch, token)                   False: the batch is committed already
             with task_side.writing():
                 rows ─► task_side.target                        within task_side.transaction, where it has one
                 written = task_side.finish()                    returned to the driver; None: there were no rows
    driver   driver_side.commit(facts, [written, …], driver=token)
        or   driver_side.abandon([written, …], driver=token)     when a task failed

`SinkDriver` and `TaskTransaction` implement it with Kafka's transactions, in directories and at brokers. Each
implementation defines its own token and `written`; the sink pickles them between the driver and its tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from broker_core.topic_producer import BatchTarget, ProducerTransaction

Token = TypeVar("Token")
TokenTaken = TypeVar("TokenTaken", contravariant=True)
Written = TypeVar("Written", covariant=True)
WrittenTaken = TypeVar("WrittenTaken", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFacts:
    """The facts of a commit. `batch` is None for a single write, which is never repeated. `input_fingerprint` is empty
    if the input is unknown."""

    batch: int | None
    task_count: int
    input_fingerprint: str = ""


class DriverSide(Protocol[Token, WrittenTaken]):
    """The driver's side of one sink. All state between the calls is in the log and in the token."""

    def take_over(self) -> Token:
        """Called before the tasks start: from now on older drivers of the sink can do no harm."""
        ...

    def commit(self, facts: BatchFacts, written: Sequence[WrittenTaken], *, driver: Token | None) -> None:
        """All rows of the batch are readable when it returns, and none is before the commit. It is idempotent.

        `driver` is None if planning could not take over. If it raises, no row is readable, unless another driver has
        committed the batch.
        """
        ...

    def abandon(self, written: Sequence[WrittenTaken], *, driver: Token | None) -> None:
        """No row of the batch becomes readable; earlier commits stay."""
        ...


class TaskSide(Protocol[TokenTaken, Written]):
    """The task's side, for one attempt of a task."""

    @property
    def target(self) -> BatchTarget:
        """Where its rows go."""
        ...

    @property
    def transaction(self) -> ProducerTransaction | None:
        """The transaction that the rows are written in."""
        ...

    @property
    def ids(self) -> Mapping[str, object]:
        """The writer's ids, as fields of a log line."""
        ...

    def may_write(self, batch: int | None, driver: TokenTaken | None) -> bool:
        """Called first. False: the batch is already committed, and the task only drains its input."""
        ...

    def writing(self) -> AbstractContextManager[None]:
        """Wraps the writing: if the attempt fails, its rows never become readable."""
        ...

    def finish(self) -> Written | None:
        """Called last within `writing`: all rows are durable. None: there were none."""
        ...
