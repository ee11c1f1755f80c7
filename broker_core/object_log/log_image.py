"""The result of a log's commits: topics, the live ranges of each partition, the last version of each application.

`apply` is the only method that changes an image. It takes commits one by one in the order of their numbers, so an
image from a checkpoint and the commits after it equals one from the first commit on. The writer of commit n + 1 has
folded n, because each commit object can be created only once. So a commit that does not fit the image was written by
mistake or is damaged: it is refused as corruption, and the image must not be used any more.

Which objects may be removed is decided here, without trusting any clock:

    horizon_ms   an object that was begun earlier cannot be committed any more. Commits raise it, so each planner of a
                 commit knows it, and an object below it without a reference never gets one
    dropped      objects that lost their last reference, and when: readers with an older plan may still read them
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from broker_core.cluster import TopicDescription
from broker_core.model.exceptions import CorruptObjectError
from broker_core.object_log.commit import (
    AdvanceHorizon,
    AppendRanges,
    Change,
    Commit,
    DeleteTopic,
    MoveLogStart,
    PinOffsets,
    PutTopic,
    ReplaceRanges,
    SkipOffsets,
)
from broker_core.object_log.object_names import begun_ms_of, commit_path
from broker_core.object_log.partition_image import PartitionImage, input_digest
from broker_core.staged_writes import AppVersion


class Pin(NamedTuple):
    """The offset that a group pins in a partition, the expiry, and the commit that pinned it."""

    offset: int
    until_ms: int
    commit_number: int


class _Misfit(Exception):
    """A change that does not fit the image."""


class LogImage:
    """The state up to and including commit `number`; 0 is a log without commits."""

    def __init__(self, log_id: UUID) -> None:
        self.log_id = log_id
        self.number = 0
        self.time_ms = 0
        """The largest time of a commit so far."""
        self.horizon_ms = 0
        self.last_writer = ""
        self._topics: dict[UUID, TopicDescription] = {}
        self._ids_by_name: dict[str, UUID] = {}
        self._partitions: dict[UUID, list[PartitionImage]] = {}
        self._apps: dict[str, AppVersion] = {}
        self._pins: dict[str, dict[tuple[UUID, int], Pin]] = {}
        self._references: dict[str, int] = {}
        self._dropped: dict[str, int] = {}
        self._entering: set[str] = set()

    # -- look-ups --

    @property
    def topics(self) -> Mapping[str, TopicDescription]:
        """By name."""
        return {name: self._topics[topic_id] for name, topic_id in self._ids_by_name.items()}

    def topic(self, name: str) -> TopicDescription | None:
        topic_id = self._ids_by_name.get(name)
        return None if topic_id is None else self._topics[topic_id]

    def topic_by_id(self, topic_id: UUID) -> TopicDescription | None:
        return self._topics.get(topic_id)

    def partition(self, topic_id: UUID, number: int) -> PartitionImage | None:
        partitions = self._partitions.get(topic_id, ())
        return partitions[number] if 0 <= number < len(partitions) else None

    def partitions(self) -> Iterator[tuple[TopicDescription, int, PartitionImage]]:
        for topic_id, partitions in self._partitions.items():
            for number, partition in enumerate(partitions):
                yield self._topics[topic_id], number, partition

    @property
    def apps(self) -> Mapping[str, AppVersion]:
        """The last version that each application has committed."""
        return MappingProxyType(self._apps)

    @property
    def pins(self) -> Mapping[str, Mapping[tuple[UUID, int], Pin]]:
        """By group id, then by topic id and partition."""
        return MappingProxyType(self._pins)

    def pinned_offset(self, topic_id: UUID, partition: int, now_ms: int) -> int | None:
        """The smallest offset that a live pin protects in the partition."""
        found = (pins.get((topic_id, partition)) for pins in self._pins.values())
        return min((pin.offset for pin in found if pin is not None and pin.until_ms > now_ms), default=None)

    @property
    def references(self) -> Mapping[str, int]:
        """The number of live ranges in each object."""
        return MappingProxyType(self._references)

    @property
    def dropped(self) -> Mapping[str, int]:
        """Objects without references, and the time (ms) of the commit that removed the last reference."""
        return MappingProxyType(self._dropped)

    def was_committed(self, name: str) -> bool:
        """Whether a commit has referenced the object. Remembered until the object is removed."""
        return name in self._references or name in self._dropped

    def may_enter(self, name: str) -> bool:
        """Whether a commit may reference the object. One commit makes all references to an object."""
        begun_ms = begun_ms_of(name)
        return begun_ms is not None and begun_ms >= self.horizon_ms and not self.was_committed(name)

    def base_offsets_of(self, commit: Commit) -> tuple[int, ...]:
        """The base offset of each range that the next commit appends, in order."""
        ends: dict[tuple[UUID, int], int] = {}
        base_offsets = []
        for change in commit.changes:
            if isinstance(change, SkipOffsets):
                ends[(change.topic_id, change.partition)] = change.until_offset
            for one in change.ranges if isinstance(change, AppendRanges) else ():
                place = (one.topic_id, one.partition)
                partition = self.partition(*place)
                base_offset = ends.get(place, 0 if partition is None else partition.log_end_offset)
                base_offsets.append(base_offset)
                ends[place] = base_offset + one.data.offset_count
        return tuple(base_offsets)

    # -- the fold --

    def apply(self, commit: Commit) -> None:
        """Applies the next commit. Raises CorruptObjectError; then the image must not be used any more."""
        self._entering = set()
        try:
            if commit.log_id != self.log_id or commit.number != self.number + 1:
                raise _Misfit(
                    f"commit {commit.number} of {commit.log_id} cannot follow commit {self.number} of {self.log_id}"
                )
            if self.last_writer and commit.previous_writer not in ("", self.last_writer):
                raise _Misfit(
                    f"it was written after another commit {self.number}, which was removed: the log is not what"
                    " its writers have seen"
                )
            if commit.app is not None:
                self._set_app(commit.app)
            self.time_ms = max(self.time_ms, commit.time_ms)
            for change in commit.changes:
                self._apply_change(change)
        except _Misfit as misfit:
            raise CorruptObjectError(
                f"{commit_path(commit.number)} does not fit the commits before it: {misfit}",
                object=commit_path(commit.number),
            ) from None
        self.number = commit.number
        self.last_writer = commit.writer

    def _apply_change(self, change: Change) -> None:
        match change:
            case AppendRanges():
                for one in change.ranges:
                    self._reference(one.data.object)
                    self._existing(one.topic_id, one.partition).append(one.data)
            case SkipOffsets():
                partition = self._existing(change.topic_id, change.partition)
                if not partition.log_end_offset == change.from_offset < change.until_offset:
                    raise _Misfit(
                        f"offsets [{change.from_offset}, {change.until_offset}) cannot be skipped in a partition that"
                        f" ends at {partition.log_end_offset}"
                    )
                partition.log_end_offset = change.until_offset
            case PutTopic():
                self._put_topic(change)
            case DeleteTopic():
                self._delete_topic(change.topic_id)
            case ReplaceRanges():
                self._replace(change)
            case MoveLogStart():
                partition = self._existing(change.topic_id, change.partition)
                if not partition.log_start_offset <= change.offset <= partition.log_end_offset:
                    raise _Misfit(f"log start {change.offset} is outside the partition")
                self._release(partition.move_log_start(change.offset))
            case PinOffsets():
                self._pin(change)
            case AdvanceHorizon():
                self.horizon_ms = max(self.horizon_ms, change.horizon_ms)
                self._dropped = {name: at_ms for name, at_ms in self._dropped.items() if at_ms >= self.horizon_ms}

    def _set_app(self, app: AppVersion) -> None:
        last = self._apps.get(app.app_id)
        if last is not None and last.version >= app.version:
            raise _Misfit(f"version {app.version} of {app.app_id!r} cannot follow version {last.version}")
        self._apps[app.app_id] = app

    def _put_topic(self, change: PutTopic) -> None:
        known_id = self._ids_by_name.get(change.name)
        partitions = self._partitions.setdefault(change.topic_id, [])
        if known_id not in (None, change.topic_id) or change.partition_count < len(partitions):
            raise _Misfit(f"topic {change.name!r} exists with the id {known_id} and {len(partitions)} partitions")
        partitions.extend(PartitionImage() for _ in range(change.partition_count - len(partitions)))
        self._ids_by_name[change.name] = change.topic_id
        self._topics[change.topic_id] = TopicDescription(
            name=change.name,
            topic_id=change.topic_id,
            partition_count=change.partition_count,
            configs=dict(change.configs),
        )

    def _delete_topic(self, topic_id: UUID) -> None:
        topic = self._topics.pop(topic_id, None)
        if topic is None:
            raise _Misfit(f"there is no topic {topic_id}")
        del self._ids_by_name[topic.name]
        for partition in self._partitions.pop(topic_id):
            self._release(list(partition.ranges.objects))
        for group_id, pins in self._pins.items():
            self._pins[group_id] = {place: pin for place, pin in pins.items() if place[0] != topic_id}
        self._pins = {group_id: pins for group_id, pins in self._pins.items() if pins}

    def _replace(self, change: ReplaceRanges) -> None:
        partition = self._existing(change.topic_id, change.partition)
        if not partition.covers(change.from_offset, change.until_offset):
            raise _Misfit(f"no whole ranges are at [{change.from_offset}, {change.until_offset})")
        first, last = partition.rows_between(change.from_offset, change.until_offset)
        if input_digest([partition.ranges[row] for row in range(first, last)]) != change.input_digest:
            raise _Misfit(
                f"different ranges are at [{change.from_offset}, {change.until_offset}) than those that were read"
            )
        end_offset = change.from_offset
        for placed in change.outputs:
            if placed.base_offset < end_offset or placed.end_offset > change.until_offset:
                raise _Misfit(f"the new range [{placed.base_offset}, {placed.end_offset}) has the wrong offsets")
            end_offset = placed.end_offset
            self._reference(placed.data.object)
        self._release(partition.replace(change.from_offset, change.until_offset, change.outputs))
        if change.clean_until is not None:
            partition.clean_offset = max(partition.clean_offset, change.clean_until)

    def _pin(self, change: PinOffsets) -> None:
        pins = self._pins.setdefault(change.group_id, {})
        for topic_id, partition, offset, until_ms in change.pins:
            self._existing(topic_id, partition)
            pins.pop((topic_id, partition), None)
            if until_ms:
                pins[(topic_id, partition)] = Pin(offset, until_ms, self.number + 1)
        if not pins:
            del self._pins[change.group_id]

    def _existing(self, topic_id: UUID, number: int) -> PartitionImage:
        partition = self.partition(topic_id, number)
        if partition is None:
            raise _Misfit(f"there is no partition {number} of the topic {topic_id}")
        return partition

    def _reference(self, name: str) -> None:
        if name not in self._entering:
            if not self.may_enter(name):
                raise _Misfit(f"{name} was committed before, or is older than the horizon {self.horizon_ms}")
            self._entering.add(name)
        self._references[name] = self._references.get(name, 0) + 1

    def _release(self, names: list[str]) -> None:
        for name in names:
            count = self._references.pop(name) - 1
            if count:
                self._references[name] = count
            else:
                self._dropped[name] = self.time_ms

    # -- for checkpoints --

    def restore_partition(self, topic_id: UUID, number: int, partition: PartitionImage) -> None:
        """Replaces the empty partition by one of a checkpoint."""
        self._partitions[topic_id][number] = partition
        for name in partition.ranges.objects:
            self._references[name] = self._references.get(name, 0) + 1

    def restore_app(self, app: AppVersion) -> None:
        self._apps[app.app_id] = app

    def restore_topic(self, change: PutTopic) -> None:
        self._put_topic(change)

    def restore_pin(self, group_id: str, place: tuple[UUID, int], pin: Pin) -> None:
        self._pins.setdefault(group_id, {})[place] = pin

    def restore_dropped(self, name: str, at_ms: int) -> None:
        self._dropped[name] = at_ms
