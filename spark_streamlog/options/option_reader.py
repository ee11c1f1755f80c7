"""Reads the options that Spark passes: names are case-insensitive, values keep their case.

    options = OptionReader(given, role="source")
    topic = options.text("topic")                     each accessor registers its name as known
    wanted = options.integer("minPartitions", minimum=1)
    options.finish()                                  raises STREAMLOG_INVALID_OPTIONS with every complaint at once

An accessor records a complaint for an invalid value and returns the default, so one attempt shows all errors. `finish`
refuses an option whose name no accessor has read, with the nearest known name; those that Spark itself adds are
ignored. Spark passes every name in lower case: messages show the documented spelling, and an unknown name as it came.
"""

from __future__ import annotations

import difflib
import enum
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from broker_core.model.client_settings import ClientSettings
from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.log_location import local_directory
from spark_streamlog.errors import condition_error
from spark_streamlog.options.object_options import ObjectTarget, object_target
from spark_streamlog.options.remote_options import remote_settings
from spark_streamlog.planning.quantity import duration_ms, size_bytes

BOOTSTRAP_SERVERS = "kafka.bootstrap.servers"
TABLE_OPTION = "table"

MAX_LONG = 2**63 - 1
MAX_INTEGER = 2**31 - 1

SPARKS_OWN = frozenset({"checkpointlocation", "queryname", "path", "paths", "location", "owner", "provider", "comment"})
"""Added by load(), save(), start(), by DataStreamWriter and by CREATE TABLE … USING, not by the user's option()."""

SPARKS_OWN_PREFIX = "option."
"""CREATE TABLE repeats every option under this prefix."""


Parsed = TypeVar("Parsed")


def asks_for_table(given: Mapping[str, str]) -> bool:
    """Whether the options are those of a metadata table. Names of options are case-insensitive."""
    return any(name.lower() == TABLE_OPTION for name in given)


class QueryKind(enum.Enum):
    """What the options are read for. Spark requests a schema before it is known whether the query is a stream."""

    BATCH = "batch"
    STREAM = "streaming"
    NOT_YET_KNOWN = "not yet known"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTarget:
    """Where the log is: in a directory, on object storage or at brokers. Hashable: open logs are cached by it."""

    path: str = ""
    """Absolute path of a log directory; empty for the other two."""
    objects: ObjectTarget | None = None
    brokers: ClientSettings | None = None

    @property
    def is_directory(self) -> bool:
        return self.objects is None and self.brokers is None

    def __str__(self) -> str:
        return self.path if self.is_directory else str(self.objects or self.brokers)


