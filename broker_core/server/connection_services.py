"""The objects that all connections of a node share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker_core.handlers.call import Peer, Send
from broker_core.ports import Clock
from broker_core.protocol.connection import Request
from broker_core.server.answer_memory import AnswerMemory
from broker_core.server.request_observer import RequestObserver

Handle = Callable[[Request, Peer, Send, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionServices:
    """`handle` answers a request through the given function, now or later. `on_gone` is called with the id of each
    closed connection: its waiting requests need no answer any more."""

    handle: Handle
    clock: Clock
    memory: AnswerMemory
    observer: RequestObserver | None
    max_frame_bytes: int
    on_gone: Callable[[int], None]
