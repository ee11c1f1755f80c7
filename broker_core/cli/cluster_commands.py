"""`streamlog cluster start`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from broker_core.cli.exit_status import ERROR
from broker_core.cli.log_directory import parse_directory

app = typer.Typer(help="Run a cluster on this machine.", no_args_is_help=True, rich_markup_mode=None)

_MAX_PORT = 65_535


@app.callback()
def cluster() -> None:
    """Keeps `start` a command of its own: a group of one command would be that command."""


@app.command(epilog="Example: streamlog cluster start --nodes 3 --path /tmp/cluster")
def start(
    path: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Where the cluster is kept; made if it is missing.", parser=parse_directory),
    ],
    nodes: Annotated[
        int | None,
        typer.Option(min=1, max=9, metavar="COUNT", help="How many nodes, of a new cluster.", show_default="3"),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=_MAX_PORT,
            metavar="PORT",
            help="The port of the first broker of a new cluster; the others have those after it.",
            show_default="free ones from 19092 on",
        ),
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start a node again that ends by itself or is killed.")
    ] = False,
) -> None:
    """Run brokers that replicate to each other, each in a process of its own, until Ctrl-C or SIGTERM.

    They listen on 127.0.0.1 only. The ports stay the same when the cluster is started again. Each node has a folder,
    with its settings (server.properties), which may be edited, its log messages and its data.
    """
    # Imported here, so that a wrong argument and --help are answered at once.
    from broker_core.cli.cluster_run import ClusterRun
    from broker_core.cli.forked_process import fork_program
    from broker_core.server.local.cluster_layout import open_layout
    from broker_core.server.local.local_cluster import LocalCluster

    run = ClusterRun(
        LocalCluster(open_layout(path, node_count=nodes, port=port), start_process=fork_program), restarts=restart
    )
    if not run.until_stopped():
        raise typer.Exit(ERROR)
