"""What a coordinator's log is to its runner: how records become a batch, and what they do to the state when read back.

    plan ──► records ── new_batch ──► append ── replay ──► state       while it runs
    log  ──► NewestRecords ── load ──────────────────────► state       when it is read from the start
    log  ──► events ── replay_events ────────────────────► state       when others append, too

The log is compacted by key, so the newest record of a key says all that there is to know about it: a state that is
loaded is the one that following every record leads to. Brokers and embedded processes run the same kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from broker_core.coordinator.coordinator_batch import Encoding, build_coordinator_batch
from broker_core.coordinator.stored_records import EndedTransaction, NewestRecords, StoredEvent, StoredRecord
from broker_core.model.exceptions import CorruptDataError
from broker_core.model.identifiers import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdAndEpoch, TopicPartition

State = TypeVar("State")
Record = TypeVar("Record")

NO_PRODUCER: Final = ProducerIdAndEpoch(producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
"""Of a batch that counts at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorKind(Generic[State, Record]):
    """Of the coordinator in one `partition`. `begin` returns an empty state. `decode` returns None for what is to be
    skipped.

    `replay(state, record, offset, producer_id)`: -1 for a record that counts at once. `replay_marker(state,
    producer_id, is_commit)`: a producer's transaction ends in this log.
    """

    partition: TopicPartition
    begin: Callable[[], State]
    encode: Encoding[Record]
    decode: Callable[[bytes, bytes | None], Record | None]
    replay: Callable[[State, Record, int, int], None]
    replay_marker: Callable[[State, int, bool], None]

    def new_batch(
        self, records: Iterable[Record], *, timestamp_ms: int, producer: ProducerIdAndEpoch = NO_PRODUCER
    ) -> bytearray:
        """All of them as one batch, so that a crash leaves all or none. With a `producer` it is part of its
        transaction."""
        return build_coordinator_batch(
            [self.encode(record, timestamp_ms=timestamp_ms) for record in records],
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            is_transactional=producer.producer_id != NO_PRODUCER_ID,
        )

    def replay_event(self, state: State, event: StoredEvent) -> None:
        """What was read back. Raises CorruptDataError for a record that cannot be read."""
        if isinstance(event, EndedTransaction):
            self.replay_marker(state, event.producer_id, event.is_commit)
            return
        record = self.decode(event.key, event.value)
        if record is not None:
            self.replay(state, record, event.offset, event.producer_id)

    def replay_events(self, state: State, events: Iterable[StoredEvent]) -> None:
        """Raises CorruptDataError that names the partition and the record."""
        for event in events:
            try:
                self.replay_event(state, event)
            except CorruptDataError as error:
                where = f"the record at offset {event.offset}" if isinstance(event, StoredRecord) else "a marker"
                raise type(error)(f"{self.partition}: {where}: {error.message}", **error.fields) from error

    def load(self, newest: NewestRecords, state: State | None = None) -> State:
        """The state that a whole log adds up to, in an empty `state` if one is given. Raises CorruptDataError."""
        loaded = self.begin() if state is None else state
        self.replay_events(loaded, newest.events())
        return loaded
