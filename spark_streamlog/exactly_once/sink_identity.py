"""The names of a sink in the log: its transactional ids and its decision group.

    sink                                 transactional ids                            decision group
    a streaming query                    <query id>-…                                 streamlog-sink-<query id>
    an application with txnAppId         streamlog-app-<hash>-<its name>-…            streamlog-sink-<txnAppId>/<topic>
      its topic in a column              the same                                     streamlog-sink-<txnAppId>
    a single batch write                 streamlog-write-<random id>-…                none: no batch follows

    … is driver, or <task>-<attempt>: a speculative or a retried attempt does not fence the one that finished.
    At brokers batches alternate between two sets of ids, <task>-<attempt> and <task>-<attempt>-b: see `sink_driver`.

All ids of one sink begin with its prefix, and no other sink's ids do: query ids and hashes have a fixed length, and the
name of an application, which is a user's text, comes after the hash. In the group it is percent-encoded, so that it has
no slash. The topic is part of an application's identity because Delta's pair belongs to a table: one foreachBatch may
write one version to several topics.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote
from uuid import UUID

from broker_core.model.identifiers import SINGLE_USE_ID_PREFIX, SINK_GROUP_PREFIX, TopicPartition
from broker_core.model.topic_name import CONSUMER_OFFSETS_TOPIC

DECISION_PARTITION: Final = TopicPartition(CONSUMER_OFFSETS_TOPIC, 0)
"""The group's offset in this partition is the last decided batch. The partition exists wherever groups do, and no
consumer group reads it."""

_OF_TURN: Final = ("", "-b")

_NAME_CHARACTERS: Final = 40
"""For an application's name in its transactional ids, where it only helps users who read a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkIdentity:
    """All transactional ids of this sink, and of no other one, begin with `prefix`; `title` is its name in messages."""

    title: str
    prefix: str
    name: str = ""
    decision_group: str | None
    query_id: str | None = None

    @property
    def batches_come_in_order(self) -> bool:
        """Whether a batch before the last decided one is an error (for a query) or already written (Delta's rule)."""
        return self.query_id is not None

    @property
    def driver_id(self) -> str:
        return f"{self.prefix}{self.name}driver"

    def task_id(self, task: int, attempt: int, turn: int = 0) -> str:
        return f"{self.prefix}{self.name}{task}-{attempt}{_OF_TURN[turn]}"


def query_identity(query_id: str) -> SinkIdentity:
    """For a streaming query, over all its runs: the id is in its checkpoint. ValueError if it is not a UUID."""
    query_id = str(UUID(query_id))
    return SinkIdentity(
        title=f"the query {query_id}",
        prefix=f"{query_id}-",
        decision_group=f"{SINK_GROUP_PREFIX}{query_id}",
        query_id=query_id,
    )


def application_identity(app_id: str, *, topic: str | None) -> SinkIdentity:
    """For all batch writes with this txnAppId to this topic; None: to the topics that a column names."""
    scope = quote(app_id, safe="") + ("" if topic is None else f"/{topic}")
    digest = hashlib.sha256(scope.encode()).hexdigest()[:16]
    return SinkIdentity(
        title=f"the application {app_id!r}" + ("" if topic is None else f" (topic {topic})"),
        prefix=f"streamlog-app-{digest}-",
        name=f"{scope[:_NAME_CHARACTERS]}-",
        decision_group=f"{SINK_GROUP_PREFIX}{scope}",
    )


def single_write_identity(write_id: UUID) -> SinkIdentity:
    return SinkIdentity(
        title=f"the write {write_id}",
        prefix=f"{SINGLE_USE_ID_PREFIX}{write_id}-",
        decision_group=None,
    )
