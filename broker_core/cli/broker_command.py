"""`streamlog broker`: serve a log directory to Kafka's clients, in the foreground.

`streamlog broker list | unregister` are in `broker_admin`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer

from broker_core.cli import broker_admin
from broker_core.cli.error_sentence import UsageError
from broker_core.cli.exit_status import ERROR
from broker_core.cli.log_directory import parse_directory
from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.loading import without_collections
from broker_core.model.properties import parse_properties

EXAMPLE: Final = "Example: streamlog broker --config conf/broker.properties --set num.partitions=3"


app = typer.Typer(rich_markup_mode=None)


@app.callback(invoke_without_command=True, epilog=EXAMPLE)
def broker(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Settings file, with Kafka's names, as in server.properties."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting that overrides the file; may be repeated."),
    ] = None,
    path: Annotated[
        Path | None,
        typer.Option(
            "--path", metavar="DIR", help="The log directory.", show_default="a temporary one", parser=parse_directory
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=0,
            max=65_535,
            metavar="PORT",
            help="Listen on this port of 127.0.0.1.",
            show_default="a free one",
        ),
    ] = None,
    cluster_id: Annotated[
        str | None,
        typer.Option(
            "--cluster-id",
            metavar="ID",
            help="Of a node of a cluster with an empty directory: the same for all nodes.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Serve a log directory to Kafka clients, until Ctrl-C or SIGTERM.

    Without --config it listens on 127.0.0.1 only, with settings for development. The commands ask the brokers of a
    cluster instead.
    """
    if context.invoked_subcommand is not None:
        if any(given is not None for given in (config, settings, path, port, cluster_id)):
            raise UsageError(
                f"the options of streamlog broker serve a directory: {context.invoked_subcommand} has its own"
            )
        return
    given = {} if config is None else parse_properties(config.read_text())
    if config is None and path is None:
        with tempfile.TemporaryDirectory(prefix="streamlog-") as folder:
            _serve(given, settings or [], Path(folder), port or 0, cluster_id)
        return
    _serve(given, settings or [], path, port if config is not None else port or 0, cluster_id)


app.command("list", epilog=broker_admin.LIST_EXAMPLE)(broker_admin.list_brokers)
app.command(epilog=broker_admin.UNREGISTER_EXAMPLE)(broker_admin.unregister)


def _serve(
    given: dict[str, str], settings: list[str], path: Path | None, port: int | None, cluster_id: str | None
) -> None:
    """`path` and `port` override the file, and `settings` override both."""
    # Imported here, so that a wrong argument and --help are answered at once.
    with without_collections():
        from broker_core.broker.settings.broker_config import parse_broker_config
        from broker_core.server.broker_process import run_broker
        from broker_core.server.cluster.cluster_process import is_of_cluster, is_of_controller, run_cluster_node
        from broker_core.server.development import development_settings

    if not given and path is not None:
        given = development_settings(str(path.absolute()), port=port or 0)
    elif path is not None:
        given = {name: value for name, value in given.items() if name != "log.dir"}
        given["log.dirs"] = str(path.absolute())
    if given and port is not None:
        given["listeners"] = f"PLAINTEXT://127.0.0.1:{port}"
    for one in settings:
        name, separator, value = one.partition("=")
        if not separator or not name.strip():
            raise UsageError(f"--set {one} is not KEY=VALUE")
        given[name.strip()] = value
    if is_of_controller(given):
        from broker_core.server.quorum.quorum_process import run_quorum_node
        from broker_core.server.quorum.quorum_settings import parse_quorum_settings

        run_quorum_node(parse_quorum_settings(given), cluster_id=cluster_id)
        return
    try:
        config = parse_broker_config(given)
    except InvalidConfigError as error:
        complaints = getattr(error, "complaints", (error.message,))
        for line in complaints[:-1]:
            typer.echo(f"streamlog: {line}", err=True)
        raise InvalidConfigError(complaints[-1]) from error
    if is_of_cluster(given):
        run_cluster_node(config, given, cluster_id=cluster_id)
    elif not run_broker(config):
        raise typer.Exit(ERROR)
