"""The output of `streamlog group describe`: the lag and the member of each partition of a group.

As in Kafka's own tool, assigned partitions without committed offsets are shown too, and so are members without
partitions. Members report their partitions themselves; a partition of several members has a row for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from broker_core.cli.printable import printable
from broker_core.cli.screen import (
    Column,
    counted,
    format_duration,
    format_timestamp,
    note,
    partition_json,
    show_table,
)
from broker_core.cluster import Cluster, GroupDescription, GroupMember
from broker_core.group_lag import GONE, NO_LEADER, UNREADABLE_LAG_ERRORS, PartitionLag, leaderless_among
from broker_core.model.group_state import GroupState
from broker_core.model.identifiers import IsolationLevel, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """`lag` is None without a committed offset, `partition` for a member without partitions, `log_end_offset` if the
    partition does not exist or could not be read (see `error`)."""

    partition: TopicPartition | None = None
    lag: PartitionLag | None = None
    log_end_offset: int | None = None
    member: GroupMember | None = None
    error: str | None = None


def rows_of_group(cluster: Cluster, group: GroupDescription, lags: Iterable[PartitionLag]) -> tuple[GroupRow, ...]:
    """Rows by partition, then members without partitions. `lags` are those of the group."""
    by_partition = {lag.partition: lag for lag in lags}
    owners: dict[TopicPartition, list[GroupMember]] = {}
    for member in group.members:
        for partition in member.partitions:
            owners.setdefault(partition, []).append(member)
    rows: list[GroupRow] = []
    leaderless = leaderless_among(cluster, owners.keys() - by_partition.keys())
    for partition in sorted(by_partition.keys() | owners.keys()):
        if partition in leaderless:
            row = GroupRow(partition=partition, error=NO_LEADER)
        else:
            row = _row(cluster, partition, by_partition.get(partition))
        rows += [replace(row, member=owner) for owner in owners.get(partition, [None])]
    idle = (GroupRow(member=member) for member in group.members if not member.partitions)
    return (*rows, *idle)


def group_json(group: GroupDescription, rows: Iterable[GroupRow]) -> dict[str, Any]:
    """None is an unknown value."""
    return {
        "group": group.group_id,
        "state": group.state,
        "assignor": group.assignor,
        "members": [_member_json(member) for member in group.members],
        "partitions": [_row_json(row.partition, row) for row in rows if row.partition is not None],
    }


def show_group(group: GroupDescription, rows: Sequence[GroupRow]) -> None:
    """Prints a line about the group and the table on stdout, and on stderr the meaning of the dashes in it."""
    print(_headline(group))
    if rows:
        print()
        _show_rows(rows, has_members=bool(group.members))
    for warning in _warnings(rows):
        note(warning)


def _row(cluster: Cluster, partition: TopicPartition, lag: PartitionLag | None) -> GroupRow:
    if lag is not None:
        return GroupRow(partition=partition, lag=lag, log_end_offset=lag.log_end_offset, error=lag.error)
    row = GroupRow(partition=partition)
    try:
        return replace(row, log_end_offset=cluster.bounds(partition).readable_end(IsolationLevel.READ_COMMITTED))
    except GONE:
        return row
    except UNREADABLE_LAG_ERRORS as error:
        return replace(row, error=error.message)


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
        "error": row.error,
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
        words.append(f"assignor {group.assignor}")
    return printable(", ".join(words))


def _show_rows(rows: Sequence[GroupRow], *, has_members: bool) -> None:
    """Columns without any value are left out: commit times, which brokers do not return, and members of a group
    without members."""
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
        format_duration(lag.behind_ms) if lag and lag.behind_ms is not None else None,
    ]
    if has_times:
        cells.append(format_timestamp(lag.committed.commit_time_ms) if lag else None)
    if has_members:
        cells += [member.member_id, member.host, member.client_id] if member else [None, None, None]
    return ["-" if cell is None else cell for cell in cells]


def _warnings(rows: Sequence[GroupRow]) -> Iterator[str]:
    """The meaning of the dashes, and the offsets that the group has lost."""
    by_partition = {row.partition: row for row in rows if row.partition is not None}
    # A user who may not see a partition does not get its committed offset either.
    if any(row.lag is None and row.error is None for row in by_partition.values()):
        yield "current offset -: the group has committed no offset for this partition"
    if any(row.log_end_offset is None and row.error is None for row in by_partition.values()):
        yield "log end offset -: this partition no longer exists"
    for partition, row in by_partition.items():
        if row.error is not None:
            yield f"{_missing_value(row)} - of {partition}: {row.error}"
        elif row.lag is not None and row.log_end_offset is not None and row.lag.behind_ms is None:
            yield f"lag time - of {partition}: the first unread record was not found within the search limit"
        if row.lag is not None and row.lag.lost_offsets:
            yield f"warning: {row.lag.lost_offsets:,} offsets of {partition} were removed before the group read them"


def _missing_value(row: GroupRow) -> str:
    if row.lag is None:
        return "current offset, log end offset"
    return "log end offset" if row.log_end_offset is None else "lag"
