"""What `verify` says of a partition's folder, read by somebody who may not write."""

from __future__ import annotations

from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_config import TopicConfig
from broker_core.storage.os_file_system import OsFileSystem
from broker_core.storage.readable_partition import ReadablePartition
from broker_core.storage.verification import Finding


def findings_of(directory: str, partition: TopicPartition, *, damage_only: bool = False) -> list[Finding]:
    store = ReadablePartition.open(
        OsFileSystem(), f"{directory}/{partition}", partition, config=TopicConfig(), topic_id=None
    )
    try:
        return [finding for finding in store.verify() if finding.is_damage or not damage_only]
    finally:
        store.close()
