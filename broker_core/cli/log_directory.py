"""The option --path, and opening the log at it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from broker_core.cli.error_sentence import UsageError
from broker_core.cli.object_place import ObjectUrl
from broker_core.model.exceptions import DirectoryLockedError, DirectoryReadOnlyError, InvalidConfigError
from broker_core.model.log_location import local_directory
from broker_core.model.store_settings import is_object_url

if TYPE_CHECKING:
    from broker_core.embedded.embedded_cluster import EmbeddedCluster

PATH_VARIABLE: Final = "STREAMLOG_PATH"

_OPTION_OF_PROGRAMS: Final = "kafka.bootstrap.servers"


def parse_place(location: str, *, way_to_brokers: str = "") -> Path | ObjectUrl:
    """The log of --path, where object storage is supported too. Raises UsageError for any other URL."""
    if is_object_url(location):
        return ObjectUrl(location)
    return parse_directory(location, way_to_brokers=f", the URL of an object store{way_to_brokers}")


def parse_directory(location: str, *, way_to_brokers: str = "") -> Path:
    """The directory of --path. Raises UsageError for a URL of anything but a local directory."""
    if is_object_url(location):
        raise UsageError(f"--path {location}: a broker serves a local directory, not a log on object storage")
    try:
        return Path(local_directory(location))
    except InvalidConfigError as error:
        raise UsageError(f"--path {error.message}; give a local directory{way_to_brokers}") from error


LogPath = Annotated[
    Any,  # Path | ObjectUrl: the parser decides, and typer takes no unions
    typer.Option(
        "--path",
        envvar=PATH_VARIABLE,
        metavar="DIR|URL",
        help="The log directory, or the URL of a log on object storage (s3://bucket/log).",
        show_default=False,
        parser=parse_place,
    ),
]


@contextmanager
def open_log(
    path: Path, *, create: bool = False, way_to_brokers: str = "a command that takes --bootstrap-server"
) -> Iterator[EmbeddedCluster]:
    """The log in a directory while the block runs. Without `create` the log must exist.

    `way_to_brokers`: the alternative in the error message if a broker has the directory open.
    """
    # Imported here, so that --help and a wrong argument are answered at once.
    from broker_core.embedded.embedded_cluster import open_embedded

    try:
        with open_embedded(str(path.absolute()), create=create) as cluster:
            yield cluster
    except (DirectoryLockedError, DirectoryReadOnlyError) as error:
        message = error.message.replace(_OPTION_OF_PROGRAMS, way_to_brokers)
        raise type(error)(message, **error.fields) from error


def parse_settings(items: list[str], *, option: str) -> dict[str, str]:
    """`k=v` items as a mapping: the last one of a repeated name is valid."""
    return dict(parse_pairs(items, option=option))


def parse_pairs(items: list[str], *, option: str) -> list[tuple[str, str]]:
    """`k=v` items in their order, with repeated names. The value may contain equal signs."""
    pairs: list[tuple[str, str]] = []
    for item in items:
        name, separator, value = item.partition("=")
        if not separator or not name.strip():
            raise UsageError(f"{option} {item!r} is not NAME=VALUE")
        pairs.append((name.strip(), value))
    return pairs