class OptionReader:
    """See the module. `role` is used in messages: source or sink."""

    def __init__(self, given: Mapping[str, str], *, role: str) -> None:
        self.role = role
        self.complaints: list[str] = []
        self.ignored: list[str] = []
        """Options of the user that are ignored."""
        self._given = {name.lower(): value for name, value in given.items()}
        self._spelled = {name.lower(): name for name in given}
        self._known: dict[str, str] = {}

    def text(self, name: str) -> str | None:
        """The value unchanged, or None."""
        self._known[name.lower()] = name
        return self._given.get(name.lower())

    def texts_behind(self, prefix: str) -> dict[str, str]:
        """The values of all options with this prefix, by the rest of the name in lower case."""
        names = [name for name in self._given if name.startswith(prefix.lower()) and name != prefix.lower()]
        self._known.update({name: name for name in names})
        return {name[len(prefix) :]: self._given[name] for name in names}

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.strip().lower() not in ("true", "false"):
            self.complain(f"{name} must be true or false, not {value!r}")
        return value.strip().lower() == "true"

    def integer(self, name: str, *, minimum: int, maximum: int = MAX_LONG) -> int | None:
        """None if it is missing or invalid."""
        value = self.text(name)
        if value is None:
            return None
        if not re.fullmatch(r"[+-]?0*[0-9]{1,19}", value.strip()) or not minimum <= int(value) <= maximum:
            self.complain(f"{name} must be a whole number from {minimum} to {maximum}, not {_shown(value)}")
            return None
        return int(value)

    def choice(self, name: str, choices: Collection[str], *, default: str) -> str:
        """One of the choices, in the case of `choices`."""
        value = self.text(name)
        if value is None:
            return default
        by_folded_name = {choice.lower(): choice for choice in choices}
        if value.strip().lower() not in by_folded_name:
            self.complain(f"{name} must be one of {', '.join(choices)}, not {value!r}")
        return by_folded_name.get(value.strip().lower(), default)

    def duration_ms(self, name: str, *, default_ms: int) -> int:
        """Spark's durations: `15m`, `10s`, `250ms`; a bare number is milliseconds. The number has 19 digits at most."""
        value = self.text(name)
        if value is None:
            return default_ms
        found = duration_ms(value)
        if found is None:
            self.complain(f"{name} must be a duration such as 15m, 10s or 250ms, not {_shown(value)}")
            return default_ms
        return found

    def size_bytes(self, name: str, *, minimum: int) -> int | None:
        """Spark's sizes: `64MB`, `512k`; a bare number is bytes. None if it is missing or invalid."""
        value = self.text(name)
        if value is None:
            return None
        found = size_bytes(value)
        if found is None or not minimum <= found <= MAX_LONG:
            self.complain(
                f"{name} must be a size of at least {minimum} byte, such as 64MB or 512k, not {_shown(value)}"
            )
            return None
        return found

    def parsed(self, name: str, parse: Callable[[str], Parsed]) -> Parsed | None:
        """The value as parsed by `parse`; its ValueError becomes a complaint. None if it is missing or invalid."""
        value = self.text(name)
        if value is None:
            return None
        try:
            return parse(value)
        except ValueError as error:
            self.complain(f"{name}: {error}")
            return None

    def refuse(self, name: str, reason: str) -> None:
        """Registers the name as known but not supported, and complains if it is set."""
        if self.text(name) is not None:
            self.complain(f"{name} {reason}")

    def ignore(self, name: str) -> None:
        """Registers the name as known but ignored, and records it if it is set."""
        if self.text(name) is not None and name not in self.ignored:
            self.ignored.append(name)

    def is_known(self, name: str) -> bool:
        """Whether an accessor has read it."""
        return name.lower() in self._known

    def spell(self, names: Iterable[str]) -> None:
        """Names as they are documented, for messages about options that are not read here."""
        self._spelled.update({name.lower(): name for name in names if name.lower() in self._spelled})

    def complain(self, message: str) -> None:
        self.complaints.append(message)

    def log_target(self) -> LogTarget:
        """From `path`; an invalid target is a complaint, and the result must not be used then."""
        path = self.text("path")
        self.refuse("paths", "names several directories: a query reads one log; set path")
        brokers = remote_settings(self)
        if self.text(BOOTSTRAP_SERVERS) is not None:
            if path is not None:
                self.complain(
                    f"path names a directory and {BOOTSTRAP_SERVERS} names brokers: a query uses one log; set only "
                    "one of them"
                )
            return LogTarget(brokers=brokers)
        objects = object_target(self, path)
        if objects is not None:
            return LogTarget(objects=objects)
        if path is None and not self.complaints:
            self.complain(
                "path is missing: give the log directory or its URL, as in "
                f"{'load' if self.role == 'source' else 'save'}(path), or set {BOOTSTRAP_SERVERS}"
            )
            if not self._given:
                self.complain(
                    "no options arrived: Spark passes none for a table in its catalog (CREATE TABLE … AS, INSERT "
                    "INTO a table). Write with df.write.format('streamlog'), or INSERT INTO a view created by CREATE"
                    " TEMPORARY VIEW … USING streamlog OPTIONS (path …, subscribe …, topic …)"
                )
        return LogTarget(path=self._local_path(path or ""))

    def finish(self) -> None:
        """Refuses options that no accessor has read, then raises all complaints together."""
        for name in sorted(self._given.keys() - self._known.keys() - SPARKS_OWN):
            if not name.startswith(SPARKS_OWN_PREFIX):
                shown = self._spelled[name]
                self.complain(f"{shown} is not an option of the streamlog {self.role}{self._nearest(name)}")
        if self.complaints:
            raise condition_error(
                "STREAMLOG_INVALID_OPTIONS",
                role=self.role,
                count=len(self.complaints),
                complaints="; ".join(self.complaints),
            )

    def _nearest(self, name: str) -> str:
        # `partitions` is meant as `topic.partitions`, and not as the more alike `minPartitions`.
        ends = [known for known in self._known if known.endswith(f".{name}")]
        near = ends or difflib.get_close_matches(name, list(self._known), n=1)
        return f" (did you mean {self._known[near[0]]}?)" if near else ""

    def _local_path(self, path: str) -> str:
        # Spark turns a table's location into `file:/x`; the same directory must be the same target.
        try:
            return os.path.abspath(local_directory(path))
        except InvalidConfigError as error:
            self.complain(
                f"path: {error.message}; give a local directory or the URL of an object store, or set "
                f"{BOOTSTRAP_SERVERS} to use brokers"
            )
            return ""


def _shown(value: str, limit: int = 60) -> str:
    """Shortened for a message: a value of thousands of characters would hide the rest of it."""
    return repr(value) if len(value) <= limit else f"{value[:limit]!r}… ({len(value)} characters)"
