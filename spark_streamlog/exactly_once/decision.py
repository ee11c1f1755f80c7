"""What the log remembers of the last decided batch: a committed offset of the sink's group.

    offset      the batch: a micro-batch's id, or txnVersion
    metadata    JSON, for whoever repeats, finishes or questions the decision:
                  driver     [producer id, epoch] of the driver that decided
                  tasks      how many tasks the batch had
                  attempts   {task: attempt} of those whose transaction is not that of attempt 0; missing where the text
                             would not fit
                  input      fingerprint of the input's offsets, where the driver could read them

Metadata that is not ours (somebody committed an offset by hand) leaves only the offset to go by.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from broker_core.cluster import Cluster, GroupOffset, TransactionalProducer
from broker_core.model.identifiers import ProducerIdAndEpoch
from broker_core.model.limits import MAX_OFFSET_METADATA_BYTES
from spark_streamlog.exactly_once.sink_identity import DECISION_PARTITION, SinkIdentity
from spark_streamlog.sink_conditions import sink_error


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`batch` is decided, and so is every earlier one. `input_fingerprint` is empty where nothing is known."""

    batch: int
    decided_by: ProducerIdAndEpoch | None = None
    task_count: int = 0
    attempts: Mapping[int, int] = field(default_factory=dict)
    input_fingerprint: str = ""

    def is_by(self, driver: TransactionalProducer) -> bool:
        return self.decided_by == ProducerIdAndEpoch(
            producer_id=driver.producer_id, producer_epoch=driver.producer_epoch
        )


def last_decision(cluster: Cluster, identity: SinkIdentity) -> Decision | None:
    """None: nothing was ever decided, or by nobody who needs to know (a single write)."""
    if identity.decision_group is None:
        return None
    committed = cluster.fetch_offsets(identity.decision_group, [DECISION_PARTITION]).get(DECISION_PARTITION)
    return None if committed is None else decode_decision(committed)


def find_decision(
    cluster: Cluster, identity: SinkIdentity, batch: int, *, input_fingerprint: str = ""
) -> Decision | None:
    """The decision that covers this batch: then it must not be written. None: it is to be written.

    Raises STREAMLOG_BATCH_NOT_NEXT when a query's batch lies behind the last decided one, or is decided with another
    input: its checkpoint is not the one that the log knows, and neither writing nor skipping would be right.
    """
    decided = last_decision(cluster, identity)
    if decided is None or decided.batch < batch:
        return None
    if identity.batches_come_in_order:
        _refuse_another_history(identity, decided, batch, input_fingerprint)
    return decided


def encode_decision(decision: Decision) -> GroupOffset:
    document: dict[str, object] = {"tasks": decision.task_count}
    if decision.decided_by is not None:
        document["driver"] = [decision.decided_by.producer_id, decision.decided_by.producer_epoch]
    if decision.input_fingerprint:
        document["input"] = decision.input_fingerprint
    retried = {str(task): attempt for task, attempt in sorted(decision.attempts.items()) if attempt}
    metadata = _compact({**document, "attempts": retried} if retried else document)
    if len(metadata.encode()) > MAX_OFFSET_METADATA_BYTES:
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
            input_fingerprint=str(document.get("input", "")),
        )
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        return Decision(batch=committed.offset)


def _refuse_another_history(identity: SinkIdentity, decided: Decision, batch: int, input_fingerprint: str) -> None:
    if decided.batch > batch:
        reason = f"batch {decided.batch} is decided already"
    elif input_fingerprint and decided.input_fingerprint and input_fingerprint != decided.input_fingerprint:
        reason = "it is decided already, with input from other offsets than those in the checkpoint"
    else:
        return
    raise sink_error(
        "STREAMLOG_BATCH_NOT_NEXT", who=identity.title, batch=batch, reason=reason, group=identity.decision_group
    )


def _compact(document: object) -> str:
    return json.dumps(document, separators=(",", ":"))
