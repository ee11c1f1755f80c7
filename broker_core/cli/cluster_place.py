"""The options --path, --bootstrap-server and --command-config, and the door that they open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from broker_core.cli.error_sentence import UsageError
from broker_core.cli.log_directory import PATH_VARIABLE, open_log, parse_directory
from broker_core.cli.screen import note
from broker_core.model.exceptions import InvalidConfigError

if TYPE_CHECKING:
    from broker_core.cluster import Cluster
    from broker_core.model.client_settings import ClientSettings


def _only_place(context: typer.Context, value: Any) -> Any:
    """Called for both options, when it is known of both where they come from. What stands in the environment gives way
    to what was typed."""
    sources = [context.get_parameter_source(name) for name in ("path", "bootstrap_server")]
    if all(source is not None and source.name == "COMMANDLINE" for source in sources):
        raise UsageError("--path and --bootstrap-server exclude each other: give one of them")
    return value


def _directory(location: str) -> Path:
    return parse_directory(location, way_to_brokers=", or --bootstrap-server HOST:PORT")


DirectoryPath = Annotated[
    Path | None,
    typer.Option(
        "--path",
        envvar=PATH_VARIABLE,
        metavar="DIR",
        help="The log directory.",
        show_default=False,
        callback=_only_place,
        parser=_directory,
    ),
]
Brokers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        metavar="HOST:PORT",
        help="Brokers to use instead of a directory; several are separated by commas.",
        show_default=False,
        callback=_only_place,
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        help="Properties file of a Kafka client: TLS, login, timeouts.",
        show_default=False,
    ),
]

_IMPATIENT: Final = {"default.api.timeout.ms": "15000", "delivery.timeout.ms": "30000"}
"""Somebody waits in front of the terminal; a properties file may say otherwise."""


@contextmanager
def open_cluster(
    path: Path | None, bootstrap_server: str | None, command_config: Path | None, *, create: bool = False
) -> Iterator[Cluster]:
    """The log while the block runs: in the directory or at the brokers, one of which must be given."""
    if bootstrap_server is None:
        if command_config is not None:
            raise UsageError("--command-config needs --bootstrap-server")
        if path is None:
            raise UsageError("no log is given: give --path DIR, or --bootstrap-server HOST:PORT")
        with open_log(path, create=create, way_to_brokers="--bootstrap-server") as cluster:
            yield cluster
        return
    # Loaded here, so that --help and a wrong argument answer at once.
    from broker_core.client.cluster_client import open_remote

    with open_remote(_settings(bootstrap_server, command_config)) as client:
        yield client


def _settings(bootstrap_server: str, command_config: Path | None) -> ClientSettings:
    from broker_core.model.client_settings import CLIENT_SETTING_NAMES, parse_client_settings

    properties = _properties(command_config) if command_config is not None else {}
    without_effect = sorted(properties.keys() - set(CLIENT_SETTING_NAMES))
    if without_effect:
        note(f"{command_config}: ignored settings: {', '.join(without_effect)}")
    try:
        return parse_client_settings({**_IMPATIENT, **properties, "bootstrap.servers": bootstrap_server})
    except InvalidConfigError as error:
        where = f"{command_config}: " if command_config is not None else ""
        raise UsageError(where + error.message.replace("bootstrap.servers", "--bootstrap-server", 1)) from error


def _properties(path: Path) -> Mapping[str, str]:
    from broker_core.model.properties import parse_properties

    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not a properties file: {error.reason} at byte {error.start}") from error
