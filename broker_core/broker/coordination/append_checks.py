"""What a coordinator's log would refuse, found before the change is replayed to the state."""

from __future__ import annotations

from broker_core.broker.coordination.coordinator_appends import CoordinatorAppends
from broker_core.broker.partition.replica import Replica
from broker_core.model.exceptions import CoordinatorFencedError, ProducerFencedError, RecordTooLargeError
from broker_core.model.identifiers import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdAndEpoch
from broker_core.record.control_records import EndTransactionMarker


def check_size(replica: Replica, batch: bytearray) -> None:
    """Raises RecordTooLargeError."""
    if len(batch) > replica.config.max_message_bytes:
        raise RecordTooLargeError(
            f"{replica.topic_partition}: a batch of {len(batch)} bytes exceeds"
            f" max.message.bytes={replica.config.max_message_bytes} of this topic"
        )


def check_producer(
    replica: Replica, appends: CoordinatorAppends, producer: ProducerIdAndEpoch, marker: EndTransactionMarker | None
) -> None:
    """Raises ProducerFencedError, CoordinatorFencedError and StorageError."""
    if producer.producer_id == NO_PRODUCER_ID:
        return
    entry = replica.producer_entries().get(producer.producer_id)
    known = max(
        appends.epoch_of(producer.producer_id),
        NO_PRODUCER_EPOCH if entry is None else entry.producer_epoch,
    )
    who = f"{replica.topic_partition}: producer {producer.producer_id}"
    if producer.producer_epoch < known:
        raise ProducerFencedError(f"{who} has epoch {producer.producer_epoch}, but the current epoch is {known}")
    if marker is not None and entry is not None and marker.coordinator_epoch < entry.coordinator_epoch:
        raise CoordinatorFencedError(
            f"{who}: coordinator epoch {marker.coordinator_epoch} of the marker is older than {entry.coordinator_epoch}"
        )
