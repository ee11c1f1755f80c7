"""Actors that share a cluster, one call at a time, in an order that a test draws.

Each actor is a greenlet that stops before every call of the cluster until the scheduler lets it go on. So there is
never more than one running, a drawn order is repeated exactly, and a switch costs about a microsecond; threads that
hand over to one another cost many times as much. All actors are in one thread, therefore nothing that they share may be
an RLock or a thread-local value.

An actor that is killed goes no further than the call it stopped at, as a process that gets SIGKILL between two of its
requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from greenlet import getcurrent, greenlet


class ActorKilled(BaseException):
    """Ends a killed actor. Nothing in the product catches it."""


class Actor:
    def __init__(self, name: str, body: Callable[[Actor], None]) -> None:
        self.name = name
        self.is_done = False
        self.last_call = ""
        self.error: BaseException | None = None
        self._is_killed = False
        self._waits_for: Callable[[], bool] | None = None
        self._body = body
        self._greenlet = greenlet(self._run)

    # -- for the scheduler --

    @property
    def is_ready(self) -> bool:
        return not self.is_done and (self._waits_for is None or self._waits_for())

    @property
    def is_running(self) -> bool:
        """Whether it is the caller."""
        return getcurrent() is self._greenlet

    def go_on(self) -> None:
        """Runs the actor to its next call, or to its end."""
        self._greenlet.parent = getcurrent()
        self._greenlet.switch()

    def kill(self) -> None:
        self._is_killed = True
        self.go_on()

    # -- for the actor --

    def pause(self, until: Callable[[], bool] | None = None) -> None:
        """Lets others run, and goes on when `until()` holds and the scheduler says so."""
        self._waits_for = until
        self._greenlet.parent.switch()
        if self._is_killed:
            raise ActorKilled(self.name)

    def _run(self) -> None:
        try:
            if not self._is_killed:
                self._body(self)
        except ActorKilled:
            pass
        except BaseException as error:
            self.error = error
        finally:
            self.is_done = True


class PausingCluster:
    """The cluster as one actor sees it: before every call others may run."""

    def __init__(self, cluster: Any, actor: Actor) -> None:
        self._cluster = cluster
        self._actor = actor

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._cluster, name)
        if not callable(call):
            return call

        def pausing(*arguments: Any, **named: Any) -> Any:
            self._actor.pause()
            self._actor.last_call = name
            return call(*arguments, **named)

        return pausing
