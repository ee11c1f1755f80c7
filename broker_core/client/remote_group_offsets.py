"""Committed offsets of consumer groups, for clients that are not members."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32

from broker_core.client.broker_errors import broker_error
from broker_core.client.broker_router import BrokerRouter
from broker_core.client.coordinator_finder import CoordinatorType
from broker_core.client.deadline import Deadline
from broker_core.client.topic_identity import NO_TOPIC_ID, OTHER_TOPIC, require_topic
from broker_core.client.wire_values import committed_offsets, numbers_by_topic
from broker_core.cluster import GroupOffset
from broker_core.model.identifiers import TopicPartition
from broker_core.protocol.api_table import ApiKey

_NO_GENERATION: Final = i32(-1)
_NO_MEMBER: Final = ""
_BY_ID: Final = 10
"""The first version of OffsetCommit with topic ids; older ones have names."""
_STABLE_WAIT_SECONDS: Final = 1.0
_STABLE_PAUSE_SECONDS: Final = 0.02


class RemoteGroupOffsets:
    """`Cluster` documents the methods. `list_groups` includes groups with members and no offset yet."""

    def __init__(self, router: BrokerRouter) -> None:
        self._router = router

    def list_groups(self) -> tuple[str, ...]:
        from kio.schema.list_groups.v4.request import ListGroupsRequest

        def attempt(deadline: Deadline) -> set[str]:
            ids: set[str] = set()
            for node_id in sorted(self._router.view(deadline).brokers):
                (answer,) = self._router.ask_node(node_id, [ListGroupsRequest()], deadline)
                if answer.error_code != ErrorCode.none:
                    raise broker_error(answer.error_code, "list groups")
                ids.update(str(group.group_id) for group in answer.groups)
            return ids

        return tuple(sorted(self._router.run("list groups", attempt)))

    def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, GroupOffset], topic_ids: Mapping[str, UUID]
    ) -> None:
        """By topic id, if all ids are given and the coordinator supports it (version 10); else the ids are checked
        before."""
        what = f"commit offsets of group {group_id!r}"
        wanted_ids = {name: topic_id for name, topic_id in topic_ids.items() if topic_id != NO_TOPIC_ID}
        names = {topic_id: name for name, topic_id in wanted_ids.items()}

        def attempt(deadline: Deadline) -> None:
            coordinator = self._router.coordinator(CoordinatorType.GROUP, group_id, deadline)
            connection = self._router.node(coordinator, deadline)
            is_by_id = wanted_ids.keys() >= {partition.topic for partition in offsets}
            is_by_id = is_by_id and connection.supports(ApiKey.OFFSET_COMMIT, _BY_ID)
            if not is_by_id:
                for name, topic_id in wanted_ids.items():
                    require_topic(self._router, name, topic_id, deadline)
            request = _commit_request(group_id, offsets, wanted_ids if is_by_id else None)
            (answer,) = connection.ask([request], deadline)
            for topic in answer.topics:
                for result in topic.partitions:
                    if result.error_code != ErrorCode.none:
                        name = names[topic.topic_id] if is_by_id else topic.name
                        if result.error_code in OTHER_TOPIC:
                            require_topic(self._router, name, wanted_ids[name], deadline)
                        partition = TopicPartition(name, result.partition_index)
                        raise self._router.refusal(result.error_code, what, partition, deadline)

        self._router.run(what, attempt)

    def fetch(self, group_id: str, partitions: Collection[TopicPartition] | None) -> dict[TopicPartition, GroupOffset]:
        """Waits for offsets in a transaction that is decided but has no markers yet, and ignores those in an open one.
        A broker does not distinguish the two, so the wait is short."""
        if partitions is not None and not partitions:
            return {}

        def attempt(deadline: Deadline) -> dict[TopicPartition, GroupOffset]:
            patience = _STABLE_WAIT_SECONDS
            while True:
                answer = self._ask(group_id, partitions, deadline, is_stable_only=patience > 0)
                if patience <= 0 or not _is_unstable(answer):
                    return _offsets_of(answer, group_id)
                patience -= _STABLE_PAUSE_SECONDS
                deadline.pause(_STABLE_PAUSE_SECONDS)

        return self._router.run(f"fetch offsets of group {group_id!r}", attempt)

    def delete_group(self, group_id: str) -> None:
        from kio.schema.delete_groups.v2.request import DeleteGroupsRequest

        def attempt(deadline: Deadline) -> None:
            request = DeleteGroupsRequest(groups_names=(GroupId(group_id),))
            (answer,) = self._router.ask_coordinator(CoordinatorType.GROUP, group_id, [request], deadline)
            (result,) = answer.results
            if result.error_code != ErrorCode.none:
                raise broker_error(result.error_code, f"delete group {group_id!r}", group_id=group_id)

        self._router.run(f"delete group {group_id!r}", attempt)

    def _ask(
        self,
        group_id: str,
        partitions: Collection[TopicPartition] | None,
        deadline: Deadline,
        *,
        is_stable_only: bool,
    ) -> Any:
        from kio.schema.offset_fetch.v7 import request as schema

        topics = None
        if partitions is not None:
            topics = tuple(
                schema.OffsetFetchRequestTopic(name=TopicName(topic), partition_indexes=tuple(map(i32, numbers)))
                for topic, numbers in numbers_by_topic(partitions).items()
            )
        request = schema.OffsetFetchRequest(group_id=GroupId(group_id), topics=topics, require_stable=is_stable_only)
        (answer,) = self._router.ask_coordinator(CoordinatorType.GROUP, group_id, [request], deadline)
        if answer.error_code != ErrorCode.none:
            raise broker_error(answer.error_code, f"fetch offsets of group {group_id!r}")
        return answer


def _is_unstable(answer: Any) -> bool:
    return any(
        found.error_code == ErrorCode.unstable_offset_commit for topic in answer.topics for found in topic.partitions
    )


def _offsets_of(answer: Any, group_id: str) -> dict[TopicPartition, GroupOffset]:
    found = {}
    for topic in answer.topics:
        for entry in topic.partitions:
            partition = TopicPartition(topic.name, entry.partition_index)
            if entry.error_code != ErrorCode.none:
                raise broker_error(entry.error_code, f"fetch offsets of group {group_id!r}: {partition}")
            if entry.committed_offset >= 0:
                found[partition] = GroupOffset(
                    offset=entry.committed_offset,
                    metadata=entry.metadata or "",
                    leader_epoch=entry.committed_leader_epoch,
                )
    return found


def _commit_request(
    group_id: str, offsets: Mapping[TopicPartition, GroupOffset], topic_ids: Mapping[str, UUID] | None
) -> Any:
    schema: Any
    if topic_ids is not None:
        from kio.schema.offset_commit.v10 import request as schema
    else:
        from kio.schema.offset_commit.v8 import request as schema

    return schema.OffsetCommitRequest(
        group_id=GroupId(group_id),
        generation_id_or_member_epoch=_NO_GENERATION,
        member_id=_NO_MEMBER,
        topics=committed_offsets(schema, "OffsetCommitRequest", offsets, topic_ids),
    )
