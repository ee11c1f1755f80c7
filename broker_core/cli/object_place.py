"""A log on object storage as the target of commands: its URL, its settings, and the open log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker_core.cli.error_sentence import UsageError
from broker_core.cli.properties_file import read_properties
from broker_core.model.exceptions import InvalidConfigError

if TYPE_CHECKING:
    from broker_core.object_cluster.object_cluster import ObjectCluster

OPTION_PREFIX: Final = "object."


@dataclass(frozen=True, slots=True)
class ObjectUrl:
    """The URL of a log on object storage, as it was typed."""

    text: str

    def __str__(self) -> str:
        return self.text


@contextmanager
def open_object_log(
    url: ObjectUrl, command_config: Path | None, *, create: bool = False, maintains: bool = True
) -> Iterator[ObjectCluster]:
    """The log while the block runs. `command_config` has `object.*` settings; others are ignored with a note."""
    # Imported here, so that --help and a wrong argument are answered at once.
    from broker_core.object_cluster.open_objects import open_objects

    given = read_properties(command_config) if command_config is not None else {}
    try:
        cluster = open_objects(url.text, _object_settings(given, command_config), create=create, maintains=maintains)
    except InvalidConfigError as error:
        raise UsageError(error.message) from error
    with cluster:
        yield cluster


def _object_settings(given: Mapping[str, str], file: Path | None) -> dict[str, str]:
    ignored = sorted(name for name in given if not name.startswith(OPTION_PREFIX))
    if ignored:
        from broker_core.cli.screen import note

        note(f"{file}: ignored settings: {', '.join(ignored)}")
    return {name: value for name, value in given.items() if name.startswith(OPTION_PREFIX)}
