"""One client of a listener: reads requests, passes them to the handlers, sends the answers in the same order.

Several requests are in progress at a time, within the limits of `model.limits`. At a limit, and while the client does
not fetch its answers, the connection reads nothing more. Until a client of a SASL listener has logged in, its frames
must be small, and `ClientLogin` handles them. Invalid protocol data is logged in one line and closes the connection,
after the answers to earlier requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from typing_extensions import Buffer

from broker_core.handlers.call import Answer, ConnectionEnd, Peer, ThrottledAnswer
from broker_core.model.exceptions import MalformedMessageError
from broker_core.model.limits import (
    MAX_CONNECTION_REQUEST_BYTES,
    MAX_CONNECTION_REQUEST_COUNT,
    MAX_TURN_REQUEST_COUNT,
    MAX_WRITE_BUFFER_BYTES,
)
from broker_core.protocol.api_table import api_label
from broker_core.protocol.connection import Request, ServerSide, response_frame
from broker_core.server.answer_queue import AnswerQueue, QueuedAnswer
from broker_core.server.answer_sender import HIGH_WATER_BYTES, AnswerSender, DirectSocket
from broker_core.server.client_mute import ClientMute, ReadTransport
from broker_core.server.connection_services import ConnectionServices
from broker_core.server.connection_states import ConnectionState, assert_may_follow

if TYPE_CHECKING:
    from broker_core.server.client_login import ClientLogin, LoginReply

_MORE_RECEIVE_COUNT: Final = 7
"""Together with the bytes that asyncio has received, half a megabyte of small requests."""

_NOTHING: Final[tuple[Sequence[Buffer], int]] = ((), 0)
"""Instead of a frame."""

_log: Final = logging.getLogger(__name__)


class ClientConnection(asyncio.BufferedProtocol):
    """`peer` is as known at accept; `login` is set on listeners that require one. `on_made` and `on_closed` are
    called once each, or neither is. `direct`: see `AnswerSender`. Its states and their order: `connection_states`."""

    def __init__(
        self,
        services: ConnectionServices,
        peer: Peer,
        *,
        login: ClientLogin | None,
        on_made: Callable[[ClientConnection, asyncio.Transport], None],
        on_closed: Callable[[ClientConnection], None],
        direct: DirectSocket | None = None,
    ) -> None:
        self.peer = peer
        self._loop = asyncio.get_running_loop()
        self._services = services
        self._login = login
        self._on_made = on_made
        self._on_closed = on_closed
        self._direct = direct
        limit = services.max_frame_bytes if login is None else min(login.max_frame_bytes, services.max_frame_bytes)
        self._protocol = ServerSide(max_frame_bytes=limit)
        self._answers = AnswerQueue()
        self._transport: ReadTransport | None = None
        self._sender: AnswerSender | None = None
        self._asked_bytes = 0
        self._state = ConnectionState.NEW
        self._turn: asyncio.Handle | None = None
        self._mute = ClientMute(self._loop, self._take_requests_soon)
        self._held_bytes = 0
        self.last_activity_ms = services.clock.now_ms()
        """When bytes were last received or sent."""

    @property
    def open_request_count(self) -> int:
        return self._answers.open_count

    @property
    def held_bytes(self) -> int:
        """Bytes of answers that the client has not fetched."""
        return self._held_bytes

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A stream's transport, as the protocol is a stream's; uvloop's class does not inherit from asyncio.Transport.
        stream = cast(asyncio.Transport, transport)
        self._transport = stream
        self._transition_to(ConnectionState.READING)
        self._sender = AnswerSender(stream, self._direct, self._abort_soon)
        stream.set_write_buffer_limits(high=HIGH_WATER_BYTES, low=0)
        self._on_made(self, stream)

    def get_buffer(self, sizehint: int) -> bytearray:
        # A memoryview of a bytearray, which asyncio accepts; the declared type is bytearray.
        buffer = self._protocol.frames.buffer_to_fill()
        self._asked_bytes = len(buffer)
        return buffer  # type: ignore[return-value]

    def buffer_updated(self, nbytes: int) -> None:
        if not self._takes_requests:
            return  # received only to see the client's end
        now_ms = self.last_activity_ms = self._services.clock.now_ms()
        self._protocol.frames.bytes_received(nbytes)
        if nbytes == self._asked_bytes and self._direct is not None:
            self._receive_more(self._direct)
        self._take_requests(now_ms)

    def _receive_more(self, direct: DirectSocket) -> None:
        """Reads what has arrived meanwhile: requests of one turn are written together, and asyncio receives once in a
        turn. The transport handles errors and the end of the socket."""
        frames = self._protocol.frames
        for _ in range(_MORE_RECEIVE_COUNT):
            buffer = frames.buffer_to_fill()
            try:
                count = direct.recv_into(buffer)
            except OSError:
                return
            frames.bytes_received(count)
            if count < len(buffer):
                return

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        if self._sender is not None:
            self._sender.pause()

    def resume_writing(self) -> None:
        if self._sender is not None:
            self._sender.resume()
            self._loop.call_soon(self._continue_sending)  # the transport is still in its own callback

    def _continue_sending(self) -> None:
        if self._sender is None:
            return
        self._sender.continue_sending()
        self.look_at_writing()
        if self._state is ConnectionState.SENDING_REST:
            self.close()
        elif self._state is ConnectionState.PAUSED:
            self._take_requests_soon()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = self._sender = None
        self._transition_to(ConnectionState.LOST)
        if self._turn is not None:
            self._turn.cancel()
        self._mute.cancel()
        self._services.memory.forget(self._take_requests_soon)
        self._services.memory.change(-self._held_bytes)
        self._held_bytes = 0
        self._on_closed(self)
        self._services.on_gone(self.peer.connection_id)

    # Called by the server.

    def stop_taking(self, reason: str = "") -> None:
        """Takes no further request; those in progress are answered. Later bytes are read and discarded: otherwise the
        client's EOF would not be seen, and asyncio's TLS closes no connection with unread data. `reason` is logged."""
        if not self._takes_requests:
            return
        if reason:
            _log.warning("listener=%s peer=%s closed: %s", self.peer.listener, self.peer, reason)
        is_paused = self._state is ConnectionState.PAUSED
        self._transition_to(ConnectionState.ENDING)
        if is_paused and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Sends the ready answers first. May be called several times."""
        self.stop_taking()
        # Only once: at a second call asyncio's TLS forgets its underlying transport, which could then never be closed.
        if self._transport is None or self._sender is None or self._transport.is_closing():
            return
        if self._sender.is_empty:
            self._end()
            self._transport.close()
        elif self._state is ConnectionState.ENDING:
            self._transition_to(ConnectionState.SENDING_REST)

    def abort(self) -> None:
        if self._transport is not None:
            self._end()
            self._transport.abort()

    def _abort_soon(self) -> None:
        """The connection is broken: nothing more is read from it or answered."""
        self._end()
        self._loop.call_soon(self.abort)

    def _end(self) -> None:
        if self._state is not ConnectionState.CLOSING:
            self._transition_to(ConnectionState.CLOSING)

    def know(self, principal: str) -> None:
        """Who the client is."""
        self.peer = replace(self.peer, principal=principal)

    def refuse(self, reason: str) -> None:
        """Closes this connection and logs the reason."""
        self.stop_taking(reason)
        self.close()

    def look_at_writing(self) -> None:
        """Updates the number of bytes that the client must still fetch; if it has decreased, the client is active."""
        if self._sender is None:
            return
        held_bytes = self._answers.ready_bytes + self._sender.held_bytes
        if held_bytes < self._held_bytes:
            self.last_activity_ms = self._services.clock.now_ms()
        change, self._held_bytes = held_bytes - self._held_bytes, held_bytes
        if change:
            self._services.memory.change(change)

    # Requests.

    def _may_take(self) -> bool:
        answers = self._answers
        return (
            self._takes_requests
            and not self._mute.is_on
            and self._held_bytes < MAX_WRITE_BUFFER_BYTES
            and answers.open_count < MAX_CONNECTION_REQUEST_COUNT
            and answers.open_bytes < MAX_CONNECTION_REQUEST_BYTES
            and answers.ready_bytes < MAX_WRITE_BUFFER_BYTES
        )

    def _take_requests(self, now_ms: int) -> None:
        """Takes the received requests, up to the limit of one turn; continues reading once all of them are taken."""
        if self._turn is not None:
            return
        for _ in range(MAX_TURN_REQUEST_COUNT):
            if not self._may_take():
                self._set_reading(False)
                return
            if self._services.memory.is_full:
                self._set_reading(False)
                self._services.memory.wait(self._take_requests_soon)
                return
            try:
                is_taken = self._take_one(now_ms)
            except MalformedMessageError as error:
                self._end_at(self._answers.add(0), error.message)
                return
            if not is_taken:
                self._set_reading(True)
                return
        self._set_reading(False)
        self._take_requests_soon()

    def _take_requests_soon(self) -> None:
        """In a new turn: the caller may be in the middle of its work."""
        if self._turn is None and self._transport is not None:
            self._turn = self._loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._turn = None
        self._take_requests(self._services.clock.now_ms())

    def _take_one(self, now_ms: int) -> bool:
        login = self._login
        if login is not None and login.expects_raw_token:
            token = self._protocol.frames.next_frame()
            if token is not None:
                self._reply_to_login(login.on_raw_token(bytes(token), now_ms), None)
            return token is not None
        request = self._protocol.next_request()
        if request is None:
            return False
        reply = login.on_request(request, now_ms) if login is not None else None
        if reply is not None:
            self._reply_to_login(reply, request)
            return True
        place = self._answers.add(request.size_bytes)
        begun = 0.0 if self._services.observer is None else self._loop.time()
        try:
            self._services.handle(request, self.peer, partial(self._answer, place, request, begun), now_ms)
        except MalformedMessageError as error:
            self._end_at(place, error.message)
        except Exception:
            _log.exception("api=%s version=%d peer=%s failed", *_named(request), self.peer)
            self._end_at(place, f"{api_label(request.api_key)} of version {request.api_version} could not be answered")
        return True

    def _end_at(self, place: QueuedAnswer, reason: str) -> None:
        """Answers the earlier requests before it closes the connection."""
        self.stop_taking(reason)
        if place.parts is not None:
            place = self._answers.add(0)
        place.closes = True
        self._fill_and_flush(place, *_NOTHING)

    def _answer(self, place: QueuedAnswer, request: Request, begun: float, message: Answer) -> None:
        """The request's handler calls it once."""
        if self._transport is None or place.closes:
            return
        if isinstance(message, ThrottledAnswer):
            self._mute.begin(message.throttle_ms)
            self._set_reading(False)
            message = message.message
        if isinstance(message, ConnectionEnd):
            self.stop_taking(message.reason)
            place.closes = True
            message = None
        try:
            parts, size_bytes = _NOTHING if message is None else response_frame(request, message)
        except Exception:
            # Without this answer, no later one could be sent.
            _log.exception("api=%s version=%d peer=%s: the response could not be encoded", *_named(request), self.peer)
            self.abort()
            return
        self._answers.fill(place, parts, size_bytes)
        if self._login is not None and message is not None:
            self._login.on_answered(request, message)
        if self._services.observer is not None:
            self._services.observer.on_answer(request, message, size_bytes, self._loop.time() - begun)
        self._flush()
        if self._state is ConnectionState.PAUSED:
            self._take_requests_soon()

    def _reply_to_login(self, reply: LoginReply, request: Request | None) -> None:
        """A refusal is sent with a delay, and nothing is read after it."""
        place = self._answers.add(0)
        place.closes = reply.closes
        if reply.reason is not None:
            _log.warning("listener=%s peer=%s login: %s", self.peer.listener, self.peer, reply.reason)
        if reply.closes:
            self.stop_taking()
        parts: Sequence[Buffer] = reply.raw
        size_bytes = sum(memoryview(part).nbytes for part in parts)
        if reply.message is not None and request is not None:
            parts, size_bytes = response_frame(request, reply.message)
        if reply.delay_ms:
            self._loop.call_later(reply.delay_ms / 1000, self._fill_and_flush, place, parts, size_bytes)
        else:
            self._fill_and_flush(place, parts, size_bytes)
        login = self._login
        if login is not None and login.principal is not None and login.is_authenticated:
            self.know(login.principal)
            self._protocol.frames.max_frame_bytes = self._services.max_frame_bytes

    def _fill_and_flush(self, place: QueuedAnswer, parts: Sequence[Buffer], size_bytes: int) -> None:
        if self._transport is not None:
            self._answers.fill(place, parts, size_bytes)
            self._flush()

    def _flush(self) -> None:
        sender = self._sender
        if sender is None:
            return
        parts: list[Buffer] = []
        size_bytes = 0
        closes = False
        for place in self._answers.take_ready():
            parts += place.parts or ()
            size_bytes += place.size_bytes
            closes = closes or place.closes
        if size_bytes:
            sender.send(parts, size_bytes)
        self.last_activity_ms = self._services.clock.now_ms()
        self.look_at_writing()
        if closes:
            self.close()

    def _set_reading(self, is_reading: bool) -> None:
        state = ConnectionState.READING if is_reading else ConnectionState.PAUSED
        if state is self._state or not self._takes_requests or self._transport is None or self._transport.is_closing():
            return
        self._transition_to(state)
        if is_reading:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    @property
    def _takes_requests(self) -> bool:
        return self._state is ConnectionState.READING or self._state is ConnectionState.PAUSED

    def _transition_to(self, state: ConnectionState) -> None:
        assert_may_follow(state, self._state, self.peer)
        self._state = state


def _named(request: Request) -> tuple[str, int]:
    return api_label(request.api_key), request.api_version
