"""Committed offsets of consumer groups: one object per group, replaced only if no other writer replaced it
meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import UUID

from broker_core.cluster import GroupOffset, TopicDescription
from broker_core.group.offsets.group_offsets import GroupOffsets
from broker_core.model.exceptions import (
    CorruptObjectError,
    ObjectNotFoundError,
    ObjectOutcomeUnknownError,
    ObjectPreconditionError,
    ObjectThrottledError,
    TopicRecreatedError,
    UnknownGroupError,
)
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_name import CONSUMER_OFFSETS_TOPIC
from broker_core.object_cluster.log_ports import LogPorts
from broker_core.object_cluster.shared_log import Proposal, SharedLog
from broker_core.object_log.commit import PinOffsets
from broker_core.object_log.group_codec import GroupObject, decode_group, encode_group
from broker_core.object_log.log_image import LogImage, Pin
from broker_core.object_log.object_names import GROUP_PREFIX, group_path, is_group
from broker_core.object_log.pin_plan import Place, pins_to_give_up, plan_giving_up, plan_pins

MAX_ATTEMPT_COUNT: Final = 50
"""Attempts to replace one group's object; each failed one lost to another writer or got no answer."""

GROUPS_TOPIC: Final = TopicDescription(
    name=CONSUMER_OFFSETS_TOPIC, topic_id=UUID(int=2), partition_count=1, is_internal=True
)
"""Kafka's topic of the groups, as if it were here: a group's offset in it is deleted with no topic, as at a broker."""

Offsets = Mapping[Place, GroupOffset]

logger: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OwnVersion:
    """`offsets` are the requested ones; `pin_commit_number` is the number of the commit that pinned them, if any."""

    etag: str
    pin_commit_number: int | None
    offsets: Mapping[Place, int]


