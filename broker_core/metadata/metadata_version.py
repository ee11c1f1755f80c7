"""The level of the metadata format, `metadata.version`, and what it allows to be written.

Record versions follow the level, so that no node of a cluster gets a record that it cannot read. Levels are Kafka's:
7 is 3.3-IV3, the lowest that Kafka 4 knows, 30 is 4.3-IV0.
"""

from __future__ import annotations

from typing import Final

METADATA_VERSION_FEATURE: Final = "metadata.version"
METADATA_VERSION_LEVEL: Final = 30
"""Kafka 4.3's level of the metadata format, whose record versions are written here."""

ELIGIBLE_LEADERS_FEATURE: Final = "eligible.leader.replicas.version"
"""Partitions keep who may lead them without loss when nobody is in sync (KIP-966)."""

KRAFT_VERSION_FEATURE: Final = "kraft.version"
"""Not a level of the metadata log: it stands in control records of the quorum (see KAFKA-18979)."""

MIGRATION_LEVEL: Final = 8
SCRAM_LEVEL: Final = 11
SHRINK_KEEPS_EPOCH_LEVEL: Final = 12
"""From here on the leader epoch stays when the ISR shrinks."""
DELEGATION_TOKENS_LEVEL: Final = 14
CONTROLLER_REGISTRATION_LEVEL: Final = 15
DIRECTORY_ASSIGNMENT_LEVEL: Final = 17
ELIGIBLE_LEADERS_LEVEL: Final = 23
CORDONED_DIRECTORIES_LEVEL: Final = 30


def partition_version(level: int) -> int:
    """In which version PartitionRecord and PartitionChangeRecord are written."""
    return 2 if level >= ELIGIBLE_LEADERS_LEVEL else 1 if level >= DIRECTORY_ASSIGNMENT_LEVEL else 0


def register_broker_version(level: int) -> int:
    """In which version RegisterBrokerRecord is written."""
    if level >= CORDONED_DIRECTORIES_LEVEL:
        return 4
    if level >= DIRECTORY_ASSIGNMENT_LEVEL:
        return 3
    return 2 if level >= MIGRATION_LEVEL else 1
