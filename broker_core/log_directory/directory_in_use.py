"""A log directory that a process has open, as those see it who use it: a `LogDirectory`, or one that another part of
the process holds."""

from __future__ import annotations

from typing import Protocol

from broker_core.log_directory.meta_properties import MetaProperties
from broker_core.ports import Locks


class DirectoryInUse(Protocol):
    """`is_held_alone`: no other process writes."""

    @property
    def path(self) -> str: ...

    @property
    def properties(self) -> MetaProperties: ...

    @property
    def locks(self) -> Locks: ...

    @property
    def is_writable(self) -> bool: ...

    @property
    def is_held_alone(self) -> bool: ...

    def close(self) -> None: ...
