"""`streamlog quorum describe | add | remove | follow | serve`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from broker_core.cli.cluster_place import CommandConfig, client_settings_of
from broker_core.cli.error_sentence import UsageError
from broker_core.cli.screen import Column, format_timestamp, note, show_json, show_table

if TYPE_CHECKING:
    from broker_core.client.quorum_description import QuorumDescription, QuorumReplica
    from broker_core.client.quorum_follower import QuorumFollower

app = typer.Typer(help="Show, change and follow the metadata quorum.", no_args_is_help=True, rich_markup_mode=None)

Controllers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-controller",
        metavar="HOST:PORT",
        help="Controllers to ask; several are separated by commas.",
        show_default=False,
    ),
]


Brokers = Annotated[
    str | None,
    typer.Option("--bootstrap-server", metavar="HOST:PORT", help="Brokers to ask.", show_default=False),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]


@app.command(epilog="Example: streamlog quorum describe --bootstrap-server localhost:9092")
def describe(
    bootstrap_server: Brokers = None,
    bootstrap_controller: Controllers = None,
    command_config: CommandConfig = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show who leads the metadata quorum, its voters and observers, and how far behind they are."""
    place = _place_of(bootstrap_server, bootstrap_controller)
    # Imported here, so that --help and a wrong argument are answered at once.
    from broker_core.client.quorum_description import describe_quorum

    found = describe_quorum(client_settings_of(place, command_config))
    if as_json:
        show_json(_as_json(found))
        return
    note(f"leader {found.leader_id} in epoch {found.leader_epoch}, high watermark {found.high_watermark:,}")
    headings = ("node", "directory", "role", "log end", "lag", "last fetch", "last caught up")
    show_table(
        [Column(heading=heading, is_number=heading in ("node", "log end", "lag")) for heading in headings],
        [_row(found, replica) for replica in found.replicas],
    )


@app.command(
    epilog="Example: streamlog quorum add --bootstrap-controller localhost:9093 --config controller-4.properties"
)
def add(
    bootstrap_server: Brokers = None,
    bootstrap_controller: Controllers = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The settings of the controller to add.", show_default=False),
    ] = None,
    command_config: CommandConfig = None,
    dry_run: DryRun = False,
) -> None:
    """Make a controller a voter of a dynamic quorum. It runs, and follows the quorum as an observer; this command is
    started on its machine, since the id of its directory is read there."""
    place = _place_of(bootstrap_server, bootstrap_controller)
    if config is None:
        raise UsageError("give --config FILE, the settings of the controller to add")
    from broker_core.cli.properties_file import read_properties
    from broker_core.client.quorum_change import add_voter
    from broker_core.log_directory.quorum_directory import read_identity
    from broker_core.metadata.controller import encode_id
    from broker_core.server.quorum.quorum_settings import parse_added_controller
    from broker_core.storage.os_file_system import OsFileSystem

    added = parse_added_controller(read_properties(config))
    directory_id = read_identity(OsFileSystem(), added.log_dir, node_id=added.node_id)
    endpoints = ", ".join(f"{name}://{address}" for name, address in added.endpoints.items())
    what = f"controller {added.node_id} with directory id {encode_id(directory_id)} and endpoints {endpoints}"
    if dry_run:
        note(f"DRY RUN of adding {what}")
        return
    add_voter(client_settings_of(place, command_config), added.node_id, directory_id, added.endpoints)
    note(f"Added {what}")


@app.command(
    epilog="Example: streamlog quorum remove --bootstrap-controller localhost:9093 --controller-id 4 "
    "--controller-directory-id g0qa4phdQgmZ2jZQmCDZzA"
)
def remove(
    bootstrap_server: Brokers = None,
    bootstrap_controller: Controllers = None,
    controller_id: Annotated[
        int | None, typer.Option(metavar="ID", help="The node id of the voter.", show_default=False)
    ] = None,
    controller_directory_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The id of its directory, as describe shows it.", show_default=False),
    ] = None,
    command_config: CommandConfig = None,
    dry_run: DryRun = False,
) -> None:
    """Take the vote from a controller of a dynamic quorum. It goes on as an observer if it runs."""
    place = _place_of(bootstrap_server, bootstrap_controller)
    if controller_id is None or controller_directory_id is None:
        raise UsageError("give --controller-id ID and --controller-directory-id ID, as streamlog quorum describe shows")
    from broker_core.client.quorum_change import remove_voter
    from broker_core.metadata.controller import decode_id

    try:
        directory_id = decode_id(controller_directory_id)
    except ValueError as error:
        raise UsageError(f"--controller-directory-id {controller_directory_id}: it has 22 characters") from error
    what = f"controller {controller_id} with directory id {controller_directory_id}"
    if dry_run:
        note(f"DRY RUN of removing {what}")
        return
    remove_voter(client_settings_of(place, command_config), controller_id, directory_id)
    note(f"Removed {what}")


