"""Is the marker of a decided transaction already in a partition, and is it of the decided kind?

    the producer's entry has the marker's epoch and no open transaction    a marker of this epoch was written
    the end bumped the epoch                                               it can only be the marker of this end

An end of a client below version 2 bumps no epoch: the marker that is there may be that of the transaction before.
"""

from __future__ import annotations

from broker_core.log.producer_entry import ProducerEntry
from broker_core.model.exceptions import ContradictingMarkerError
from broker_core.model.identifiers import TopicPartition
from broker_core.record.control_records import EndTransactionMarker
from broker_core.txn.transaction_replies import EndingTransaction


def has_marker(entry: ProducerEntry | None, ending: EndingTransaction) -> bool:
    """Whether the partition has a marker of the ending's producer and epoch, and nothing after it."""
    return (
        entry is not None
        and entry.producer_epoch == ending.producer_epoch
        and entry.transaction_first_offset is None
        and entry.coordinator_epoch >= 0
    )


def check_written_marker(
    partition: TopicPartition, written: EndTransactionMarker | None, ending: EndingTransaction
) -> None:
    """Raises ContradictingMarkerError if `written`, the marker of this end in the partition, is of the other kind.
    None: retention or compaction removed it, after all records of the transaction."""
    if written is None or not ending.is_epoch_bumped or written.is_commit == ending.is_commit:
        return
    found, decided = ("a commit", "an abort") if written.is_commit else ("an abort", "a commit")
    raise ContradictingMarkerError(
        f"{partition}: producer {ending.producer_id} has {found} marker with epoch {ending.producer_epoch}, but"
        f" transactional id '{ending.transactional_id}' decided {decided}: its end can not be completed.",
        partition=partition,
        producer_id=ending.producer_id,
    )
