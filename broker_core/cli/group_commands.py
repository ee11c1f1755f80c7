"""`streamlog group list | describe | delete`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from broker_core.cli.cluster_place import Brokers, CommandConfig, DirectoryPath, open_cluster
from broker_core.cli.group_screen import group_json, rows_of_group, show_group
from broker_core.cli.printable import printable
from broker_core.cli.screen import note, show_json
from broker_core.cluster import Cluster, GroupDescription
from broker_core.group_lag import PartitionLag, lag_of_group
from broker_core.log_directory.system_ports import SystemClock
from broker_core.model.exceptions import UnknownGroupError
from broker_core.model.group_state import GroupState

app = typer.Typer(
    help="List consumer groups, show who is in them and how far they are behind, delete them.",
    no_args_is_help=True,
    rich_markup_mode=None,
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
        print(printable(group))
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
    """Show a group's state and members, and by partition how far it is behind.

    The lag is told in offsets, in bytes, and in time: the age of the first record that the group has not read. A dash
    stands for what is not known. Programs that commit offsets without joining, such as a query with groupId, are no
    members.
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
        note(f"group {group} has decisions of a sink and no place to read from")


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


def _lags(cluster: Cluster, group: GroupDescription) -> tuple[PartitionLag, ...] | None:
    """None for a group that has committed nothing yet. Raises UnknownGroupError where there is no such group."""
    try:
        return lag_of_group(cluster, group.group_id, now_ms=SystemClock().now_ms())
    except UnknownGroupError:
        if group.state is GroupState.DEAD:
            raise
        return None
