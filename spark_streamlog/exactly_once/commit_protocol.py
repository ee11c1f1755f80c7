"""What the sink asks of a way to commit exactly-once, so that several ways can stand side by side.

    driver   token = driver_side.take_over()                     before the tasks start; travels to them
    task     task_side.may_write(batch, token)                   False: the batch is committed already
             with task_side.writing():
                 rows ─► task_side.target                        within task_side.transaction, where it has one
                 written = task_side.finish()                    travels to the driver; None: there were no rows
    driver   driver_side.commit(facts, [written, …], driver=token)
        or   driver_side.abandon([written, …], driver=token)     when a task failed

`SinkDriver` and `TaskTransaction` do it by Kafka's transactions, in directories and at brokers. What a token and what
is written are is a matter of each way; the sink carries them, pickled, between the driver and its tasks.
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
    """What is committed. `batch` is None for a single write, which nobody repeats. `input_fingerprint` is empty where
    nothing is known of the input."""

    batch: int | None
    task_count: int
    input_fingerprint: str = ""


class DriverSide(Protocol[Token, WrittenTaken]):
    """Of one sink. What must be remembered between the calls is in the log and in the token."""

    def take_over(self) -> Token:
        """Before the tasks start: older drivers of the sink can do no harm from now on."""
        ...

    def commit(self, facts: BatchFacts, written: Sequence[WrittenTaken], *, driver: Token | None) -> None:
        """All rows of the batch are readable when it returns, and none was before. Repeating it is harmless.

        `driver` is None where planning could not take over. When it raises, no row is readable, unless another driver
        has committed the batch.
        """
        ...

    def abandon(self, written: Sequence[WrittenTaken], *, driver: Token | None) -> None:
        """No row of the batch becomes readable; what is committed stays."""
        ...


class TaskSide(Protocol[TokenTaken, Written]):
    """Of one attempt of a task."""

    @property
    def target(self) -> BatchTarget:
        """Where its rows go."""
        ...

    @property
    def transaction(self) -> ProducerTransaction | None:
        """Whose transaction they are written in."""
        ...

    @property
    def ids(self) -> Mapping[str, object]:
        """Who writes, as fields of a log line."""
        ...

    def may_write(self, batch: int | None, driver: TokenTaken | None) -> bool:
        """Before anything else. False: the batch is committed, the task only drains its input."""
        ...

    def writing(self) -> AbstractContextManager[None]:
        """Around the writing: an attempt that fails takes care that its rows never become readable."""
        ...

    def finish(self) -> Written | None:
        """Last within `writing`: all rows are durable. None: there were none."""
        ...
