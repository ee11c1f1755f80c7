"""Validates a commit of appended ranges against the image: new, committed before, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker_core.model.exceptions import UnknownPartitionError, UnknownTopicError, UploadExpiredError
from broker_core.object_log.commit import AppendRanges, Change
from broker_core.object_log.data_range import AppendedRange
from broker_core.object_log.log_image import LogImage
from broker_core.staged_writes import AppVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyCommitted:
    """There is nothing to do. `last`: the last version of the application; None if the ranges themselves are
    committed."""

    last: AppVersion | None


def plan_append(
    image: LogImage, ranges: Sequence[AppendedRange], app: AppVersion | None = None
) -> tuple[Change, ...] | AlreadyCommitted:
    """The changes of the next commit. Without ranges it only advances the version of the application.

    Raises UnknownTopicError, UnknownPartitionError for a deleted topic, and UploadExpiredError for data that was
    uploaded so long ago that it may have been removed.
    """
    if app is not None:
        last = image.apps.get(app.app_id)
        if last is not None and last.version >= app.version:
            return AlreadyCommitted(last=last)
    if ranges and all(image.was_committed(one.data.object) for one in ranges):
        return AlreadyCommitted(last=None)
    for name in dict.fromkeys(one.data.object for one in ranges):
        if not image.may_enter(name):
            raise UploadExpiredError(
                f"{name} was uploaded before the log's removal horizon ({image.horizon_ms} ms since 1970), so it may be"
                " gone: the data must be written again. The task took longer than the grace time of the maintenance (24"
                " hours by default), or the clock of its machine is wrong.",
                object=name,
                horizon_ms=image.horizon_ms,
            )
    for topic_id, number in dict.fromkeys((one.topic_id, one.partition) for one in ranges):
        topic = image.topic_by_id(topic_id)
        if topic is None:
            raise UnknownTopicError(
                f"The topic with the id {topic_id} does not exist: it was deleted during the write.",
                topic_id=str(topic_id),
            )
        if number >= topic.partition_count:
            raise UnknownPartitionError(
                f"Partition {number} of topic '{topic.name}' does not exist; the topic has"
                f" {topic.partition_count} partitions.",
                topic=topic.name,
                partition=number,
            )
    return (AppendRanges(ranges=tuple(ranges)),) if ranges else ()
