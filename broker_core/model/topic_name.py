"""Topic names by Kafka's rules, and the folders that partitions live in.

A name has 1 to 249 characters of ASCII letters, digits, `.`, `_` and `-`, and is not `.` or `..`. Names that differ
only in case are different topics. Names that differ only in `.` and `_` collide, since Kafka folds the one into the
other in the names of its metrics: `folded_name` is the key of the map that finds a collision in one look-up.

A partition's folder is `<topic>-<partition>`. While a deleted one is taken apart it is called
`<topic>-<partition>.<32 hex digits>-delete`.
"""

from __future__ import annotations

import re
from typing import Final

from broker_core.model.exceptions import InvalidTopicNameError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.limits import MAX_TOPIC_NAME_CHARACTERS

CONSUMER_OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"

INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, CLUSTER_METADATA_TOPIC})
"""Topics that the system keeps its own records in."""

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_PARTITION_FOLDER = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>0|[1-9][0-9]{0,9})")
_DELETED_FOLDER = re.compile(r"[a-zA-Z0-9._-]+-[0-9]+\.[0-9a-f]{32}-delete")
# Kafka shortens the topic so that the folder's name fits a file name of 255 bytes.
_FOLDER_NAME_MAX_CHARACTERS = 255


def validate_topic_name(name: str) -> None:
    """Raises InvalidTopicNameError that says which rule the name breaks."""
    if not name:
        raise InvalidTopicNameError("Topic name is invalid: the empty string is not allowed", topic=name)
    if name in (".", ".."):
        raise InvalidTopicNameError(f"Topic name is invalid: '{name}' is not allowed", topic=name)
    if len(name) > MAX_TOPIC_NAME_CHARACTERS:
        raise InvalidTopicNameError(
            f"Topic name is invalid: the length of '{name[:MAX_TOPIC_NAME_CHARACTERS]}...' is longer than the max"
            f" allowed length {MAX_TOPIC_NAME_CHARACTERS}",
            topic=name,
        )
    if not _LEGAL_NAME.fullmatch(name):
        raise InvalidTopicNameError(
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, '.',"
            " '_' and '-'",
            topic=name,
        )


def is_internal_topic(name: str) -> bool:
    return name in INTERNAL_TOPICS


def folded_name(name: str) -> str:
    """The name with every `.` as `_`: two topics with the same folded name may not both exist."""
    return name.replace(".", "_")


def partition_folder(topic_partition: TopicPartition) -> str:
    """Name of the folder that holds the partition's files."""
    return f"{topic_partition.topic}-{topic_partition.partition}"


def parse_partition_folder(folder: str) -> TopicPartition | None:
    """The partition that a folder of this name holds; None for any other name, deleted partitions' included."""
    match = _PARTITION_FOLDER.fullmatch(folder)
    if match is None or match["topic"] in (".", "..") or len(match["topic"]) > MAX_TOPIC_NAME_CHARACTERS:
        return None
    return TopicPartition(match["topic"], int(match["partition"]))


def deleted_folder(topic_partition: TopicPartition, unique_hex: str) -> str:
    """Name of a deleted partition's folder until its files are gone; `unique_hex` are 32 hexadecimal digits."""
    suffix = f"-{topic_partition.partition}.{unique_hex}-delete"
    return topic_partition.topic[: _FOLDER_NAME_MAX_CHARACTERS - len(suffix)] + suffix


def is_deleted_folder(folder: str) -> bool:
    return _DELETED_FOLDER.fullmatch(folder) is not None


def stray_folder(topic_partition: TopicPartition, unique_hex: str) -> str:
    """Name of a folder that stood where another topic's partition belongs; nothing opens or removes it."""
    return deleted_folder(topic_partition, unique_hex).removesuffix("-delete") + "-stray"
