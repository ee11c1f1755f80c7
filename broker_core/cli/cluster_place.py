"""The options --path, --bootstrap-server and --command-config, and the log that they open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from broker_core.cli.error_sentence import UsageError
from broker_core.cli.log_directory import PATH_VARIABLE, open_log, parse_place
from broker_core.cli.object_place import ObjectUrl, open_object_log
from broker_core.cli.properties_file import read_properties
from broker_core.model.exceptions import InvalidConfigError

if TYPE_CHECKING:
    from broker_core.cluster import Cluster
    from broker_core.model.client_settings import ClientSettings


class _Refused:
    """A --path that is not supported. It is an error only if the log is not given by --bootstrap-server."""

    def __init__(self, error: UsageError) -> None:
        self.error = error


def _only_place(context: typer.Context, value: Any) -> Any:
    """Called for both options, once the sources of both are known. A typed option overrides one from the
    environment."""
    sources = [context.get_parameter_source(name) for name in ("path", "bootstrap_server")]
    if all(source is not None and source.name == "COMMANDLINE" for source in sources):
        raise UsageError("--path and --bootstrap-server exclude each other: give one of them")
    if isinstance(value, _Refused):
        # Options of the command line are known before those of the environment.
        if context.params.get("bootstrap_server") is None:
            raise value.error
        return None
    return value


def _place(location: str) -> Path | ObjectUrl | _Refused:
    try:
        return parse_place(location, way_to_brokers=", or --bootstrap-server HOST:PORT")
    except UsageError as error:
        return _Refused(error)


LogLocation = Annotated[
    Any,  # Path | ObjectUrl | None: the parser decides, and typer takes no unions
    typer.Option(
        "--path",
        envvar=PATH_VARIABLE,
        metavar="DIR|URL",
        help="The log directory, or the URL of a log on object storage (s3://bucket/log).",
        show_default=False,
        callback=_only_place,
        parser=_place,
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
        help="Properties file: a Kafka client's TLS, login and timeouts, or object.* settings for a URL.",
        show_default=False,
    ),
]

_IMPATIENT: Final = {"default.api.timeout.ms": "15000", "delivery.timeout.ms": "30000"}
"""The defaults for interactive use; a properties file may override them."""


@contextmanager
def open_cluster(
    path: Path | ObjectUrl | None, bootstrap_server: str | None, command_config: Path | None, *, create: bool = False
) -> Iterator[Cluster]:
    """The log while the block runs: in the directory, on object storage or at brokers. One of them must be given."""
    if bootstrap_server is None:
        if isinstance(path, ObjectUrl):
            with open_object_log(path, command_config, create=create) as objects:
                yield objects
            return
        if command_config is not None:
            raise UsageError("--command-config needs --bootstrap-server, or --path with the URL of an object store")
        if path is None:
            raise UsageError("no log is given: give --path DIR, or --bootstrap-server HOST:PORT")
        with open_log(path, create=create, way_to_brokers="--bootstrap-server") as cluster:
            yield cluster
        return
    # Imported here, so that --help and a wrong argument are answered at once.
    from broker_core.client.cluster_client import open_remote

    with open_remote(client_settings_of(bootstrap_server, command_config)) as client:
        yield client


def client_settings_of(bootstrap_server: str, command_config: Path | None) -> ClientSettings:
    """Of the addresses and the properties file. Raises UsageError."""
    from broker_core.model.client_settings import CLIENT_SETTING_NAMES, parse_client_settings

    properties = read_properties(command_config) if command_config is not None else {}
    without_effect = sorted(properties.keys() - set(CLIENT_SETTING_NAMES))
    if without_effect:
        from broker_core.cli.screen import note  # rich loads slowly

        note(f"{command_config}: ignored settings: {', '.join(without_effect)}")
    try:
        return parse_client_settings({**_IMPATIENT, **properties, "bootstrap.servers": bootstrap_server})
    except InvalidConfigError as error:
        where = f"{command_config}: " if command_config is not None else ""
        raise UsageError(where + error.message.replace("bootstrap.servers", "--bootstrap-server", 1)) from error
