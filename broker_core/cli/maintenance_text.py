"""The result of `log maintain`, for people and for scripts.

Retention deletes whole segments, so it is counted in segments and offsets; compaction removes records from segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker_core.cli.screen import Column, counted_partitions, note, partition_json, show_table
from broker_core.log_directory.partition_maintenance import MaintenanceReport


def show_maintenance(reports: Sequence[MaintenanceReport]) -> None:
    """The partitions that changed, then the errors, then a summary."""
    changed = [
        report
        for report in reports
        if report.deleted_segment_count or report.compaction.segments_cleaned or report.key_filter_count
    ]
    if changed:
        show_table(
            [
                Column(heading="partition"),
                Column(heading="segments\ndeleted", is_number=True),
                Column(heading="offsets\ndeleted", is_number=True),
                Column(heading="segments\ncompacted", is_number=True),
                Column(heading="records\nremoved", is_number=True),
                Column(heading="bytes\nfreed", is_number=True),
                Column(heading="key\nfilters", is_number=True),
            ],
            [
                (
                    report.partition,
                    report.deleted_segment_count,
                    report.deleted_offset_count,
                    report.compaction.segments_cleaned,
                    report.compaction.records_removed,
                    report.compaction.bytes_before - report.compaction.bytes_after,
                    report.key_filter_count,
                )
                for report in changed
            ],
        )
    failed = [report for report in reports if report.error is not None]
    for report in failed:
        note(f"{report.partition}: {report.error}")
    did = f"{len(changed):,} changed" if changed or failed else "nothing to do"
    error = f", {len(failed):,} failed" if failed else ""
    note(f"{counted_partitions([report.partition for report in reports])} maintained, {did}{error}")


def maintenance_json(report: MaintenanceReport) -> dict[str, Any]:
    return {
        **partition_json(report.partition),
        "deleted_segments": report.deleted_segment_count,
        "deleted_offsets": report.deleted_offset_count,
        "compacted_segments": report.compaction.segments_cleaned,
        "removed_records": report.compaction.records_removed,
        "freed_bytes": report.compaction.bytes_before - report.compaction.bytes_after,
        "key_filters": report.key_filter_count,
        "error": report.error,
    }
