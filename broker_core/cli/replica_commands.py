"""`streamlog replica serve`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broker_core.cli.error_sentence import UsageError

if TYPE_CHECKING:
    from broker_core.metadata.broker_lifecycle import LifecycleState

app = typer.Typer(help="Hold replicas of a Kafka cluster.", no_args_is_help=True, rich_markup_mode=None)

REPLICA_READY = "streamlog replica is ready:"


@app.callback()
def _replica() -> None:
    """A group, though it has one command so far."""


@app.command(epilog="Example: streamlog replica serve --config replica.properties")
def serve(
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Settings with Kafka's names: process.roles=broker, node.id, controller.quorum.bootstrap.servers, …",
        ),
    ] = None,
) -> None:
    """Be a broker of a Kafka cluster that only follows: its replicas are in sync, and no client is served.

    It runs until Ctrl-C or SIGTERM. Elected as a leader, it gives the leadership back and ends with an error.
    """
    if config is None:
        raise UsageError("give --config FILE")
    import logging
    import sys

    from broker_core.cli.properties_file import read_properties
    from broker_core.cli.stop_signals import StopSignals
    from broker_core.client.following_broker import open_following_broker
    from broker_core.client.replica_settings import parse_replica_settings

    settings = parse_replica_settings(read_properties(config))
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")

    def show(state: LifecycleState) -> None:
        logging.getLogger(__name__).info("node=%d %s", settings.node_id, state.name.lower())
        if state.name == "RUNNING":
            typer.echo(f"{REPLICA_READY} node {settings.node_id}")

    with StopSignals() as stop, open_following_broker(settings, on_state=show) as broker:
        broker.run(until=lambda: stop.received is not None)
