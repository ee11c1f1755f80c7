"""Lock files in memory, and a time that passes only while somebody sleeps: for a simulated disk."""

from __future__ import annotations

from collections import defaultdict

from broker_core.ports import LockMode


class MemoryLocks:
    """All who use one directory share it. `slept_seconds`: how long they waited for one another."""

    def __init__(self) -> None:
        self.held: dict[str, dict[int, LockMode]] = defaultdict(dict)
        self.opened_count = 0
        self.slept_seconds = 0.0

    def open(self, path: str, mode: LockMode, *, creates: bool) -> MemoryLockFile:
        self.opened_count += 1
        return MemoryLockFile(self.held[path], self.opened_count)

    def monotonic_seconds(self) -> float:
        return self.slept_seconds

    def sleep(self, seconds: float) -> None:
        self.slept_seconds += seconds


class MemoryLockFile:
    def __init__(self, held: dict[int, LockMode], number: int) -> None:
        self._held, self._number = held, number

    def lock(self, mode: LockMode, *, waits: bool) -> bool:
        others = [other for number, other in self._held.items() if number != self._number]
        if others and (mode is LockMode.EXCLUSIVE or LockMode.EXCLUSIVE in others):
            assert not waits, "in one thread nothing could release it"
            return False
        self._held[self._number] = mode
        return True

    def unlock(self) -> None:
        self._held.pop(self._number, None)

    def close(self) -> None:
        self.unlock()
