"""The store as one actor sees it: others run before every request, and any request may go wrong.

refused      503 before anything happens: ObjectThrottledError
lost         it is applied, and the answer does not come: ObjectOutcomeUnknownError, of a read unavailable
repeated     it is applied, its answer is lost, and the client library sends it again: what comes is the second answer
late         no answer comes; the request is applied many steps later, or when its sender is long dead
killed       the actor dies before the request or behind it; what was sent may still arrive
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from support.objects.in_memory_objects import InMemoryObjects
from support.spark.interleaved_actors import Actor, ActorKilled

from broker_core.model.exceptions import (
    ObjectOutcomeUnknownError,
    ObjectStoreUnavailableError,
    ObjectThrottledError,
    StreamlogError,
)

READ_PAUSE_CHANCE = 0.3


@dataclass(frozen=True)
class FaultRates:
    """Chances of each kind for a request, 0 to 1."""

    refused: float = 0.0
    lost: float = 0.0
    repeated: float = 0.0
    late: float = 0.0


class FaultyObjects:
    def __init__(
        self,
        store: InMemoryObjects,
        actor: Actor,
        dice: random.Random,
        rates: FaultRates,
        *,
        send_late: Callable[[Callable[[], object]], None],
        on_delete: Callable[[str], None],
        on_fault: Callable[[str], None],
        read_pause_chance: float = READ_PAUSE_CHANCE,
    ) -> None:
        self.url = store.url
        self.lists_from_start = store.lists_from_start
        self._store = store
        self._actor = actor
        self._dice = dice
        self._rates = rates
        self._send_late = send_late
        self._on_delete = on_delete
        self._on_fault = on_fault
        self._read_pause_chance = read_pause_chance

    def get(self, path: str) -> Any:
        return self._read(lambda: self._store.get(path), path)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> Any:
        return self._read(lambda: self._store.get_ranges(path, ranges), path)

    def list_after(self, prefix: str, after: str = "") -> Iterator[Any]:
        return iter(self._read(lambda: list(self._store.list_after(prefix, after)), prefix))

    def put(self, path: str, data: Any) -> None:
        content = bytes(data)
        self._write(lambda: self._store.put(path, content), path)

    def put_if_absent(self, path: str, data: Any) -> str:
        content = bytes(data)
        return self._write(lambda: self._store.put_if_absent(path, content), path)

    def put_if_matches(self, path: str, data: Any, etag: str) -> str:
        content = bytes(data)
        return self._write(lambda: self._store.put_if_matches(path, content, etag), path)

    def delete(self, paths: Sequence[str]) -> None:
        def delete() -> None:
            for path in paths:
                self._on_delete(path)
            self._store.delete(paths)

        self._write(delete, paths[0] if paths else "")

    def upload(self, path: str) -> FaultyUpload:
        return FaultyUpload(self, path)

    def remove_abandoned(self, before_ms: int) -> int:
        return 0

    def close(self) -> None:
        pass

    def _read(self, apply: Callable[[], Any], path: str) -> Any:
        # What others do between two reads matters far less often than what they do between a read and a write.
        if self._dice.random() < self._read_pause_chance:
            self._actor.pause()
        if self._dice.random() < self._rates.refused:
            self._on_fault("refused")
            raise ObjectThrottledError(path)
        if self._dice.random() < self._rates.lost:
            self._on_fault("lost read")
            raise ObjectStoreUnavailableError(path)
        return apply()

    def _write(self, apply: Callable[[], Any], path: str) -> Any:
        try:
            self._actor.pause()
        except ActorKilled:
            if self._dice.random() < 0.5:
                self._on_fault("arrived after the kill")
                self._send_late(apply)
            raise
        chance = self._dice.random()
        for name, rate in (
            ("refused", self._rates.refused),
            ("lost", self._rates.lost),
            ("repeated", self._rates.repeated),
            ("late", self._rates.late),
        ):
            if chance < rate:
                self._on_fault(name)
                return self._go_wrong(name, apply, path)
            chance -= rate
        return apply()

    def _go_wrong(self, name: str, apply: Callable[[], Any], path: str) -> Any:
        if name == "refused":
            raise ObjectThrottledError(path)
        if name == "late":
            self._send_late(apply)
            raise ObjectOutcomeUnknownError(path)
        try:
            answer = apply()
        except StreamlogError:
            if name == "repeated":
                raise
            raise ObjectOutcomeUnknownError(path) from None
        if name == "lost":
            raise ObjectOutcomeUnknownError(path)
        self._actor.pause()
        del answer
        return apply()


class FaultyUpload:
    """Parts cost a pause; what counts is the request that ends it."""

    def __init__(self, store: FaultyObjects, path: str) -> None:
        self._faulty = store
        self._path = path
        self._parts: list[bytes] = []

    def write(self, data: Any) -> None:
        self._parts.append(bytes(data))

    def finish(self) -> None:
        self._faulty.put(self._path, b"".join(self._parts))

    def abort(self) -> None:
        pass
