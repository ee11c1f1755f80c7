"""Blocks of producer ids for brokers: each is given once, and a broker that restarts asks for a new one."""

from __future__ import annotations

from broker_core.controller.broker_registrations import check_broker_epoch
from broker_core.controller.cluster_facts import ClusterFacts
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.controller import ProducerIdBlock
from broker_core.metadata.metadata_records import MetadataRecord, ProducerIdsRecord
from broker_core.model.limits import PRODUCER_ID_BLOCK_COUNT


def plan_producer_ids(
    facts: ClusterFacts, broker_id: int, broker_epoch: int
) -> CoordinatorResult[MetadataRecord, ProducerIdBlock]:
    """Raises RequestRefusedError."""
    check_broker_epoch(facts, broker_id, broker_epoch)
    first_id = facts.image.next_producer_id
    record = ProducerIdsRecord(
        broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=first_id + PRODUCER_ID_BLOCK_COUNT
    )
    return CoordinatorResult(
        records=(record,), reply=ProducerIdBlock(first_id=first_id, id_count=PRODUCER_ID_BLOCK_COUNT)
    )
