"""The option --path, and the door that it opens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from broker_core.cli.trouble import UsageTrouble

if TYPE_CHECKING:
    from broker_core.embedded.embedded_cluster import EmbeddedCluster

PATH_VARIABLE: Final = "STREAMLOG_PATH"

LogPath = Annotated[
    Path, typer.Option("--path", envvar=PATH_VARIABLE, metavar="DIR", help="The log directory.", show_default=False)
]


@contextmanager
def open_log(path: Path, *, create: bool = False) -> Iterator[EmbeddedCluster]:
    """The log in a directory while the block runs. Without `create` the directory must hold one."""
    # Loaded here, so that --help and a wrong argument answer at once.
    from broker_core.embedded.embedded_cluster import open_embedded

    cluster = open_embedded(str(path.absolute()), create=create)
    try:
        yield cluster
    finally:
        cluster.close()


def parse_settings(items: list[str], *, option: str) -> dict[str, str]:
    """`k=v` items as a mapping: of a name that comes again the last one counts."""
    return dict(parse_pairs(items, option=option))


def parse_pairs(items: list[str], *, option: str) -> list[tuple[str, str]]:
    """`k=v` items in their order, repeated names too. The value may hold further equal signs."""
    pairs: list[tuple[str, str]] = []
    for item in items:
        name, separator, value = item.partition("=")
        if not separator or not name.strip():
            raise UsageTrouble(f"{option} {item!r} is not of the form name=value")
        pairs.append((name.strip(), value))
    return pairs
