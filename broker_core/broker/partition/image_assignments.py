"""What the metadata image says of brokers and partitions, as the machines of replicas take it."""

from __future__ import annotations

from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.partition_state import PartitionState
from broker_core.replication.replication_values import BrokerStanding, PartitionAssignment


def standings_of(image: MetadataImage) -> dict[int, BrokerStanding]:
    """Of the registered brokers, by id."""
    return {
        broker_id: BrokerStanding(
            broker_epoch=broker.broker_epoch, is_fenced=broker.fenced, is_stopping=broker.in_controlled_shutdown
        )
        for broker_id, broker in image.registrations.brokers.items()
    }


def assignment_of(state: PartitionState) -> PartitionAssignment:
    return PartitionAssignment(
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        replicas=state.replicas,
        isr=state.isr,
    )
