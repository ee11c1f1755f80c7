"""Resets state that a child process must not inherit.

A fork copies file descriptors, whose locks the parent and the child then share, mutexes that another thread of the
parent may hold, and blocks of ids that the parent continues to use. Spark's Python daemon forks each of its workers, so
this happens all the time there. An object with such state registers here and is reset in the child before any other
code runs.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class ForkAware(Protocol):
    """Something with state that belongs to one process."""

    def reset_after_fork(self) -> None:
        """Runs in the child, where no other thread exists. Only closes inherited descriptors (no unlock and no write:
        both would affect the parent) and restarts."""
        ...


_watched: weakref.WeakSet[ForkAware] = weakref.WeakSet()


def watch_for_fork(owner: ForkAware) -> None:
    """Registers `owner`: every child that is forked during its life calls `owner.reset_after_fork()`."""
    _watched.add(owner)


def _reset_all() -> None:
    for owner in list(_watched):
        owner.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all)
