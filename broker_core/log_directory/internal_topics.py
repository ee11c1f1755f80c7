"""The topics for the log's own records, created when they are first needed.

Each has one partition: records of one decision must be one append, and one partition is enough for a directory. They
are compacted, in small segments, so that a new process reads little. A broker that serves the directory later uses them
too.
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
        # A process that follows the log notices removed tombstones by the gap; a full read takes less than a minute.
        "delete.retention.ms": "300000",
    }
)


class InternalTopics:
    """The internal topics of one directory that is OURS."""

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
        """Creates the topic if it does not exist; takes the metadata log's lock only then."""
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
    """Raises InvalidTopicNameError for an internal topic, which only the log itself writes to."""
    if is_internal_topic(name):
        raise InvalidTopicNameError(
            f"Cannot {what} internal topic {name}: only streamlog itself creates and writes it.", topic=name
        )