@app.command(epilog="Example: streamlog quorum follow --bootstrap-controller localhost:9093 --path /data/observer")
def follow(
    bootstrap_controller: Controllers = None,
    path: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where the log and snapshots are kept; made if missing.", show_default=False),
    ] = None,
    command_config: CommandConfig = None,
    node_id: Annotated[
        int, typer.Option(metavar="ID", help="The id to follow with; -1 is a follower without one.")
    ] = -1,
    until_offset: Annotated[
        int | None, typer.Option(metavar="OFFSET", help="Stop when all records below it are replayed.")
    ] = None,
) -> None:
    """Follow the metadata quorum as an observer, into a directory that Kafka's own tools can read, until Ctrl-C."""
    if bootstrap_controller is None or path is None:
        raise UsageError("give --bootstrap-controller HOST:PORT and --path DIR")
    from broker_core.cli.stop_signals import StopSignals
    from broker_core.client.follower_directory import open_follower

    settings = client_settings_of(bootstrap_controller, command_config)
    with (
        StopSignals() as stop,
        open_follower(settings, str(path.resolve()), node_id=node_id, on_leader=_show_leader) as follower,
    ):
        follower.run(until=lambda: stop.received is not None or _has(follower, until_offset))
        brokers = ", ".join(str(number) for number in sorted(follower.image.registrations.brokers)) or "none"
        topics = f"{len(follower.image.topics)} topics, {len(follower.image.partitions)} partitions"
        note(f"replayed to offset {follower.image_offset:,}: brokers {brokers}; {topics}")


@app.command(
    epilog="Example: streamlog quorum serve --config controller.properties --cluster-id 4L6g3nShT-eMCtK--X86sw"
)
def serve(
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Settings with Kafka's names: node.id, controller.quorum.bootstrap.servers, log.dirs, …",
        ),
    ] = None,
    cluster_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The cluster; needed for an empty directory.", show_default=False),
    ] = None,
) -> None:
    """Be a controller of a cluster of Kafka brokers, a voter of its metadata quorum, until Ctrl-C or SIGTERM."""
    if config is None:
        raise UsageError("give --config FILE")
    from broker_core.cli.properties_file import read_properties
    from broker_core.server.quorum.quorum_process import run_quorum_node
    from broker_core.server.quorum.quorum_settings import parse_quorum_settings

    run_quorum_node(parse_quorum_settings(read_properties(config)), cluster_id=cluster_id)


def _place_of(bootstrap_server: str | None, bootstrap_controller: str | None) -> str:
    if (bootstrap_server is None) == (bootstrap_controller is None):
        raise UsageError("give either --bootstrap-server HOST:PORT or --bootstrap-controller HOST:PORT")
    return bootstrap_server or bootstrap_controller or ""


def _directory(directory_id: UUID | None) -> str | None:
    """As Kafka's tools show it."""
    from broker_core.metadata.controller import encode_id

    return None if directory_id is None else encode_id(directory_id)


def _has(follower: QuorumFollower, until_offset: int | None) -> bool:
    return until_offset is not None and follower.image_offset >= until_offset


def _show_leader(leader_id: int, leader_epoch: int) -> None:
    note(f"epoch {leader_epoch}: " + ("no leader is known" if leader_id < 0 else f"controller {leader_id} leads"))


def _row(found: QuorumDescription, replica: QuorumReplica) -> tuple[Any, ...]:
    role = "leader" if replica.node_id == found.leader_id else "voter" if replica.is_voter else "observer"
    times = (format_timestamp(replica.last_fetch_ms), format_timestamp(replica.last_caught_up_ms))
    directory = _directory(replica.directory_id)
    return (str(replica.node_id), directory or "-", role, replica.log_end_offset, found.lag_of(replica), *times)


def _as_json(found: QuorumDescription) -> dict[str, Any]:
    return {
        "leader_id": found.leader_id,
        "leader_epoch": found.leader_epoch,
        "high_watermark": found.high_watermark,
        "replicas": [
            {
                "node_id": replica.node_id,
                "directory_id": _directory(replica.directory_id),
                "is_voter": replica.is_voter,
                "log_end_offset": replica.log_end_offset,
                "lag": found.lag_of(replica),
                "last_fetch_ms": replica.last_fetch_ms,
                "last_caught_up_ms": replica.last_caught_up_ms,
            }
            for replica in found.replicas
        ],
    }
