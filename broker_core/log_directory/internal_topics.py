"""The topics that the log keeps its own records in, made when they are first needed.

Each has one partition: what is decided together must be one append, and a directory needs no more. They are compacted,
in small segments, so that a fresh process reads little. A broker that serves the directory later finds them as its own.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from broker_core.log_directory.metadata_log import MetadataLog
from broker_core.log_directory.partition_folders import PartitionFolders
from broker_core.model.exceptions import InvalidTopicNameError, TopicExistsError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_name import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, is_internal_topic
from broker_core.ports import Entropy

TRANSACTION_STATE_PARTITION: Final = TopicPartition(TRANSACTION_STATE_TOPIC, 0)
CONSUMER_OFFSETS_PARTITION: Final = TopicPartition(CONSUMER_OFFSETS_TOPIC, 0)

INTERNAL_TOPIC_CONFIGS: Final = MappingProxyType(
    {
        "cleanup.policy": "compact",
        "segment.bytes": str(1024 * 1024),
        "max.message.bytes": str(1024 * 1024),
        # Who follows the log notices by the gap that something was taken away; who reads all of it takes no minute.
        "delete.retention.ms": "300000",
    }
)


class InternalTopics:
    """Of one directory that is ours."""

    def __init__(
        self,
        metadata_log: MetadataLog,
        folders: PartitionFolders,
        entropy: Entropy,
        *,
        make_directory: Callable[[], None],
    ) -> None:
        self._make_directory = make_directory
        self._metadata_log = metadata_log
        self._folders = folders
        self._entropy = entropy

    def exists(self, name: str) -> bool:
        """As of the last refresh of the metadata log."""
        return self._metadata_log.topic(name) is not None

    def make(self, name: str) -> None:
        """Makes the topic if there is none; takes the metadata log's lock only then."""
        if self.exists(name):
            return
        self._make_directory()
        try:
            topic = self._metadata_log.change(
                lambda controller: controller.plan_create_topic(
                    name, partition_count=1, configs=INTERNAL_TOPIC_CONFIGS, entropy=self._entropy
                )
            )
        except TopicExistsError:
            return
        self._folders.make_all(topic)


def require_no_internal_topic(name: str, what: str) -> None:
    """Raises InvalidTopicNameError for a topic that only the log itself writes to."""
    if is_internal_topic(name):
        raise InvalidTopicNameError(
            f"Cannot {what} internal topic {name}: only the log itself makes and writes it.", topic=name
        )
