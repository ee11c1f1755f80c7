"""Random faults of the sink's processes, besides kills at known steps.

A process dies at any instant. A process is stopped (SIGSTOP at a step, where it holds no lock), counts as lost, and
continues after others have replaced it: a zombie. A task runs twice at once, as two attempts (speculation) or as the
same attempt (a retried stage). Abort is called or not.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from exactly_once.kill_orders import Kill, KillFolder
from exactly_once.kill_stories import ABORT_STEPS, COMMIT_STEPS, PLAN_STEPS, TASK_STEPS, kill_in_write, task_kill
from fuzz.worker_process import LoopingProcess, is_running

LONGEST_WAIT_SECONDS = 0.08
"""A little longer than the life of any of the processes on an idle machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """The faults of one run."""

    kills: tuple[Kill, ...] = ()
    mortal_roles: frozenset[str] = frozenset()
    copies: Sequence[int] = (0,)
    has_second_driver: bool = False
    repeats_last_batch: bool = False
    is_abort_called: bool = True


def random_plot(rng: random.Random) -> Plot:
    return Plot(
        kills=rng.choice(((), (_stop_somewhere(rng),), (_die_in_some_write(rng),))),
        mortal_roles=frozenset(rng.sample(("plan", "task", "commit", "abort"), rng.randrange(1, 3))),
        copies=rng.choice(((0,), (0,), (0, 1), (0, 0))),
        has_second_driver=rng.random() < 0.25,
        repeats_last_batch=rng.random() < 0.15,
        is_abort_called=rng.random() < 0.5,
    )


def _stop_somewhere(rng: random.Random) -> Kill:
    step = rng.choice((*PLAN_STEPS, *TASK_STEPS, *TASK_STEPS, *COMMIT_STEPS, *ABORT_STEPS))
    if step in TASK_STEPS:
        return task_kill(step, task=rng.randrange(3), action="stop")
    return Kill(step=step, action="stop")


def _die_in_some_write(rng: random.Random) -> Kill:
    """In the process that is the first to reach its nth write of any file."""
    return kill_in_write("*", ".", rng.randrange(1, 16), rng.choice(("before", "torn", "after")))


class RandomDisturber:
    """The faults of one run. Zombies continue just before a commit, or by `wake`."""

    def __init__(self, rng: random.Random, plot: Plot, kills: KillFolder) -> None:
        self._rng = rng
        self._plot = plot
        self._kills = kills
        self._zombies: list[int] = []
        self.killed: list[int] = []

    def on_start(self, role: str, process: LoopingProcess) -> None:
        if role in self._plot.mortal_roles and self._rng.random() < 0.6:
            # The reader of the process is this one, so its id is not given to another one meanwhile.
            timer = threading.Timer(self._rng.random() * LONGEST_WAIT_SECONDS, self._kill, (process.pid,))
            timer.daemon = True
            timer.start()

    def _kill(self, pid: int) -> None:
        if is_running(pid):
            os.kill(pid, signal.SIGKILL)
            self.killed.append(pid)

    def is_lost(self, process: LoopingProcess) -> bool:
        if not any(kill.action == "stop" for kill in self._plot.kills):
            return False
        if any(hit["pid"] == process.pid and hit["action"] == "stop" for hit in self._kills.hits()):
            self._zombies.append(process.pid)
            return True
        return False

    def first_attempts(self, task: int) -> Sequence[int]:
        return self._plot.copies if task == 1 else (0,)

    def before_commit(self) -> None:
        if self._rng.random() < 0.5:
            self.wake()

    def is_abort_called(self) -> bool:
        return self._plot.is_abort_called

    def wake(self) -> None:
        for pid in self._zombies:
            if is_running(pid):
                os.kill(pid, signal.SIGCONT)
        self._zombies.clear()
