"""CPU time and memory of process trees, from /proc: sampled while they live, and `wait4` for what ends.

CPU time of a tree is that of its living processes and of the children that they have waited for, so nothing that ended
in between is lost. Memory is the proportional set size: pages that forked workers share are counted once.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SAMPLE_SECONDS = 0.1
LARGEST_SHARE = 0.02
"""Of one core for sampling: to add up the memory of a large process takes the kernel 20 ms for each GB."""
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeUsage:
    cpu_s: float
    peak_bytes: int


class ProcessWatch:
    """The trees under some root processes, by label, and what they used while `measured`."""

    def __init__(self) -> None:
        self._roots: dict[str, int] = {}
        self._lock = threading.Lock()
        self._finished: dict[str, float] = {}
        self.last: dict[str, TreeUsage] = {}

    def add(self, label: str, pid: int) -> None:
        with self._lock:
            self._roots[label] = pid

    def remove(self, label: str) -> None:
        with self._lock:
            self._roots.pop(label, None)

    def finish(self, label: str, cpu_s: float) -> None:
        """Instead of `remove`, of a process that has ended: what it used; several with one label add up."""
        self.remove(label)
        self._finished[label] = self._finished.get(label, 0.0) + cpu_s

    @contextmanager
    def measured(self, has_part: Callable[[str], bool] = lambda label: True) -> Iterator[None]:
        """`last` holds the usage of the body, once it has ended, by those labels that have a part in it."""
        self._finished = {}
        peaks: dict[str, int] = {}
        begin = self._look(has_part, peaks)
        ended = threading.Event()
        sampler = threading.Thread(target=self._sample, args=(ended, has_part, peaks), daemon=True)
        sampler.start()
        try:
            yield
        finally:
            ended.set()
            sampler.join()
            end = self._look(has_part, peaks)
            seconds = {label: end[label] - begin.get(label, 0.0) for label in end} | self._finished
            self.last = {
                label: TreeUsage(cpu_s=cpu_s, peak_bytes=peaks.get(label, 0)) for label, cpu_s in seconds.items()
            }

    def _sample(self, ended: threading.Event, has_part: Callable[[str], bool], peaks: dict[str, int]) -> None:
        spent = 0.0
        while not ended.wait(max(SAMPLE_SECONDS, spent / LARGEST_SHARE)):
            begin = time.thread_time()
            self._look(has_part, peaks)
            spent = time.thread_time() - begin

    def _look(self, has_part: Callable[[str], bool], peaks: dict[str, int]) -> dict[str, float]:
        """CPU seconds so far, by label; raises the `peaks`."""
        with self._lock:
            roots = {label: pid for label, pid in self._roots.items() if has_part(label)}
        children = _children()
        seconds = {}
        for label, root in roots.items():
            pids = list(_tree(root, children))
            seconds[label] = sum(cpu_seconds(pid) for pid in pids)
            peaks[label] = max(peaks.get(label, 0), sum(memory_bytes(pid) for pid in pids))
        return seconds


def cpu_seconds(pid: int) -> float:
    """Of a process and the children that it has waited for; 0 for one that is gone."""
    fields = _stat(pid)
    return sum(int(ticks) for ticks in fields[11:15]) / _TICKS if fields else 0.0


def memory_bytes(pid: int) -> int:
    """Proportional set size; 0 for a process that is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def wait_for_cpu_seconds(pid: int) -> tuple[int, float]:
    """Waits for a child to end: its exit status, and the CPU time of it and its own children.

    What the kernel says of its largest size is of no use: it counts what the parent held at the fork.
    """
    _, status, used = os.wait4(pid, 0)
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime


def _stat(pid: int) -> list[str]:
    """The fields behind the command's name, which may hold anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := _stat(int(entry))):
            found.setdefault(int(fields[1]), []).append(int(entry))
    return found


def _tree(root: int, children: dict[int, list[int]]) -> Iterator[int]:
    yield root
    for child in children.get(root, ()):
        yield from _tree(child, children)
