"""`streamlog log segments | dump | verify | maintain` for a log on object storage.

A segment is a range of batches in an object. Positions are printed as `OBJECT:POSITION`, with the object relative to
the log."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker_core.cli.batch_dump import write_batch, write_records
from broker_core.cli.object_place import ObjectUrl, open_object_log
from broker_core.cli.screen import byte_progress, counted, note
from broker_core.cluster import SegmentDescription
from broker_core.model.identifiers import TopicPartition
from broker_core.storage.verification import Finding

if TYPE_CHECKING:
    from broker_core.object_cluster.foreign_objects import ForeignObject
    from broker_core.object_cluster.log_maintenance import LogMaintenanceReport
    from broker_core.object_cluster.object_cluster import ObjectCluster


def ranges_of(
    cluster: ObjectCluster, partitions: Iterable[TopicPartition]
) -> list[tuple[TopicPartition, SegmentDescription]]:
    """The rows of `log segments`."""
    return [(partition, segment) for partition in partitions for segment in cluster.describe_segments(partition)]


def dump_ranges(
    cluster: ObjectCluster, partition: TopicPartition, *, start: int | None, records: bool, as_json: bool
) -> list[Finding]:
    """Writes one line per batch, from the batch with `start` on. Returns the damage that was found."""
    findings: list[Finding] = []
    for found in cluster.inspect_ranges(partition):
        findings += found.findings
        for batch, data in found.batches:
            if start is not None and batch.header.last_offset < start:
                continue
            write_batch(partition, batch, as_json=as_json)
            if records and batch.problem is None and not batch.header.is_control:
                write_records(data, partition, batch, as_json=as_json)
    return findings


def verify_ranges(cluster: ObjectCluster, partition: TopicPartition) -> list[Finding]:
    """Reads the whole partition."""
    total_bytes = sum(segment.size_bytes for segment in cluster.describe_segments(partition))
    findings: list[Finding] = []
    done_bytes = 0
    with byte_progress(f"verifying {partition}") as progress:
        for found in cluster.inspect_ranges(partition):
            findings += found.findings
            done_bytes += found.size_bytes
            progress.show(done_bytes, total_bytes)
    return findings


def foreign_line(found: ForeignObject) -> str:
    return f"{found.path}: {found.problem} (not damage: it is not the log's, and ignored)"


def maintain_objects(url: ObjectUrl, command_config: Path | None, topics: list[str] | None) -> LogMaintenanceReport:
    """Does all due maintenance of these topics or of all."""
    with open_object_log(url, command_config) as cluster:
        return cluster.maintain(topics)


def show_object_maintenance(report: LogMaintenanceReport) -> None:
    """One line per step that changed something, then the errors."""
    steps = [
        (report.removed_offset_count, "offset", "deleted"),
        (report.merged_range_count, "range", "merged"),
        (report.compacted_range_count, "range", "compacted"),
        (report.removed_object_count, "unreferenced object", "removed"),
    ]
    did = [f"{counted(count, what)} {verb}" for count, what, verb in steps if count]
    if report.checkpoint_number is not None:
        did.append(f"checkpoint {report.checkpoint_number} written")
    for error in report.errors:
        note(error)
    note(", ".join(did) if did else "nothing to do")


def object_maintenance_json(report: LogMaintenanceReport) -> dict[str, Any]:
    return {
        "deleted_offsets": report.removed_offset_count,
        "merged_ranges": report.merged_range_count,
        "compacted_ranges": report.compacted_range_count,
        "rewritten_bytes": report.rewritten_bytes,
        "checkpoint": report.checkpoint_number,
        "removed_objects": report.removed_object_count,
        "freed_bytes": report.removed_bytes,
        "errors": report.errors,
    }
