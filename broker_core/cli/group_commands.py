"""`streamlog group list | describe | delete`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from broker_core.cli.cluster_place import Brokers, CommandConfig, LogLocation, open_cluster
from broker_core.cli.group_screen import group_json, rows_of_group, show_group
from broker_core.cli.printable import printable
from broker_core.cli.screen import counted, note, show_json
from broker_core.cluster import Cluster, GroupDescription
from broker_core.group_lag import PartitionLag, lag_of_group
from broker_core.log_copy.copy_marker import COPY_GROUP
from broker_core.log_directory.system_ports import SystemClock
from broker_core.model.exceptions import UnknownGroupError
from broker_core.model.group_state import GroupState
from broker_core.model.identifiers import OWN_GROUP_PREFIXES

app = typer.Typer(
    help="List, describe and delete consumer groups.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the consumer group.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_groups(
    path: LogLocation = None,
    bootstrap_server: Brokers = None,
    command_config: CommandConfig = None,
    show_all: Annotated[
        bool, typer.Option("--all", help="Include the groups in which streamlog keeps state of its own.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the groups that have committed offsets.

    Groups that hold the state of Spark's queries and of copies, such as streamlog-sink-…, are listed with --all.
    """
    with open_cluster(path, bootstrap_server, command_config) as cluster:
        found = cluster.list_groups()
    groups = [group for group in found if show_all or not _is_own(group)]
    if as_json:
        show_json(groups)
    else:
        for group in groups:
            print(printable(group))
    hidden_count = len(found) - len(groups)
    if hidden_count:
        note(f"{counted(hidden_count, 'group')} of streamlog's own not shown: add --all")
    elif not groups and not as_json:
        note("there are no groups")


def _is_own(group: str) -> bool:
    return group == COPY_GROUP or group.startswith(OWN_GROUP_PREFIXES)


@app.command(epilog="Example: streamlog group describe my-query --path /data/log")
def describe(
    group: GroupName,
    path: LogLocation = None,
    bootstrap_server: Brokers = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show a group's state, its members, and its lag in each partition.

    The lag is in offsets, in bytes, and in time: the age of the first record that the group has not read. A dash means
    that the value is not known. Programs that commit offsets without joining the group, such as a query with groupId,
    are not members.
    """
    with open_cluster(path, bootstrap_server, command_config) as cluster:
        description = cluster.describe_group(group)
        lags = _lags(cluster, description)
        rows = rows_of_group(cluster, description, lags or ())
    if as_json:
        show_json(group_json(description, rows))
        return
    show_group(description, rows)
    if lags is None and not rows:
        note(f"group {group} has committed nothing yet")
    if lags == ():
        note(f"group {group} stores decisions of a Spark sink or topic ids of a Spark source: it reads no topic")


@app.command(epilog="Example: streamlog group delete my-query --path /data/log")
def delete(
    group: GroupName,
    path: LogLocation = None,
    bootstrap_server: Brokers = None,
    command_config: CommandConfig = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a group with its committed offsets. On a terminal it asks for confirmation."""
    with open_cluster(path, bootstrap_server, command_config) as cluster:
        if group not in cluster.list_groups():
            raise UnknownGroupError(f"group {group!r} has no committed offsets", group_id=group)
        if not yes and sys.stdin.isatty():
            typer.confirm(f"Delete group {group} with its committed offsets?", abort=True, err=True)
        cluster.delete_group(group)
    note(f"deleted group {group}")


def _lags(cluster: Cluster, group: GroupDescription) -> tuple[PartitionLag, ...] | None:
    """None for a group without committed offsets. Raises UnknownGroupError if there is no such group."""
    try:
        return lag_of_group(cluster, group.group_id, now_ms=SystemClock().now_ms())
    except UnknownGroupError:
        if group.state is GroupState.DEAD:
            raise
        return None
