"""The interface of an observer of requests and their answers, such as the metrics."""

from __future__ import annotations

from typing import Protocol

from kio.static.protocol import ResponsePayload

from broker_core.protocol.connection import Request


class RequestObserver(Protocol):
    """`message` is None if the request gets no answer. Sizes are of frames."""

    def on_answer(
        self, request: Request, message: ResponsePayload | None, answer_bytes: int, seconds: float
    ) -> None: ...