class GroupStore:
    """Thread-safe."""

    def __init__(self, ports: LogPorts, log: SharedLog) -> None:
        self._ports = ports
        self._log = log
        self._own: dict[str, _OwnVersion] = {}
        """By group: the version that this process wrote last."""

    def list_groups(self) -> tuple[str, ...]:
        """Without objects that are not groups: one of them must not hide the others."""
        paths = [entry.path for entry in self._ports.store.list_after(GROUP_PREFIX) if is_group(entry.path)]
        found = self._ports.requests.gather([partial(self._maybe_group_at, path) for path in paths])
        topics = self._topics_by_id()
        return tuple(sorted(group.group_id for group in found if group is not None and _named(group, topics)))

    def fetch(self, group_id: str, partitions: Collection[TopicPartition] | None) -> dict[TopicPartition, GroupOffset]:
        group, _ = self._get(group_path(group_id), group_id)
        named = _named(group, self._topics_by_id())
        wanted = sorted(named) if partitions is None else sorted(set(partitions) & named.keys())
        return {partition: named[partition] for partition in wanted}

    def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, GroupOffset], expected_ids: Mapping[str, UUID]
    ) -> None:
        """Commits the pins first, so that retention is blocked before a client sees the offsets as committed."""
        now_ms = self._ports.clock.now_ms()
        topics = {topic.name: topic for topic in self._topics_by_id().values()}
        for name, expected_id in expected_ids.items():
            if name not in topics or topics[name].topic_id != expected_id:
                raise TopicRecreatedError.of(name, expected_id)
        # The same checks as in any other cluster: names, numbers, lengths.
        GroupOffsets().plan_commit(group_id, offsets, now_ms=now_ms)
        self._change(
            group_id,
            {
                (topics[partition.topic].topic_id, partition.partition): GroupOffset(
                    offset=offset.offset,
                    metadata=offset.metadata,
                    leader_epoch=offset.leader_epoch,
                    commit_time_ms=now_ms,
                )
                for partition, offset in offsets.items()
                if partition.topic in topics and partition.partition < topics[partition.topic].partition_count
            },
        )

    def delete(self, group_id: str) -> None:
        """Raises UnknownGroupError."""
        GroupOffsets().plan_commit(group_id, {}, now_ms=0)
        group, _ = self._get(group_path(group_id), group_id)
        if not group.offsets:
            raise UnknownGroupError(f"Group {group_id!r} has no committed offsets.", group_id=group_id)
        self._change(group_id, None)

    def _change(self, group_id: str, asked: Offsets | None) -> None:
        """Writes the requested offsets into the group, or with None removes all. See `pin_plan` for the order of
        steps."""
        path = group_path(group_id)
        writer = self._ports.entropy.random_bytes(16).hex()
        for _ in range(MAX_ATTEMPT_COUNT):
            known, etag = self._get(path, group_id)
            own = self._own.get(group_id)
            if known.writer == writer:
                self._own.pop(group_id, None)  # the answer was lost; from now on like another process's write
                return
            if own is not None and own.etag != etag:
                own = None
            seen, number = self._pin(group_id, asked, own)
            offsets = {} if asked is None else {**known.offsets, **asked}
            data = encode_group(GroupObject(group_id=group_id, writer=writer, offsets=offsets))
            try:
                new_etag = (
                    self._ports.store.put_if_absent(path, data)
                    if etag is None
                    else self._ports.store.put_if_matches(path, data, etag)
                )
            except ObjectPreconditionError:
                self._ports.sleep_ms(20 * self._ports.dice())
            except (ObjectOutcomeUnknownError, ObjectThrottledError):
                self._ports.sleep_ms(200 * self._ports.dice())
            else:
                self._own[group_id] = _OwnVersion(
                    etag=new_etag,
                    pin_commit_number=number,
                    offsets={place: one.offset for place, one in (asked or {}).items()},
                )
                self._give_up(group_id, seen)
                return
        raise ObjectOutcomeUnknownError(
            f"{self._ports.store.url}/{path} could not be replaced in {MAX_ATTEMPT_COUNT} attempts: other"
            " processes write"
            " it continually, or the store does not respond.",
            url=self._ports.store.url,
            object=path,
        )

    def _pin(
        self, group_id: str, asked: Offsets | None, own: _OwnVersion | None
    ) -> tuple[dict[Place, Pin], int | None]:
        """(pins to release once the group is replaced, commit number of this process's pins). The known pins of the
        group are valid as long as no other process has written the group."""
        now_ms = self._ports.clock.now_ms()

        def plan(image: LogImage) -> Proposal | None:
            alive = {place: one for place, one in (asked or {}).items() if image.partition(*place) is not None}
            pins = plan_pins(
                image,
                group_id,
                alive,
                now_ms=now_ms,
                own_commit_number=own.pin_commit_number if own is not None else None,
                own_offsets=own.offsets if own is not None else {},
            )
            return _proposal(pins)

        proposal, seen = self._log.read(
            lambda image: (plan(image), pins_to_give_up(image, group_id, asked, now_ms=now_ms)), fresh=own is None
        )
        if proposal is None:
            return seen, own.pin_commit_number if own is not None else None
        committed = self._log.commit(plan)
        return seen, None if committed is None else committed.number

    def _give_up(self, group_id: str, seen: Mapping[Place, Pin]) -> None:
        if seen:
            self._log.commit(lambda image: _proposal(plan_giving_up(image, group_id, seen)))

    def _maybe_group_at(self, path: str) -> GroupObject | None:
        try:
            return self._get(path)[0]
        except CorruptObjectError as error:
            logger.warning("ignoring an object that is not a group: %s", error)
            return None

    def _get(self, path: str, group_id: str = "") -> tuple[GroupObject, str | None]:
        """The group and its etag; no offsets and no etag if the group does not exist."""
        try:
            stored = self._ports.store.get(path)
        except ObjectNotFoundError:
            return GroupObject(group_id=group_id, writer=""), None
        return decode_group(stored.data, path=path, url=self._ports.store.url), stored.etag

    def _topics_by_id(self) -> dict[UUID, TopicDescription]:
        known = self._log.read(lambda image: {topic.topic_id: topic for topic in image.topics.values()})
        return {GROUPS_TOPIC.topic_id: GROUPS_TOPIC, **known}


def _proposal(pins: PinOffsets | None) -> Proposal | None:
    return None if pins is None else Proposal(changes=(pins,))


def _named(group: GroupObject, topics: Mapping[UUID, TopicDescription]) -> dict[TopicPartition, GroupOffset]:
    """The offsets of topics that still exist. A recreated topic starts without offsets."""
    return {
        TopicPartition(topics[topic_id].name, partition): offset
        for (topic_id, partition), offset in group.offsets.items()
        if topic_id in topics and partition < topics[topic_id].partition_count
    }
