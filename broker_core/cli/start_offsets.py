"""The start offsets of `consume`: converts --from and --last to offsets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from broker_core.cli.error_sentence import UsageError
from broker_core.cluster import Cluster
from broker_core.model.exceptions import OffsetOutOfRangeError
from broker_core.model.identifiers import IsolationLevel, OffsetSpec, TopicPartition

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FORMS = "earliest, latest, an offset, or a time such as 2026-01-31T12:00:00Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOffset:
    """An offset, which is valid only for a single partition."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTime:
    """The first record at or after a time."""

    timestamp_ms: int


Start = OffsetSpec | StartOffset | StartTime


def parse_start(text: str) -> Start:
    """The meaning of --from. A time without zone is UTC."""
    word = text.strip().lower()
    if word == "earliest":
        return OffsetSpec.EARLIEST
    if word == "latest":
        return OffsetSpec.LATEST
    if re.fullmatch(r"\d{1,19}", word):
        return StartOffset(offset=int(word))
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(f"--from {text!r} is not valid: give {FORMS}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    # Not by moment.timestamp(): a float may be a millisecond too low.
    return StartTime(timestamp_ms=max(0, -((_EPOCH - moment) // timedelta(milliseconds=1))))


def resolve_start(
    cluster: Cluster, partitions: Sequence[TopicPartition], start: Start, isolation: IsolationLevel
) -> dict[TopicPartition, int]:
    """The first offset to read of each partition. Raises OffsetOutOfRangeError for an offset outside of the
    partition."""
    if isinstance(start, StartOffset):
        if len(partitions) > 1:
            raise UsageError(
                f"topic {partitions[0].topic} has {len(partitions)} partitions, and an offset belongs to one of them: "
                "give --partition"
            )
        return {partitions[0]: _checked(cluster, partitions[0], start.offset)}
    question = start.timestamp_ms if isinstance(start, StartTime) else start
    answers = cluster.list_offsets(dict.fromkeys(partitions, question), isolation)
    unanswered = [partition for partition in partitions if answers[partition] is None]
    ends = cluster.list_offsets(dict.fromkeys(unanswered, OffsetSpec.LATEST), isolation)
    found = {partition: answers[partition] or ends[partition] for partition in partitions}
    return {partition: answer.offset for partition, answer in found.items() if answer is not None}


def _checked(cluster: Cluster, partition: TopicPartition, offset: int) -> int:
    bounds = cluster.bounds(partition)
    if not bounds.log_start_offset <= offset <= bounds.log_end_offset:
        raise OffsetOutOfRangeError(
            f"offset {offset} is not in {partition}: it holds offsets {bounds.log_start_offset} up to "
            f"{bounds.log_end_offset}; use --from earliest or --last",
            offset=offset,
            log_start_offset=bounds.log_start_offset,
            log_end_offset=bounds.log_end_offset,
        )
    return offset
