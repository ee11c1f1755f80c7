"""Detects data loss in a streaming query: deleted records, and ends that a run with a fixed end cannot reach."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

from broker_core.model.identifiers import TopicPartition
from spark_streamlog.errors import condition_error, report_data_loss
from spark_streamlog.options.read_options import ReadOptions
from spark_streamlog.planning.offset_limits import names_of
from spark_streamlog.planning.stream_offset import StreamOffset
from spark_streamlog.source.offset_reader import LatestOffsets, OffsetReader


def report_deleted(gone: Collection[TopicPartition], offsets: OffsetReader, options: ReadOptions) -> None:
    """Partitions that were read before and are missing now: deleted, or no longer subscribed to."""
    if not gone:
        return
    there = offsets.existing_partitions(gone)
    if deleted := frozenset(gone) - there:
        report_data_loss(
            "KAFKA_DATA_LOSS.PARTITIONS_DELETED",
            fail_on_data_loss=options.fail_on_data_loss,
            partitions=names_of(deleted),
        )
    if there:
        report_data_loss(
            "KAFKA_DATA_LOSS.PARTITIONS_NOT_SUBSCRIBED",
            fail_on_data_loss=options.fail_on_data_loss,
            partitions=names_of(there),
            option=options.subscription.option,
        )


def report_added(
    added: Collection[TopicPartition], log_starts: Mapping[TopicPartition, int], options: ReadOptions
) -> None:
    """New partitions are read from their log start: one already deleted, or not starting at 0, has lost records."""
    vanished = [tp for tp in added if tp not in log_starts]
    if vanished:
        report_data_loss(
            "KAFKA_DATA_LOSS.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS",
            fail_on_data_loss=options.fail_on_data_loss,
            partitions=names_of(vanished),
        )
    for tp in sorted(log_starts):
        if log_starts[tp] != 0:
            report_data_loss(
                "KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
                fail_on_data_loss=options.fail_on_data_loss,
                topic_partition=str(tp),
                start_offset=log_starts[tp],
            )


def report_recreated(changed: Mapping[str, tuple[UUID, UUID]], options: ReadOptions) -> None:
    """`changed` holds the old and the new id of each topic."""
    for topic, (old_id, new_id) in sorted(changed.items()):
        report_data_loss(
            "KAFKA_DATA_LOSS.TOPIC_RECREATED",
            fail_on_data_loss=options.fail_on_data_loss,
            topic=topic,
            old_id=old_id,
            new_id=new_id,
        )


def check_run_end_is_reachable(
    run_end: LatestOffsets, end: StreamOffset, latest: LatestOffsets, end_ids: Mapping[str, UUID]
) -> None:
    """With Trigger.AvailableNow: checks that the batch ends within the run's fixed end, and that all of it exists."""
    if run_end.offsets.keys() != end.keys():
        raise condition_error(
            "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED",
            tps_for_prefetched=names_of(run_end.offsets),
            tps_for_end_offset=names_of(end),
        )
    if any(end[tp] > offset for tp, offset in run_end.offsets.items()):
        raise condition_error(
            "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED",
            prefetched_offset=_offsets_of(run_end.offsets),
            end_offset=_offsets_of(end),
        )
    if not end.keys() <= latest.offsets.keys():
        raise condition_error(
            "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW",
            tps_for_latest_offset=names_of(latest.offsets),
            tps_for_end_offset=names_of(end),
        )
    if any(latest.offsets[tp] < offset for tp, offset in end.items()):
        raise condition_error(
            "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW",
            latest_offset=_offsets_of(latest.offsets),
            end_offset=_offsets_of(end),
        )
    for topic in sorted({tp.topic for tp in end}):
        if latest.topic_ids[topic] != end_ids[topic]:
            raise condition_error(
                "KAFKA_DATA_LOSS.TOPIC_RECREATED",
                topic=topic,
                old_id=end_ids[topic],
                new_id=latest.topic_ids[topic],
            )


def _offsets_of(offsets: StreamOffset) -> str:
    return ", ".join(f"{tp}: {offsets[tp]}" for tp in sorted(offsets)) or "none"
