"""A socket to a broker, with or without TLS; every wait is bounded."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Sequence
from typing import Final

from typing_extensions import Buffer

from broker_core.client.deadline import Deadline
from broker_core.model.client_settings import BrokerAddress, ClientSettings, TlsSettings
from broker_core.model.exceptions import BrokerUnavailableError, RequestTimedOutError
from broker_core.tls.client_context import client_tls_context
from broker_core.tls.handshake_error import handshake_error

_JOINED_BYTES: Final = 64 * 1024
"""Smaller parts of a TLS message are joined before sending: each write is a TLS record of its own."""

_LEAST_WAIT_SECONDS: Final = 0.001
"""A timeout of 0 would make the socket non-blocking."""


class BrokerSocket:
    """The constructor connects. Raises BrokerUnavailableError, RequestTimedOutError and AuthenticationError (TLS)."""

    def __init__(self, address: BrokerAddress, settings: ClientSettings, deadline: Deadline) -> None:
        self._address = address
        tls = settings.tls
        plain = _connect(address, deadline)
        try:
            _set_buffers(plain, settings)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._socket = plain if tls is None else _wrap(plain, address, tls, deadline)
        except BaseException:
            plain.close()
            raise

    @property
    def is_silent(self) -> bool:
        """Whether nothing was received, as expected between an answer and the next request. A closed connection is not
        quiet."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    def send(self, parts: Sequence[Buffer], deadline: Deadline) -> None:
        """Sends all of it. After an exception it is unknown how much was sent."""
        try:
            self._wait_at_most(deadline)
            if isinstance(self._socket, ssl.SSLSocket):
                for part in _joined(parts):
                    self._socket.sendall(part)
            else:
                _send_parts(self._socket, parts)
        except TimeoutError as error:
            raise self._timed_out(deadline) from error
        except OSError as error:
            raise self._broken(error) from error

    def receive_into(self, target: memoryview, deadline: Deadline) -> int:
        """Returns the number of bytes received, at least one."""
        try:
            self._wait_at_most(deadline)
            count = self._socket.recv_into(target)
        except TimeoutError as error:
            raise self._timed_out(deadline) from error
        except OSError as error:
            raise self._broken(error) from error
        if count == 0:
            raise BrokerUnavailableError(f"{self._address} closed the connection", address=str(self._address))
        return count

    def close(self) -> None:
        """Closes without a TLS shutdown: in a forked child that would end the parent's connection."""
        self._socket.close()

    def _wait_at_most(self, deadline: Deadline) -> None:
        self._socket.settimeout(max(_LEAST_WAIT_SECONDS, deadline.remaining_seconds))

    def _timed_out(self, deadline: Deadline) -> RequestTimedOutError:
        return RequestTimedOutError(
            f"{self._address} did not answer within {deadline.timeout_ms} ms ({deadline.setting})"
        )

    def _broken(self, error: OSError) -> BrokerUnavailableError:
        return BrokerUnavailableError(
            f"the connection to {self._address} failed: {reason_of(error)}", address=str(self._address)
        )


def reason_of(error: OSError) -> str:
    """The error text without the number."""
    return error.strerror or str(error) or type(error).__name__


def _connect(address: BrokerAddress, deadline: Deadline) -> socket.socket:
    try:
        return socket.create_connection(
            (address.host, address.port), timeout=max(_LEAST_WAIT_SECONDS, deadline.remaining_seconds)
        )
    except TimeoutError as error:
        raise BrokerUnavailableError(
            f"{address} does not answer: no connection within {deadline.timeout_ms} ms ({deadline.setting})",
            address=str(address),
        ) from error
    except (OSError, UnicodeError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "not a host name"
        raise BrokerUnavailableError(f"{address} cannot be reached: {reason}", address=str(address)) from error


def _set_buffers(plain: socket.socket, settings: ClientSettings) -> None:
    if settings.send_buffer_bytes is not None:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)
    if settings.receive_buffer_bytes is not None:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)


def _wrap(plain: socket.socket, address: BrokerAddress, tls: TlsSettings, deadline: Deadline) -> ssl.SSLSocket:
    context = client_tls_context(tls)
    plain.settimeout(max(_LEAST_WAIT_SECONDS, deadline.remaining_seconds))
    try:
        return context.wrap_socket(plain, server_hostname=address.host)
    except TimeoutError as error:
        raise BrokerUnavailableError(
            f"{address}: no TLS handshake within {deadline.timeout_ms} ms ({deadline.setting}); does it speak TLS?",
            address=str(address),
        ) from error
    except OSError as error:
        raise handshake_error(error, address) from error


def _send_parts(plain: socket.socket, parts: Sequence[Buffer]) -> None:
    left = [memoryview(part).cast("B") for part in parts if memoryview(part).nbytes]
    while left:
        sent = plain.sendmsg(left)
        while left and sent >= len(left[0]):
            sent -= len(left.pop(0))
        if sent:
            left[0] = left[0][sent:]


def _joined(parts: Sequence[Buffer]) -> Sequence[Buffer]:
    views = [memoryview(part).cast("B") for part in parts]
    return [b"".join(views)] if sum(map(len, views)) < _JOINED_BYTES else views
