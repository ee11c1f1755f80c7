"""`streamlog migrate check | plan`: a live cluster is moved to other nodes, step by step."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from broker_core.cli.admin_place import Servers, open_admin_at
from broker_core.cli.cluster_place import CommandConfig, client_settings_of
from broker_core.cli.error_sentence import UsageError
from broker_core.cli.exit_status import ERROR
from broker_core.cli.screen import Column, counted, note, show_json, show_table

app = typer.Typer(
    help="Move a live cluster to other nodes; see docs/moving.md.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_PAIR = re.compile(r"(\d{1,10})=(\d{1,10})")


@app.command(epilog="Example: streamlog migrate check --bootstrap-server localhost:9092 --leaving 1,2,3")
def check(
    bootstrap_server: Servers = None,
    command_config: CommandConfig = None,
    leaving: Annotated[
        str, typer.Option("--leaving", metavar="IDS", help="The nodes that are to go.", show_default=False)
    ] = "",
    path: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="The directory of a node to join; may be repeated.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check whether the next step of a move may be taken. Exits with 1 while anything is not in order."""
    ids = _ids(leaving)
    if bootstrap_server is None:
        raise UsageError("give --bootstrap-server HOST:PORT")
    # Imported here, so that --help and a wrong argument are answered at once.
    from broker_core.client.migration_check import MoveVerdict, judge, look_at
    from broker_core.client.migration_directories import judge_directories

    state = look_at(client_settings_of(bootstrap_server, command_config))
    findings = [*judge(state, ids), *judge_directories(state.cluster_id, path or ())]
    if as_json:
        show_json(
            [
                {"subject": each.subject, "verdict": each.verdict.value, "found": each.found, "advice": each.advice}
                for each in findings
            ]
        )
    else:
        show_table(
            [Column(heading="what"), Column(heading="verdict"), Column(heading="found", is_long=True)],
            [(each.subject, each.verdict.value, _with_advice(each.found, each.advice)) for each in findings],
        )
    open_count = sum(each.verdict is not MoveVerdict.OK for each in findings)
    if open_count:
        note(f"{counted(open_count, 'finding')} to be settled before the next step")
        raise typer.Exit(ERROR)
    note("all is in order for the next step")


@app.command(epilog="Example: streamlog migrate plan --bootstrap-server localhost:9092 --replace 1=4,2=5 > moves.json")
def plan(
    bootstrap_server: Servers = None,
    command_config: CommandConfig = None,
    replace: Annotated[
        str,
        typer.Option("--replace", metavar="OLD=NEW,…", help="Which node takes the place of which.", show_default=False),
    ] = "",
    topic: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this topic; may be repeated.", show_default="all")
    ] = None,
) -> None:
    """Print the file for `streamlog partitions reassign --file` that moves all replicas from nodes to others.

    Internal topics are included. Preferred leaders stay spread as they are.
    """
    replacements = _replacements(replace)
    from broker_core.client.migration_check import moved_replicas

    with open_admin_at(bootstrap_server, command_config) as admin:
        moved = moved_replicas(admin.placements(topic), replacements)
    if not moved:
        raise UsageError(f"no partition has a replica on {', '.join(map(str, sorted(replacements)))}")
    show_json(
        {
            "version": 1,
            "partitions": [
                {"topic": each.partition.topic, "partition": each.partition.partition, "replicas": list(replicas)}
                for each, replicas in moved
            ],
        }
    )
    note(f"{counted(len(moved), 'partition')} to move")


def _with_advice(found: str, advice: str) -> str:
    return f"{found}. To do: {advice}" if advice else found


def _ids(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise UsageError(f"--leaving {text}: give node ids, separated by commas")
    return tuple(dict.fromkeys(map(int, parts)))


def _replacements(text: str) -> dict[int, int]:
    pairs = [_PAIR.fullmatch(part.strip()) for part in text.split(",")]
    found = {int(pair[1]): int(pair[2]) for pair in pairs if pair is not None}
    if None in pairs or len(found) != len(pairs) or len(set(found.values())) != len(pairs):
        raise UsageError(f"--replace {text or '(nothing)'}: give OLD=NEW, separated by commas, each node once")
    if found.keys() & set(found.values()):
        raise UsageError(f"--replace {text}: a node is replaced and takes another one's place")
    return found
