"""The options of commands that administer a cluster at its brokers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broker_core.cli.cluster_place import client_settings_of
from broker_core.cli.error_sentence import UsageError

if TYPE_CHECKING:
    from broker_core.client.cluster_admin import ClusterAdmin

Servers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        metavar="HOST:PORT",
        help="Brokers of the cluster; several are separated by commas.",
        show_default=False,
    ),
]
Topic = Annotated[str | None, typer.Option("--topic", metavar="NAME", help="A topic.", show_default=False)]
Partition = Annotated[
    int | None,
    typer.Option("--partition", min=0, metavar="NUMBER", help="One partition of the topic.", show_default="all"),
]


@contextmanager
def open_admin_at(bootstrap_server: str | None, command_config: Path | None) -> Iterator[ClusterAdmin]:
    """Raises UsageError without brokers."""
    if bootstrap_server is None:
        raise UsageError("give --bootstrap-server HOST:PORT")
    # Imported here, so that --help and a wrong argument are answered at once.
    from broker_core.client.cluster_admin import open_admin

    with open_admin(client_settings_of(bootstrap_server, command_config)) as admin:
        yield admin
