"""What a copy remembers in its target: a committed offset of the group `streamlog-copy` for each partition.

The offset is how far the target was filled when it was committed; the metadata is a JSON object:

    source      id of the topic that is copied
    start       log start offset of the source when the copy began
    next        the source's offset that follows
    producer    id of the producer that writes to a broker; with it, what a killed copy sent is recognised. -1 where
                records are written at the source's offsets

A marker is committed before the first record, so a topic with records and without a marker is not a copy of ours, or
its marker has expired (brokers forget groups after offsets.retention.minutes).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from broker_core.cluster import Cluster, GroupOffset, TopicDescription
from broker_core.model.identifiers import NO_PRODUCER_ID, TopicPartition

COPY_GROUP: Final = "streamlog-copy"
_NO_ID: Final = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyMarker:
    """`target_offset` of the target corresponds to `source_offset` of the source."""

    source_id: str
    start_offset: int
    source_offset: int
    target_offset: int
    producer_id: int = NO_PRODUCER_ID

    @property
    def is_placed(self) -> bool:
        """Whether the target was last written at the source's offsets, and not by a producer."""
        return self.producer_id == NO_PRODUCER_ID

    def moved_to(self, source_offset: int, target_offset: int) -> CopyMarker:
        return replace(self, source_offset=source_offset, target_offset=target_offset)


def source_id_of(topic: TopicDescription) -> str:
    """The id of a topic; its name if it is from a log without topic ids."""
    topic_id = str(topic.topic_id)
    return topic.name if topic_id == _NO_ID else topic_id


def read_markers(target: Cluster, partitions: Collection[TopicPartition]) -> dict[TopicPartition, CopyMarker]:
    """The markers that exist and can be decoded."""
    found = target.fetch_offsets(COPY_GROUP, partitions)
    markers = {partition: _decoded(committed) for partition, committed in found.items()}
    return {partition: marker for partition, marker in markers.items() if marker is not None}


def commit_markers(target: Cluster, markers: Mapping[TopicPartition, CopyMarker]) -> None:
    target.commit_offsets(COPY_GROUP, {partition: _encoded(marker) for partition, marker in markers.items()})


def _encoded(marker: CopyMarker) -> GroupOffset:
    fields = {
        "source": marker.source_id,
        "start": marker.start_offset,
        "next": marker.source_offset,
        "producer": marker.producer_id,
    }
    return GroupOffset(offset=marker.target_offset, metadata=json.dumps(fields, separators=(",", ":")))


def _decoded(committed: GroupOffset) -> CopyMarker | None:
    try:
        fields = json.loads(committed.metadata)
        return CopyMarker(
            source_id=str(fields["source"]),
            start_offset=int(fields["start"]),
            source_offset=int(fields["next"]),
            target_offset=committed.offset,
            producer_id=int(fields["producer"]),
        )
    except (ValueError, KeyError, TypeError):
        return None
