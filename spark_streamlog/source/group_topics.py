"""Keeps the ids of a query's topics in a consumer group of its own, `streamlog-topics-<groupId>`.

The offsets of the query's own group are deleted together with a topic, and all that their metadata says. This group has
one offset, for a partition of the topic in which groups are stored: it is deleted with no other topic, and as it is not
in the query's group, no lag tool reports it. Its metadata:

    streamlog-topic-ids:{"ids":[{"t":"<id>"}],"vectors":{"<digest>":0}}        of the start and the end of a batch

One more commit for each batch. If the group may not be written (a broker with ACLs), a warning says so once.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from broker_core.cluster import Cluster, GroupOffset
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import SOURCE_GROUP_PREFIX, TopicPartition
from broker_core.model.topic_name import CONSUMER_OFFSETS_TOPIC
from spark_streamlog.planning.topic_ids import from_document, to_document
from spark_streamlog.wall_clock import has_passed

logger = logging.getLogger("spark_streamlog")

TOPIC_IDS_PREFIX: Final = "streamlog-topic-ids:"
MAX_TOPIC_IDS_LENGTH: Final = 3000
"""Of the 4096 characters that brokers accept (offset.metadata.max.bytes). A query of very many topics stores no ids."""

RETRY_INTERVAL_MS: Final = 10_000
"""After a failure."""

_PARTITION: Final = TopicPartition(CONSUMER_OFFSETS_TOPIC, 0)


class GroupTopics:
    """For one run of one stream, in the process that plans it."""

    def __init__(self, cluster: Cluster, group_id: str, *, now_ms: Callable[[], int]) -> None:
        """`group_id`: the query's own group."""
        self._cluster = cluster
        self._group_id = f"{SOURCE_GROUP_PREFIX}{group_id}"
        self._now_ms = now_ms
        self._stored: Mapping[str, Mapping[str, UUID]] = {}
        self._failed_at_ms: int | None = None

    def ids_at(self, digest: str) -> Mapping[str, UUID]:
        """The ids of the topics when a vector with this digest was stored; empty if it is not known."""
        try:
            committed = self._cluster.fetch_offsets(self._group_id, [_PARTITION]).get(_PARTITION)
        except (StreamlogError, OSError) as error:
            logger.warning("The topic ids of the query cannot be read from the group %s: %s", self._group_id, error)
            return {}
        return {} if committed is None else topic_ids_in(committed.metadata).get(digest, {})

    def store(self, ids_by_digest: Mapping[str, Mapping[str, UUID]]) -> None:
        """Stored when it returns; otherwise it logs a warning with the reason."""
        if all(self._stored.get(digest) == ids for digest, ids in ids_by_digest.items()) or self._is_too_early_again():
            return
        text = topic_ids_text(ids_by_digest)
        if not text:
            return
        try:
            self._cluster.commit_offsets(self._group_id, {_PARTITION: GroupOffset(offset=0, metadata=text)})
        except (StreamlogError, OSError) as error:
            if self._failed_at_ms is None:
                logger.warning(
                    "The topic ids of the query cannot be stored in the group %s: %s. If a topic is deleted and"
                    " recreated while the query is not running, the query may not detect it",
                    self._group_id,
                    error,
                )
            self._failed_at_ms = self._now_ms()
        else:
            self._stored, self._failed_at_ms = dict(ids_by_digest), None

    def _is_too_early_again(self) -> bool:
        return self._failed_at_ms is not None and not has_passed(RETRY_INTERVAL_MS, self._failed_at_ms, self._now_ms())


def topic_ids_text(ids_by_digest: Mapping[str, Mapping[str, UUID]]) -> str:
    """As metadata of an offset; empty if it would be too long."""
    text = TOPIC_IDS_PREFIX + json.dumps(to_document(ids_by_digest.items()), separators=(",", ":"))
    return text if len(text) <= MAX_TOPIC_IDS_LENGTH else ""


def topic_ids_in(metadata: str) -> Mapping[str, Mapping[str, UUID]]:
    """The ids in an offset's metadata, by digest; empty if there are none."""
    _, prefix, text = metadata.partition(TOPIC_IDS_PREFIX)
    try:
        return from_document(json.loads(text)) if prefix else {}
    except (ValueError, RecursionError):
        return {}
