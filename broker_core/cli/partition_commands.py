"""`streamlog partitions list | elect`; `partition_moves` has `reassign`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker_core.cli import partition_moves
from broker_core.cli.admin_place import Partition, Servers, Topic, open_admin_at
from broker_core.cli.cluster_place import CommandConfig
from broker_core.cli.error_sentence import UsageError
from broker_core.cli.exit_status import ERROR
from broker_core.cli.partition_columns import LEADER_COLUMNS, leader_cells, placement_json
from broker_core.cli.partition_moves import partitions_of
from broker_core.cli.screen import Column, counted, note, partition_json, show_json, show_table

if TYPE_CHECKING:
    from broker_core.client.cluster_admin import Outcomes
    from broker_core.client.partition_placements import PartitionPlacement

app = typer.Typer(
    help="List, move and elect leaders of the partitions of a cluster.", no_args_is_help=True, rich_markup_mode=None
)
app.command("reassign", epilog=partition_moves.EXAMPLE)(partition_moves.reassign)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list", epilog="Example: streamlog partitions list --bootstrap-server localhost:9092 --under-replicated")
def list_partitions(
    bootstrap_server: Servers = None,
    command_config: CommandConfig = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="NAME", help="A topic; may be repeated.", show_default="all"),
    ] = None,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only those with replicas that are not in sync.")
    ] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Only those without a leader.")] = False,
    as_json: AsJson = False,
) -> None:
    """List partitions with their leader, its epoch, replicas, in-sync replicas (ISR), and who may lead without loss
    when nobody is in sync (ELR).

    With both filters a partition that either one selects is shown.
    """
    with open_admin_at(bootstrap_server, command_config) as admin:
        found = admin.placements(topic or None)
    if under_replicated or offline:
        found = [
            each for each in found if (under_replicated and each.is_under_replicated) or (offline and each.is_offline)
        ]
    if as_json:
        show_json([placement_json(each) for each in found])
        return
    if not found:
        note("there are no such partitions")
        return
    headings = (Column(heading="topic"), Column(heading="partition", is_number=True))
    show_table([*headings, *LEADER_COLUMNS], _rows(found))


@app.command(epilog="Example: streamlog partitions elect --bootstrap-server localhost:9092 --preferred --all")
def elect(
    bootstrap_server: Servers = None,
    command_config: CommandConfig = None,
    preferred: Annotated[bool, typer.Option("--preferred", help="The first replica leads, if it is in sync.")] = False,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean",
            help="A partition without a leader gets any live replica: records that it does not have are lost.",
        ),
    ] = False,
    topic: Topic = None,
    partition: Partition = None,
    all_partitions: Annotated[bool, typer.Option("--all", help="Every partition that needs it.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    """Elect leaders: the preferred ones again, or any replica where nobody may lead.

    Partitions that do not need it are left as they are. On a terminal --unclean asks for confirmation.
    """
    if preferred == unclean:
        raise UsageError("give either --preferred or --unclean")
    if (topic is None) != all_partitions:
        raise UsageError("give either --topic NAME, with --partition NUMBER or without, or --all")
    if partition is not None and topic is None:
        raise UsageError("--partition needs --topic")
    with open_admin_at(bootstrap_server, command_config) as admin:
        from broker_core.client.cluster_admin import ElectionKind

        chosen = None if topic is None else partitions_of(admin, topic, partition)
        if unclean and not yes and sys.stdin.isatty():
            typer.confirm(
                "Elect replicas that are not in sync? Records that they do not have are lost.", abort=True, err=True
            )
        outcomes = admin.elect(ElectionKind.PREFERRED if preferred else ElectionKind.UNCLEAN, chosen)
    _show_elections(outcomes, as_json=as_json)


def _rows(found: Iterable[PartitionPlacement]) -> list[tuple[Any, ...]]:
    return [(each.partition.topic, str(each.partition.partition), *leader_cells(each)) for each in found]


def _show_elections(outcomes: Outcomes, *, as_json: bool) -> None:
    from kio.schema.errors import ErrorCode

    results = {}
    for partition, error in sorted(outcomes.items()):
        if error is None:
            results[partition] = "elected"
        elif error.error_code is ErrorCode.election_not_needed:
            results[partition] = "not needed"
        else:
            results[partition] = "failed"
    if as_json:
        show_json(
            [
                {
                    **partition_json(partition),
                    "result": result,
                    "error": error.message if result == "failed" and (error := outcomes[partition]) else None,
                }
                for partition, result in results.items()
            ]
        )
    for partition, result in results.items():
        error = outcomes[partition]
        if result == "failed" and error is not None:
            note(f"streamlog: {error.message}")
    elected = sum(result == "elected" for result in results.values())
    if not as_json:
        others = sum(result == "not needed" for result in results.values())
        note(f"elected leaders of {counted(elected, 'partition')}" + (f"; not needed for {others:,}" if others else ""))
    if "failed" in results.values():
        raise typer.Exit(ERROR)
