"""What waits for the followers of a partition: appends until they are committed, deletions until all living replicas
have deleted as much."""

from __future__ import annotations

from collections.abc import Callable

from broker_core.broker.callback_errors import OnError
from broker_core.model.exceptions import StreamlogError

Call = Callable[..., None]
"""Calls a callback with its arguments; an error of it is logged."""


class ReplicaWaits:
    """Each is called back once."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._appends: dict[int, tuple[Callable[[], None], OnError]] = {}
        self._last_request_id = 0
        self._deletions: list[tuple[int, Callable[[int], None], OnError]] = []

    @property
    def has_deletions(self) -> bool:
        return bool(self._deletions)

    def add_append(self, on_done: Callable[[], None], on_error: OnError) -> int:
        """Returns the id for `answer_append`."""
        self._last_request_id += 1
        self._appends[self._last_request_id] = (on_done, on_error)
        return self._last_request_id

    def answer_append(self, request_id: int, error: StreamlogError | None) -> None:
        on_done, on_error = self._appends.pop(request_id)
        if error is None:
            self._call(on_done)
        else:
            self._call(on_error, error)

    def add_deletion(self, offset: int, on_done: Callable[[int], None], on_error: OnError) -> None:
        """`on_done` gets the low watermark once it has reached the offset."""
        self._deletions.append((offset, on_done, on_error))

    def answer_deletions(self, low_watermark: int) -> None:
        waiting, self._deletions = self._deletions, []
        for each in waiting:
            offset, on_done, _ = each
            if offset <= low_watermark:
                self._call(on_done, low_watermark)
            else:
                self._deletions.append(each)

    def refuse_deletions(self, error: StreamlogError) -> None:
        deletions, self._deletions = self._deletions, []
        for _, _, on_error in deletions:
            self._call(on_error, error)

    def refuse_all(self, error: StreamlogError) -> None:
        appends, self._appends = self._appends, {}
        for _, on_error in appends.values():
            self._call(on_error, error)
        self.refuse_deletions(error)
