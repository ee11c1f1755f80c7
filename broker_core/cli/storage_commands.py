"""`streamlog storage format | random-uuid`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broker_core.cli.error_sentence import UsageError
from broker_core.cli.log_directory import parse_settings
from broker_core.cli.screen import note
from broker_core.model.exceptions import InvalidConfigError

if TYPE_CHECKING:
    from broker_core.log_directory.format_plan import FirstVoters

app = typer.Typer(help="Format the directories of a node of a cluster.", no_args_is_help=True, rich_markup_mode=None)

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="Settings with Kafka's names: process.roles, node.id, log.dirs, controller.quorum.voters, …",
        show_default=False,
    ),
]
ClusterId = Annotated[
    str | None,
    typer.Option(
        "--cluster-id", "-t", metavar="ID", help="The cluster, the same for all of its nodes.", show_default=False
    ),
]
InitialControllers = Annotated[
    str | None,
    typer.Option(
        "--initial-controllers",
        "-I",
        metavar="VOTERS",
        help="The voters of a new dynamic quorum: id@host:port:directory-id, separated by commas.",
        show_default=False,
    ),
]
ReleaseVersion = Annotated[
    str | None,
    typer.Option(
        "--release-version",
        "-r",
        metavar="RELEASE",
        help="The release of Kafka whose features the cluster begins with, 3.3 to 4.3.",
        show_default="4.3",
    ),
]
Features = Annotated[
    list[str] | None,
    typer.Option(
        "--feature", "-f", metavar="NAME=LEVEL", help="The level of one feature; may be repeated.", show_default=False
    ),
]
AddScram = Annotated[
    list[str] | None,
    typer.Option(
        "--add-scram",
        "-S",
        metavar="USER",
        help="A user that the new cluster begins with, SCRAM-SHA-512=[name=alice,password=…]; may be repeated.",
        show_default=False,
    ),
]


@app.command(
    "format", epilog="Example: streamlog storage format --config server.properties --cluster-id 4L6g3nShT-eMCtK--X86sw"
)
def format_storage(
    config: Config = None,
    cluster_id: ClusterId = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", "-s", help="The only voter of a new dynamic quorum, which may grow.")
    ] = False,
    initial_controllers: InitialControllers = None,
    no_initial_controllers: Annotated[
        bool, typer.Option("--no-initial-controllers", "-N", help="Join a dynamic quorum later.")
    ] = False,
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", "-g", help="Leave directories that are formatted as they are.")
    ] = False,
    release_version: ReleaseVersion = None,
    feature: Features = None,
    add_scram: AddScram = None,
) -> None:
    """Write what a node of a cluster needs in its directories before its first start, as Kafka's kafka-storage does.

    The directories are for Kafka's nodes and for controllers of ours (streamlog quorum serve). Voters are those of
    controller.quorum.voters; if it is not set, one of --standalone, --initial-controllers and --no-initial-controllers
    is needed, for a quorum whose voters can change. Controllers of ours run with controller.quorum.voters only.
    """
    if config is None:
        raise UsageError("give --config FILE")
    if sum((standalone, initial_controllers is not None, no_initial_controllers)) > 1:
        raise UsageError(
            "--standalone, --initial-controllers and --no-initial-controllers exclude each other: give one of them"
        )
    if cluster_id is None:
        raise UsageError("give --cluster-id ID, the same for all nodes of the cluster: streamlog storage random-uuid")
    levels = {name: _level(name, text) for name, text in parse_settings(feature or [], option="--feature").items()}
    # Imported here, so that --help and a wrong argument are answered at once.
    from broker_core.log_directory.format_plan import FirstVoters
    from broker_core.raft.bootstrap_voters import parse_bootstrap_voters

    try:
        given = () if initial_controllers is None else parse_bootstrap_voters(initial_controllers)
    except InvalidConfigError as error:
        raise UsageError(f"--initial-controllers: {error.message}") from error
    voters = FirstVoters(is_standalone=standalone, is_joining=no_initial_controllers, given=given)
    _format(
        config,
        cluster_id,
        voters,
        ignores_formatted=ignore_formatted,
        release=release_version,
        levels=levels,
        users=add_scram or [],
    )


@app.command("random-uuid", epilog="Example: streamlog storage random-uuid")
def random_uuid() -> None:
    """Print a random id for a cluster or a directory."""
    from broker_core.log_directory.system_ports import SystemEntropy
    from broker_core.metadata.controller import encode_id, random_id

    typer.echo(encode_id(random_id(SystemEntropy())))


def _format(
    config: Path,
    cluster_id: str,
    voters: FirstVoters,
    *,
    ignores_formatted: bool,
    release: str | None,
    levels: dict[str, int],
    users: list[str],
) -> None:
    from broker_core.cli.properties_file import read_properties
    from broker_core.controller.release_features import RELEASE_OF_LEVEL
    from broker_core.log_directory.first_users import parse_first_user
    from broker_core.log_directory.format_plan import parse_format_settings, plan_format
    from broker_core.log_directory.storage_format import format_directories
    from broker_core.log_directory.system_ports import SystemClock, SystemEntropy
    from broker_core.metadata.metadata_version import METADATA_VERSION_FEATURE
    from broker_core.storage.os_file_system import OsFileSystem

    entropy = SystemEntropy()
    try:
        first = [parse_first_user(each, entropy=entropy) for each in users]
    except InvalidConfigError as error:
        raise UsageError(f"--add-scram: {error.message}") from error
    try:
        node = parse_format_settings(read_properties(config))
        plan = plan_format(
            node,
            cluster_id=cluster_id,
            first_voters=voters,
            release=release,
            levels=levels,
            users=first,
            entropy=entropy,
        )
    except InvalidConfigError as error:
        raise InvalidConfigError(f"{config}: {error.message}", **error.fields) from error
    plan = replace(
        plan,
        metadata_dir=str(Path(plan.metadata_dir).absolute()),
        other_dirs=tuple(str(Path(path).absolute()) for path in plan.other_dirs),
    )
    done = format_directories(
        OsFileSystem(), plan, ignores_formatted=ignores_formatted, entropy=entropy, now_ms=SystemClock().now_ms()
    )
    release_name = RELEASE_OF_LEVEL[plan.levels[METADATA_VERSION_FEATURE]]
    for each in done:
        kind = "metadata directory" if each.is_metadata_dir else "directory"
        if each.is_new:
            note(f"formatted {kind} {each.path} with metadata.version {release_name}")
        else:
            note(f"{kind} {each.path} is formatted already, and stays as it is")
    note(f"node {plan.node_id} of cluster {plan.cluster_id}")


def _level(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise UsageError(f"--feature {name}={text}: the level is a whole number") from error
