"""`streamlog group list | describe | delete`."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from broker_core.cli.cluster_place import Brokers, CommandConfig, DirectoryPath, open_cluster
from broker_core.cli.screen import Column, format_timestamp, note, partition_json, show_json, show_table
from broker_core.group_lag import PartitionLag, lag_of_group
from broker_core.log_directory.system_ports import SystemClock
from broker_core.model.exceptions import UnknownGroupError

app = typer.Typer(
    help="List consumer groups, show how far they are behind, delete them.", no_args_is_help=True, rich_markup_mode=None
)

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON, for scripts.")]


@app.command("list")
def list_groups(
    path: DirectoryPath = None,
    bootstrap_server: Brokers = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List the groups that have committed offsets."""
    with open_cluster(path, bootstrap_server, command_config) as cluster:
        groups = cluster.list_groups()
    if as_json:
        show_json(list(groups))
        return
    for group in groups:
        print(group)
    if not groups:
        note("there is no group")


@app.command(epilog="Example: streamlog group describe my-query --path /data/log")
def describe(
    group: GroupName,
    path: DirectoryPath = None,
    bootstrap_server: Brokers = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show a group's offsets, and how far it is behind: in offsets, in bytes, and in time.

    The time is the age of the first record that the group has not read.
    """
    with open_cluster(path, bootstrap_server, command_config) as cluster:
        lags = lag_of_group(cluster, group, now_ms=SystemClock().now_ms())
    if as_json:
        show_json({"group": group, "partitions": [_as_json(lag) for lag in lags]})
        return
    show_table(
        [
            Column(heading="partition"),
            Column(heading="offset", is_number=True),
            Column(heading="end", is_number=True),
            Column(heading="behind", is_number=True),
            Column(heading="bytes", is_number=True),
            Column(heading="time", is_number=True),
            Column(heading="committed"),
        ],
        [_cells(lag) for lag in lags],
    )
    if not lags:
        note(f"group {group} has decisions of a sink and no place to read from")
    for lag in lags:
        if lag.lost_offsets:
            note(f"warning: {lag.lost_offsets:,} offsets of {lag.partition} were removed before the group read them")


@app.command(epilog="Example: streamlog group delete my-query --path /data/log")
def delete(
    group: GroupName,
    path: DirectoryPath = None,
    bootstrap_server: Brokers = None,
    command_config: CommandConfig = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Forget a group's offsets. Asks first, if a person sits at the terminal."""
    with open_cluster(path, bootstrap_server, command_config) as cluster:
        if group not in cluster.list_groups():
            raise UnknownGroupError(f"group {group!r} has no committed offsets", group_id=group)
        if not yes and sys.stdin.isatty():
            typer.confirm(f"Forget the offsets of group {group}?", abort=True, err=True)
        cluster.delete_group(group)
    note(f"group {group} is deleted")


def _cells(lag: PartitionLag) -> tuple[Any, ...]:
    measured = (lag.log_end_offset, lag.behind_offsets, lag.behind_bytes)
    shown = ["-" if value is None else value for value in measured]
    committed = format_timestamp(lag.committed.commit_time_ms)
    return (str(lag.partition), lag.committed.offset, *shown, _time_behind(lag.behind_ms), committed)


def _time_behind(behind_ms: int | None) -> str:
    return "-" if behind_ms is None else f"{behind_ms / 1000:,.1f} s"


def _as_json(lag: PartitionLag) -> dict[str, Any]:
    return {
        **partition_json(lag.partition),
        "offset": lag.committed.offset,
        "metadata": lag.committed.metadata,
        "commit_time_ms": lag.committed.commit_time_ms,
        "log_start_offset": lag.log_start_offset,
        "log_end_offset": lag.log_end_offset,
        "behind_offsets": lag.behind_offsets,
        "behind_bytes": lag.behind_bytes,
        "behind_ms": lag.behind_ms,
        "lost_offsets": lag.lost_offsets,
    }
