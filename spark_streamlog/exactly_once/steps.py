"""Every point of the protocol at which a process may die, each with a log line that has its ids as fields.

    logging.getLogger("spark_streamlog.exactly_once")

Decisions, aborts and fencings are logged at INFO, the points in between at DEBUG. A record has `step`, a Step, and
`ids`, a dict: a handler can follow the protocol, or end the process at a step, without a hook in the code.
"""

from __future__ import annotations

import enum
import logging

logger = logging.getLogger("spark_streamlog.exactly_once")


class Step(enum.Enum):
    """In the order in which a batch reaches them. Each description is true when the line is written."""

    # -- the driver plans --
    PLANNING = "planning"
    """Nothing is done yet."""
    TAKEN_OVER = "taken over"
    """Older drivers are fenced; what their tasks left open is still open."""
    PLANNED = "planned"
    """Nothing of an earlier run is open any more."""

    # -- a task --
    TASK_STARTED = "task started"
    """Nothing is checked yet."""
    TASK_SKIPS = "task skips"
    """The batch is decided already: the task writes nothing."""
    TASK_MAY_WRITE = "task may write"
    """The batch is not decided; nothing is open."""
    TASK_INITIALISED = "task initialised"
    """The task has its producer id; an earlier transaction under its transactional id is ended."""
    PARTITIONS_ADDED = "partitions added"
    """The transaction is open; the partitions of this round hold nothing of the round yet."""
    TASK_APPENDED = "task appended"
    """One round of rows is in the log, in an open transaction."""
    TASK_FLUSHED = "task flushed"
    """All rows of the task are durable in its open transaction; the driver does not know yet."""
    TASK_GAVE_UP = "task gave up"
    """The task failed and has aborted its own transaction."""

    # -- the driver commits --
    COMMITTING = "committing"
    """All tasks have returned; nothing is decided."""
    DECISION_WRITTEN = "decision written"
    """The decision is in the log, in the driver's open transaction."""
    DECIDED = "decided"
    """All transactions of the batch are committed."""
    COMMITTED = "committed"
    """Leftovers are ended too. Spark has not logged the commit yet."""
    ALREADY_DECIDED = "already decided"
    """A repeated batch: its decision was found, nothing new is committed."""

    # -- the driver aborts --
    ABORTING = "aborting"
    ABORTED = "aborted"
    """The open transactions of the batch are ended."""

    # -- at any time --
    DECIDED_ENDED = "decided transaction ended"
    """A dead driver had decided the transaction and not committed it yet (at brokers)."""
    LEFTOVER_ENDED = "leftover ended"
    """A transaction that would otherwise have stayed open until its timeout."""
    FENCED = "fenced"
    """A newer driver or attempt has taken over, or the transaction was ended from outside."""


_AT_INFO = frozenset(
    {Step.DECIDED, Step.ALREADY_DECIDED, Step.ABORTED, Step.DECIDED_ENDED, Step.LEFTOVER_ENDED, Step.FENCED}
)


def log_step(step: Step, **ids: object) -> None:
    level = logging.INFO if step in _AT_INFO else logging.DEBUG
    if logger.isEnabledFor(level):
        fields = " ".join(f"{name}={value}" for name, value in ids.items())
        logger.log(level, "%s: %s", step.value, fields, extra={"step": step, "ids": ids})
