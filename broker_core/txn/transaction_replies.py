"""Replies of the transaction coordinator, and the markers that it orders."""

from __future__ import annotations

from dataclasses import dataclass

from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class InitReply:
    """`producer` None: the id's last transaction must be ended first (see `ending`); then plan again."""

    producer: ProducerIdAndEpoch | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndReply:
    """`producer`: its id and epoch for the next transaction. `ending` None: a retry of an end that is complete."""

    producer: ProducerIdAndEpoch
    ending: EndingTransaction | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndingTransaction:
    """A decided transaction that still needs a marker in each partition, with this producer id and epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    partitions: tuple[TopicPartition, ...]
    coordinator_epoch: int
    is_epoch_bumped: bool
    """No other end of the producer has this epoch. False: a client below version 2 ended it."""
