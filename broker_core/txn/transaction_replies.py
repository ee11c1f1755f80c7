"""What the transaction coordinator replies, and what it says is to be done."""

from __future__ import annotations

from dataclasses import dataclass

from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class InitReply:
    """`producer` None: the id's last transaction must be ended first (see `ending`); then plan again."""

    producer: ProducerIdAndEpoch | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndReply:
    """`producer`: who the producer is in its next transaction. `ending` None: it was ended before, just so."""

    producer: ProducerIdAndEpoch
    ending: EndingTransaction | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndingTransaction:
    """A decided transaction whose markers are owed: one in each partition, with this producer id and epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    partitions: tuple[TopicPartition, ...]
    coordinator_epoch: int
