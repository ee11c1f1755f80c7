"""The last decided batch, as stored in the log: a committed offset of the sink's group.

    offset      the batch: a micro-batch's id, or txnVersion
    metadata    JSON, to repeat, finish or check the decision:
                  driver     [producer id, epoch] of the driver that decided
                  tasks      how many tasks the batch had
                  attempts   {task: attempt} of those whose transaction is not that of attempt 0; in a directory, where
                             it is not needed, missing if the text would not fit
                  input      fingerprint of the input's offsets, where the driver could read them
                and at brokers, so that another driver can finish the decision of a dead one:
                  turn       1 where the tasks' transactional ids are those of every second batch
                  idle       tasks that wrote nothing and have no transaction, as 0-3,7
                  epochs     producer epochs of the other tasks' transactions in order, as 4*2,7 for 4, 4, 7

If the metadata is not ours (an offset was committed by hand), only the offset is used.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from broker_core.cluster import Cluster, GroupOffset, TransactionalProducer
from broker_core.model.identifiers import ProducerIdAndEpoch
from broker_core.model.limits import MAX_OFFSET_METADATA_BYTES
from spark_streamlog.exactly_once.sink_identity import DECISION_PARTITION, SinkIdentity
from spark_streamlog.sink_conditions import sink_error

_MAX_TASK_COUNT = 1_000_000
"""Per batch. No job of Spark has so many tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`batch` is decided, and so is every earlier one. `input_fingerprint` is empty if the input is unknown."""

    batch: int
    decided_by: ProducerIdAndEpoch | None = None
    task_count: int = 0
    attempts: Mapping[int, int] = field(default_factory=dict)
    turn: int = 0
    idle_tasks: frozenset[int] = frozenset()
    epochs: tuple[int, ...] = ()
    input_fingerprint: str = ""

    def is_by(self, driver: TransactionalProducer) -> bool:
        return self.decided_by == ProducerIdAndEpoch(
            producer_id=driver.producer_id, producer_epoch=driver.producer_epoch
        )

    def transactions(self, identity: SinkIdentity) -> dict[str, int]:
        """The tasks' decided transactions: producer epochs by transactional id. Empty in a directory."""
        tasks = (task for task in range(self.task_count) if task not in self.idle_tasks)
        return {
            identity.task_id(task, self.attempts.get(task, 0), self.turn): epoch
            for task, epoch in zip(tasks, self.epochs, strict=False)
        }


def last_decision(cluster: Cluster, identity: SinkIdentity) -> Decision | None:
    """None: nothing was ever decided, or the sink stores no decision (a single write)."""
    if identity.decision_group is None:
        return None
    committed = cluster.fetch_offsets(identity.decision_group, [DECISION_PARTITION]).get(DECISION_PARTITION)
    return None if committed is None else decode_decision(committed)


def find_decision(
    cluster: Cluster, identity: SinkIdentity, batch: int, *, input_fingerprint: str = ""
) -> Decision | None:
    """The decision that covers this batch: then it must not be written. None: the batch must be written.

    Raises STREAMLOG_BATCH_NOT_NEXT if a query's batch is before the last decided one, or is decided with another input:
    its checkpoint is not the one that the log knows, and neither writing nor skipping would be right.
    """
    decided = last_decision(cluster, identity)
    if decided is None or decided.batch < batch:
        return None
    if identity.batches_come_in_order:
        refuse_another_history(identity, decided, batch, input_fingerprint)
    return decided


def next_turn(cluster: Cluster, identity: SinkIdentity) -> int:
    """The turn of the batch after the last decided one."""
    if cluster.ends_together:
        return 0
    decided = last_decision(cluster, identity)
    return 0 if decided is None else 1 - decided.turn


def encode_decision(decision: Decision) -> GroupOffset:
    """Raises STREAMLOG_TOO_MANY_TASKS if other drivers need all of it and it does not fit."""
    document: dict[str, object] = {"tasks": decision.task_count}
    if decision.decided_by is not None:
        document["driver"] = [decision.decided_by.producer_id, decision.decided_by.producer_epoch]
    if decision.input_fingerprint:
        document["input"] = decision.input_fingerprint
    if decision.epochs:
        document |= {
            "turn": decision.turn,
            "idle": _ranges_text(decision.idle_tasks),
            "epochs": _runs_text(decision.epochs),
        }
    retried = {str(task): attempt for task, attempt in sorted(decision.attempts.items()) if attempt}
    metadata = _compact({**document, "attempts": retried} if retried else document)
    if len(metadata.encode()) > MAX_OFFSET_METADATA_BYTES:
        if decision.epochs:
            raise sink_error("STREAMLOG_TOO_MANY_TASKS", batch=decision.batch, task_count=decision.task_count)
        metadata = _compact(document)
    return GroupOffset(offset=decision.batch, metadata=metadata)


def decode_decision(committed: GroupOffset) -> Decision:
    try:
        document = json.loads(committed.metadata)
        driver = document.get("driver")
        return Decision(
            batch=committed.offset,
            decided_by=driver and ProducerIdAndEpoch(producer_id=int(driver[0]), producer_epoch=int(driver[1])),
            task_count=int(document["tasks"]),
            attempts={int(task): int(attempt) for task, attempt in document.get("attempts", {}).items()},
            turn=int(bool(document.get("turn", 0))),
            idle_tasks=frozenset(_numbers_in_ranges(document.get("idle", ""))),
            epochs=tuple(_numbers_in_runs(document.get("epochs", ""))),
            input_fingerprint=str(document.get("input", "")),
        )
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        return Decision(batch=committed.offset)


def refuse_another_history(identity: SinkIdentity, decided: Decision, batch: int, input_fingerprint: str) -> None:
    """`decided` covers `batch`. Raises STREAMLOG_BATCH_NOT_NEXT where it is a later batch, or has another input."""
    if decided.batch > batch:
        reason = f"batch {decided.batch} is already decided"
    elif input_fingerprint and decided.input_fingerprint and input_fingerprint != decided.input_fingerprint:
        reason = "it is already decided, with other input offsets than those in the checkpoint"
    else:
        return
    raise sink_error(
        "STREAMLOG_BATCH_NOT_NEXT", writer=identity.title, batch=batch, reason=reason, group=identity.decision_group
    )


def _ranges_text(numbers: Collection[int]) -> str:
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _numbers_in_ranges(text: str) -> Iterator[int]:
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        yield from _bounded(range(int(first), int(last or first) + 1))


def _runs_text(numbers: Sequence[int]) -> str:
    runs = ((number, sum(1 for _ in run)) for number, run in groupby(numbers))
    return ",".join(str(number) if count == 1 else f"{number}*{count}" for number, count in runs)


def _numbers_in_runs(text: str) -> Iterator[int]:
    for part in filter(None, text.split(",")):
        number, _, count = part.partition("*")
        yield from (int(number) for _ in _bounded(range(int(count or 1))))


def _bounded(numbers: range) -> range:
    """The bound for values that may have been written by hand."""
    if len(numbers) > _MAX_TASK_COUNT:
        raise ValueError(f"no batch has {len(numbers)} tasks")
    return numbers


def _compact(document: object) -> str:
    return json.dumps(document, separators=(",", ":"))
