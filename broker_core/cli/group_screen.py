"""What `streamlog group describe` shows of a group, partition by partition: how far it is behind, and who reads it.

As Kafka's own tool does it: a partition that a member has and nothing is committed for stands there too, and so does a
member without partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from broker_core.cli.screen import Column, counted, format_timestamp, note, partition_json, show_table
from broker_core.cluster import Cluster, GroupDescription, GroupMember
from broker_core.group_lag import PartitionLag
from broker_core.model.exceptions import UnknownPartitionError, UnknownTopicError
from broker_core.model.group_state import GroupState
from broker_core.model.identifiers import IsolationLevel, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """`lag` is None where nothing is committed, `log_end_offset` where the partition is gone, `partition` for a member
    that has none."""

    partition: TopicPartition | None = None
    lag: PartitionLag | None = None
    log_end_offset: int | None = None
    member: GroupMember | None = None


def rows_of_group(cluster: Cluster, group: GroupDescription, lags: Iterable[PartitionLag]) -> tuple[GroupRow, ...]:
    """By partition, members without one last. `lags` are those of the group."""
    by_partition = {lag.partition: lag for lag in lags}
    members = {partition: member for member in group.members for partition in member.partitions}
    rows = []
    for partition in sorted(by_partition.keys() | members.keys()):
        lag = by_partition.get(partition)
        end = lag.log_end_offset if lag is not None else _end(cluster, partition)
        rows.append(GroupRow(partition=partition, lag=lag, log_end_offset=end, member=members.get(partition)))
    idle = (GroupRow(member=member) for member in group.members if not member.partitions)
    return (*rows, *idle)


def group_json(group: GroupDescription, rows: Iterable[GroupRow]) -> dict[str, Any]:
    """None stands for what is not known."""
    return {
        "group": group.group_id,
        "state": group.state,
        "assignor": group.assignor,
        "members": [_member_json(member) for member in group.members],
        "partitions": [_row_json(row.partition, row) for row in rows if row.partition is not None],
    }


def show_group(group: GroupDescription, rows: Sequence[GroupRow]) -> None:
    """A line about the group, the table on stdout, and on stderr what the dashes in it mean."""
    print(_headline(group))
    if rows:
        print()
        _show_rows(rows, has_members=bool(group.members))
    for warning in _warnings(rows):
        note(warning)


def _row_json(partition: TopicPartition, row: GroupRow) -> dict[str, Any]:
    lag, committed = row.lag, row.lag.committed if row.lag else None
    return {
        **partition_json(partition),
        "offset": committed.offset if committed else None,
        "metadata": committed.metadata if committed else None,
        "commit_time_ms": committed.commit_time_ms if committed else None,
        "log_start_offset": lag.log_start_offset if lag else None,
        "log_end_offset": row.log_end_offset,
        "behind_offsets": lag.behind_offsets if lag else None,
        "behind_bytes": lag.behind_bytes if lag else None,
        "behind_ms": lag.behind_ms if lag else None,
        "lost_offsets": lag.lost_offsets if lag else None,
        "member_id": row.member.member_id if row.member else None,
    }


def _member_json(member: GroupMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "partitions": [partition_json(partition) for partition in member.partitions],
    }


def _headline(group: GroupDescription) -> str:
    words = [f"group {group.group_id}: {group.state}"]
    if group.state is not GroupState.UNKNOWN:
        words.append(counted(len(group.members), "member") if group.members else "no members")
    if group.assignor and group.members:
        words.append(f"partitions shared by {group.assignor}")
    return ", ".join(words)


def _show_rows(rows: Sequence[GroupRow], *, has_members: bool) -> None:
    """Columns that nobody can fill are left out: the time of a commit at a broker, the members of a group without."""
    has_times = any(row.lag is not None and row.lag.committed.commit_time_ms >= 0 for row in rows)
    columns = [
        Column(heading="partition"),
        Column(heading="current\noffset", is_number=True),
        Column(heading="log end\noffset", is_number=True),
        Column(heading="lag", is_number=True),
        Column(heading="lag\nbytes", is_number=True),
        Column(heading="lag\ntime", is_number=True),
    ]
    if has_times:
        columns.append(Column(heading="committed"))
    if has_members:
        columns += [
            Column(heading="consumer id", is_long=True),
            Column(heading="host"),
            Column(heading="client id"),
        ]
    show_table(columns, [_cells(row, has_times=has_times, has_members=has_members) for row in rows])


def _cells(row: GroupRow, *, has_times: bool, has_members: bool) -> list[Any]:
    lag, member = row.lag, row.member
    cells: list[Any] = [
        row.partition,
        lag.committed.offset if lag else None,
        row.log_end_offset,
        lag.behind_offsets if lag else None,
        lag.behind_bytes if lag else None,
        f"{lag.behind_ms / 1000:,.1f} s" if lag and lag.behind_ms is not None else None,
    ]
    if has_times:
        cells.append(format_timestamp(lag.committed.commit_time_ms) if lag else None)
    if has_members:
        cells += [member.member_id, member.host, member.client_id] if member else [None, None, None]
    return ["-" if cell is None else cell for cell in cells]


def _warnings(rows: Sequence[GroupRow]) -> Iterator[str]:
    """What the dashes mean, and what the group has lost."""
    partitions = [row for row in rows if row.partition is not None]
    if any(row.lag is None for row in partitions):
        yield "current offset -: the group has committed nothing for this partition yet"
    if any(row.log_end_offset is None for row in partitions):
        yield "log end offset -: this partition does not exist any more"
    for row in rows:
        if row.lag is not None and row.lag.lost_offsets:
            lost = f"{row.lag.lost_offsets:,} offsets of {row.partition}"
            yield f"warning: {lost} were removed before the group read them"


def _end(cluster: Cluster, partition: TopicPartition) -> int | None:
    try:
        return cluster.bounds(partition).readable_end(IsolationLevel.READ_COMMITTED)
    except (UnknownTopicError, UnknownPartitionError):
        return None
