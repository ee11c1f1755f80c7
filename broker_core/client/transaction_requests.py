"""The requests of a transactional producer, in versions that every Kafka since 3.0 supports."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kio.schema.types import GroupId, ProducerId, TopicName, TransactionalId
from kio.static.primitive import i16, i32

from broker_core.client.wire_values import committed_offsets, duration, numbers_by_topic
from broker_core.cluster import GroupOffset, TransactionalProducer
from broker_core.model.identifiers import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition


def init_request(transactional_id: str | None, timeout_ms: int) -> Any:
    from kio.schema.init_producer_id.v4.request import InitProducerIdRequest

    return InitProducerIdRequest(
        transactional_id=None if transactional_id is None else TransactionalId(transactional_id),
        transaction_timeout=duration(timeout_ms),
        producer_id=ProducerId(NO_PRODUCER_ID),
        producer_epoch=i16(NO_PRODUCER_EPOCH),
    )


def two_phase_init_request(transactional_id: str, timeout_ms: int) -> Any:
    from kio.schema.init_producer_id.v6.request import InitProducerIdRequest

    return InitProducerIdRequest(
        transactional_id=TransactionalId(transactional_id),
        transaction_timeout=duration(timeout_ms),
        producer_id=ProducerId(NO_PRODUCER_ID),
        producer_epoch=i16(NO_PRODUCER_EPOCH),
        enable2_pc=True,
    )


def commit_offsets_request(
    producer: TransactionalProducer, group_id: str, offsets: Mapping[TopicPartition, GroupOffset]
) -> Any:
    from kio.schema.txn_offset_commit.v3 import request as schema

    return schema.TxnOffsetCommitRequest(
        transactional_id=TransactionalId(producer.transactional_id),
        group_id=GroupId(group_id),
        producer_id=ProducerId(producer.producer_id),
        producer_epoch=i16(producer.producer_epoch),
        topics=committed_offsets(schema, "TxnOffsetCommitRequest", offsets),
    )


def add_partitions_request(producer: TransactionalProducer, partitions: Collection[TopicPartition]) -> Any:
    from kio.schema.add_partitions_to_txn.v3 import request as schema

    return schema.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TransactionalId(producer.transactional_id),
        v3_and_below_producer_id=ProducerId(producer.producer_id),
        v3_and_below_producer_epoch=i16(producer.producer_epoch),
        v3_and_below_topics=tuple(
            schema.AddPartitionsToTxnTopic(name=TopicName(topic), partitions=tuple(map(i32, numbers)))
            for topic, numbers in numbers_by_topic(partitions).items()
        ),
    )


def add_offsets_request(producer: TransactionalProducer, group_id: str) -> Any:
    from kio.schema.add_offsets_to_txn.v3.request import AddOffsetsToTxnRequest

    return AddOffsetsToTxnRequest(
        transactional_id=TransactionalId(producer.transactional_id),
        producer_id=ProducerId(producer.producer_id),
        producer_epoch=i16(producer.producer_epoch),
        group_id=GroupId(group_id),
    )


def end_request(producer: TransactionalProducer, *, commit: bool, raises_epoch: bool) -> Any:
    """With `raises_epoch` version 5, with which each end bumps the producer's epoch (KIP-890)."""
    from kio.schema.end_txn.v3.request import EndTxnRequest
    from kio.schema.end_txn.v5.request import EndTxnRequest as EpochRaisingEndTxnRequest

    return (EpochRaisingEndTxnRequest if raises_epoch else EndTxnRequest)(
        transactional_id=TransactionalId(producer.transactional_id),
        producer_id=ProducerId(producer.producer_id),
        producer_epoch=i16(producer.producer_epoch),
        committed=commit,
    )
