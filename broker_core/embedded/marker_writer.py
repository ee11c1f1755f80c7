"""Markers: the control batches that end decided transactions in their partitions.

Several processes may end the same transactions at once: the one that decided them and others that found them decided.
So each partition is checked under its lock:

    is it still being ended?        if not, another process completed it and its producer may have begun another
                                    transaction, which a late marker would end
    is the marker already written?  the producer's epoch is the marker's and it has no open transaction: a crash, or
                                    another process, came between marker and completion. A marker of the other kind is
                                    an error of this transaction: it is never completed

A partition that was added and never written gets its marker too: the marker's epoch fences a writer that passed its
check and has not written yet. Partitions of deleted topics are skipped.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from broker_core.embedded.coordinator_state import CoordinatorState
from broker_core.log_directory.partition_access import PartitionAccess
from broker_core.model.exceptions import (
    ContradictingMarkerError,
    StreamlogError,
    UnknownPartitionError,
    UnknownTopicError,
)
from broker_core.model.identifiers import TopicPartition
from broker_core.ports import Clock
from broker_core.record.control_records import EndTransactionMarker, build_end_transaction_marker
from broker_core.storage.append_group import AppendOutcome
from broker_core.storage.writable_partition import WritablePartition
from broker_core.txn.transaction_coordinator import TransactionCoordinator
from broker_core.txn.transaction_replies import EndingTransaction
from broker_core.txn.written_markers import check_written_marker, has_marker

_ATTEMPT_COUNT: Final = 5

_log: Final = logging.getLogger(__name__)


class MarkerWriter:
    """Writes the markers of the transactions that are being ended according to `state`."""

    def __init__(
        self,
        state: CoordinatorState[TransactionCoordinator, Any],
        access: PartitionAccess,
        clock: Clock,
        *,
        on_rolled: Callable[[TopicPartition], None],
    ) -> None:
        self._state = state
        self._access = access
        self._clock = clock
        self._on_rolled = on_rolled

    def write(self, endings: Sequence[EndingTransaction]) -> dict[EndingTransaction, Exception]:
        """The markers are durable on return, except those of the returned endings, each with its first error."""
        by_partition: defaultdict[TopicPartition, list[EndingTransaction]] = defaultdict(list)
        for ending in endings:
            for partition in ending.partitions:
                by_partition[partition].append(ending)
        errors: dict[EndingTransaction, Exception] = {}
        for partition, them in sorted(by_partition.items()):
            errors = {**self._try_to_write(partition, them), **errors}
        return errors

    def _try_to_write(
        self, partition: TopicPartition, endings: list[EndingTransaction]
    ) -> Mapping[EndingTransaction, Exception]:
        """Returns the errors; none if the topic was deleted. A topic that was deleted and exists again was recreated
        meanwhile: the markers are tried on the new one."""
        error: Exception | None = None
        for _ in range(_ATTEMPT_COUNT):
            try:
                return self._write_to(partition, endings)
            except (StreamlogError, OSError) as found:
                error = found
            if self._access.topic_id_of(partition) is None:
                return {}
            if not isinstance(error, UnknownTopicError | UnknownPartitionError):
                break
        assert error is not None
        error.add_note(
            "The end of the transaction is decided. The next process that opens the transactions writes its marker in"
            f" {partition}."
        )
        return dict.fromkeys(endings, error)

    def _write_to(
        self, partition: TopicPartition, endings: list[EndingTransaction]
    ) -> Mapping[EndingTransaction, ContradictingMarkerError]:
        """Returns the endings that the partition contradicts; the markers of the others are written."""
        refused: dict[EndingTransaction, ContradictingMarkerError] = {}
        append = partial(self._append_missing, endings=endings, refused=refused)
        outcome = self._state.retrying(lambda: self._access.write(partition, append))
        if outcome is not None and outcome.rolled:
            self._on_rolled(partition)
        return refused

    def _append_missing(
        self,
        store: WritablePartition,
        *,
        endings: list[EndingTransaction],
        refused: dict[EndingTransaction, ContradictingMarkerError],
    ) -> AppendOutcome | None:
        still_ending = set(self._state.look_held(TransactionCoordinator.ending))
        now_ms = self._clock.now_ms()
        batches = bytearray()
        for ending in endings:
            if ending not in still_ending:
                continue
            entry = store.producer_entry(ending.producer_id)
            if has_marker(entry, ending):
                try:
                    check_written_marker(store.topic_partition, store.last_marker(ending.producer_id), ending)
                except ContradictingMarkerError as error:
                    refused[ending] = error
                continue
            if entry is not None and entry.producer_epoch > ending.producer_epoch:
                _log.warning(
                    "partition=%s producer=%d has epoch %d, newer than that of transactional_id=%s: no marker"
                    " is written",
                    *(store.topic_partition, ending.producer_id, entry.producer_epoch, ending.transactional_id),
                )
                continue
            # A broker that once served the directory may have used a higher epoch than ours.
            coordinator_epoch = max(ending.coordinator_epoch, entry.coordinator_epoch if entry else -1)
            batches += build_end_transaction_marker(
                EndTransactionMarker(is_commit=ending.is_commit, coordinator_epoch=coordinator_epoch),
                producer_id=ending.producer_id,
                producer_epoch=ending.producer_epoch,
                timestamp_ms=now_ms,
            )
        return store.append_control(batches, now_ms=now_ms) if batches else None
