"""What a child process may not inherit.

A fork copies file descriptors, whose locks then belong to parent and child together, mutexes in whatever state another
thread of the parent had them, and blocks of ids that the parent goes on using. Spark's Python daemon forks each of its
workers, so this is the rule there and not the exception. Whoever keeps such things registers here, and is told in the
child before any other code runs.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class ForkAware(Protocol):
    """Something with state that belongs to one process."""

    def reset_after_fork(self) -> None:
        """Runs in the child, where no other thread exists. Closes inherited descriptors without a word to the file
        system (no unlock, no write: both would reach into the parent) and restarts."""
        ...


_watched: weakref.WeakSet[ForkAware] = weakref.WeakSet()


def watch_for_fork(owner: ForkAware) -> None:
    """Has `owner.reset_after_fork()` called in every child that is forked while `owner` lives."""
    _watched.add(owner)


def _reset_all() -> None:
    for owner in list(_watched):
        owner.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all)
