"""Messages to bytes, by kio's writers, without a copy of what is large.

    parts = encode(header, request)         buffers to be sent one behind the other

Small fields are put together; a large one (the `records` of a produce request, which may be a memoryview) becomes a
part of its own, as it is. It must not change until it was sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from kio.serial import entity_writer
from kio.static.protocol import Entity
from typing_extensions import Buffer

_LARGE_BYTES: Final = 4096
"""From here on a part of its own costs less than a copy."""


class _Parts:
    """What kio's writers write to."""

    def __init__(self) -> None:
        self.done: list[Buffer] = []
        self._small = bytearray()

    def write(self, data: Any) -> None:
        if len(data) < _LARGE_BYTES:
            self._small += data
            return
        self.flush()
        self.done.append(data)

    def flush(self) -> None:
        if self._small:
            self.done.append(self._small)
            self._small = bytearray()


def encode(*entities: Entity) -> Sequence[Buffer]:
    """The structures one behind the other."""
    parts = _Parts()
    for entity in entities:
        entity_writer(type(entity))(cast(Any, parts), entity)
    parts.flush()
    return parts.done
