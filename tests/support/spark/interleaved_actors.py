"""Actors that share a cluster, one call at a time, in an order that a test draws.

Each actor is a thread that waits before every call of the cluster until the scheduler lets it go on, so there is never
more than one running and a drawn order is repeated exactly. An actor that is killed goes no further than the call it
waits at, as a process that gets SIGKILL between two of its requests.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class ActorKilled(BaseException):
    """Ends a killed actor's thread. Nothing in the product catches it."""


class Actor:
    def __init__(self, name: str, body: Callable[[Actor], None]) -> None:
        self.name = name
        self.is_done = False
        self.last_call = ""
        self.error: BaseException | None = None
        self._is_killed = False
        self._waits_for: Callable[[], bool] = lambda: True
        # Locks, not semaphores: they are a quarter as expensive, and at any time one side waits for the other.
        self._may_go, self._has_stopped = threading.Lock(), threading.Lock()
        self._may_go.acquire()
        self._has_stopped.acquire()
        self._thread = threading.Thread(target=self._run, args=(body,), name=name, daemon=True)
        self._thread.start()

    # -- for the scheduler --

    @property
    def is_ready(self) -> bool:
        return not self.is_done and self._waits_for()

    @property
    def is_running(self) -> bool:
        """Whether it is the caller."""
        return threading.current_thread() is self._thread

    def go_on(self) -> None:
        """Runs the actor to its next call, or to its end."""
        self._may_go.release()
        self._has_stopped.acquire()

    def kill(self) -> None:
        self._is_killed = True
        self.go_on()

    # -- for the actor --

    def pause(self, until: Callable[[], bool] = lambda: True) -> None:
        """Lets others run, and goes on when `until()` holds and the scheduler says so."""
        self._waits_for = until
        self._has_stopped.release()
        self._may_go.acquire()
        if self._is_killed:
            raise ActorKilled(self.name)

    def _run(self, body: Callable[[Actor], None]) -> None:
        self._may_go.acquire()
        try:
            if not self._is_killed:
                body(self)
        except ActorKilled:
            pass
        except BaseException as error:
            self.error = error
        finally:
            self.is_done = True
            self._has_stopped.release()


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
