"""The options of a log on object storage: a URL as `path`, and settings of the store with the prefix `object.`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.store_settings import is_object_url, parse_store_settings

PREFIX: Final = "object."


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectTarget:
    """A log on object storage. Hashable. `settings` holds secrets and is left out of repr and str."""

    url: str
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return self.url


class ObjectOptions(Protocol):
    """The used part of an `OptionReader`."""

    def texts_behind(self, prefix: str) -> dict[str, str]: ...

    def complain(self, message: str) -> None: ...


def object_target(options: ObjectOptions, path: str | None) -> ObjectTarget | None:
    """None if `path` is not a URL of an object store. Errors become complaints of `options`."""
    given: Mapping[str, str] = {PREFIX + name: value for name, value in options.texts_behind(PREFIX).items()}
    if path is None or not is_object_url(path):
        for name in sorted(given):
            options.complain(f"{name} needs a log on object storage, whose path is a URL such as s3://bucket/log")
        return None
    try:
        settings = parse_store_settings(path, given)
    except InvalidConfigError as error:
        options.complain(error.message)
        return ObjectTarget(url=path)
    return ObjectTarget(url=settings.url, settings=tuple(sorted(given.items())))
