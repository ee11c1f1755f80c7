"""A connection to another node: made when it is needed, with TLS and a login as its listener wants; one request at a
time.

    close       the connection, and what is under way on it
    give_up     what is asked next is more urgent than the answer that is awaited: its connection is closed. One that is
                still being opened with TLS or a login stays: on a busy machine it would never be open otherwise
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import AuthenticationError, BrokerUnavailableError, MalformedMessageError
from broker_core.model.limits import LOGIN_RENEWED_AT, MAX_RESPONSE_FRAME_BYTES
from broker_core.protocol.api_table import api_label
from broker_core.protocol.client_login import LoginSteps
from broker_core.protocol.connection import ClientSide
from broker_core.server.quorum.peer_dialer import PeerDialer
from broker_core.tls.handshake_error import handshake_error

_READ_BYTES: Final = 256 * 1024
_OPEN_SECONDS: Final = 5.0
"""For a handshake and a login."""
CLIENT_ID: Final = "raft-client"
NO_ANSWER: Final = (
    *(OSError, asyncio.IncompleteReadError),
    *(BrokerUnavailableError, AuthenticationError, MalformedMessageError),
)
"""What `PeerConnection.ask` raises when the other node does not answer."""

_REASONS: Final = {
    ErrorCode.cluster_authorization_failed: (
        "the user of this node has no right to it there; name it in super.users of that node, or allow it"
        " CLUSTER_ACTION on the cluster by an access rule"
    ),
    ErrorCode.inconsistent_cluster_id: "it belongs to another cluster, see cluster.id in meta.properties of both",
}
"""Of answers that concern this node as a whole."""


class PeerConnection:
    """Every method may be called at any time; the next request connects again."""

    def __init__(self, address: BrokerAddress, dialer: PeerDialer) -> None:
        self.address = address
        self._dialer = dialer
        self._session: _PeerSession | None = None
        self._opening: asyncio.Task[_PeerSession] | None = None

    async def ask(self, api_key: int, known: range, make: Callable[[int], Any]) -> Any | None:
        """The answer to what `make` returns for a version, the newest of `known` that both sides know; None if there
        is none or `make` has nothing for it. Raises OSError, BrokerUnavailableError, AuthenticationError and
        MalformedMessageError; then the connection is closed."""
        session = await self._ready()
        try:
            spoken = session.versions.get(api_key, range(0))
            shared = [version for version in known if version in spoken]
            message = make(shared[-1]) if shared else None
            if message is None:
                return None
            answer = await session.exchange(message)
        except BaseException as error:
            self._drop(session)
            self._report(error, is_new=session.is_new)
            raise
        self._look_at(api_key, answer, session)
        return answer

    async def is_refused(self) -> bool:
        """Whether no process listens there any more."""
        try:
            _, writer = await asyncio.open_connection(self.address.host, self.address.port)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
        writer.transport.abort()
        return False

    def close(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        if self._session is not None:
            self._drop(self._session)

    def give_up(self) -> None:
        """See the module's docstring."""
        if self._opening is None or not self._dialer.is_secured:
            self.close()

    async def _ready(self) -> _PeerSession:
        session = self._session
        if session is not None and asyncio.get_running_loop().time() < session.expires:
            return session
        if session is not None:
            self._drop(session)
        opening = self._opening
        if opening is None:
            opening = self._opening = asyncio.get_running_loop().create_task(self._open())
            opening.add_done_callback(self._opened)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if not opening.cancelled():
                raise
            raise BrokerUnavailableError(f"{self.address}: closed by this side", address=str(self.address)) from None

    def _opened(self, opening: asyncio.Task[_PeerSession]) -> None:
        is_failed = opening.cancelled() or opening.exception() is not None
        if self._opening is opening:
            self._opening = None
            if not is_failed:
                self._session = opening.result()
        elif not is_failed:
            opening.result().close()

    async def _open(self) -> _PeerSession:
        try:
            async with asyncio.timeout(_OPEN_SECONDS if self._dialer.is_secured else None):
                reader, writer = await self._dialer.open(self.address)
                session = _PeerSession(self.address, reader, writer)
                try:
                    await session.begin(self._dialer.login(self.address))
                except BaseException:
                    session.close()
                    raise
                return session
        except (AuthenticationError, BrokerUnavailableError, ConnectionError) as error:
            self._report(error, is_new=not isinstance(error, ConnectionRefusedError))
            raise

    def _drop(self, session: _PeerSession) -> None:
        session.close()
        if self._session is session:
            self._session = None

    def _report(self, error: BaseException, *, is_new: bool) -> None:
        """`is_new`: the other side was reached, and has not answered a request yet."""
        if isinstance(error, AuthenticationError):
            self._dialer.on_refused(self.address, error)
        elif is_new and isinstance(error, BrokerUnavailableError | ConnectionError):
            self._dialer.on_closed(self.address)

    def _look_at(self, api_key: int, answer: Any, session: _PeerSession) -> None:
        reason = _REASONS.get(getattr(answer, "error_code", None) or ErrorCode.none)
        if reason is not None:
            self._dialer.complain(self.address, f"it refuses {api_label(api_key)}: {reason}")
        elif session.is_new:
            session.is_new = False
            self._dialer.on_accepted(self.address)


class _PeerSession:
    """One connection, from its first byte to its end."""

    def __init__(self, address: BrokerAddress, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._address, self._reader, self._writer = address, reader, writer
        self._protocol = ClientSide(client_id=CLIENT_ID, max_frame_bytes=MAX_RESPONSE_FRAME_BYTES)
        self.versions: Mapping[int, range] = {}
        self.expires = float("inf")
        self.is_new = True
        """No request was answered yet as it should be."""

    async def begin(self, login: LoginSteps | None) -> None:
        """Before the first request."""
        from kio.schema.api_versions.v3.request import ApiVersionsRequest

        request = ApiVersionsRequest(client_software_name="spark-streamlog", client_software_version="1")
        answer = await self.exchange(request)
        if answer.error_code is not ErrorCode.none:
            raise MalformedMessageError(f"{self._address}: ApiVersions: {answer.error_code.name}")
        self.versions = {key.api_key: range(key.min_version, key.max_version + 1) for key in answer.api_keys}
        if login is not None:
            await self._log_in(login)

    async def exchange(self, message: Any) -> Any:
        try:
            return await self._send_and_receive(message)
        except ssl.SSLError as error:
            # With TLS 1.3 a refused certificate of ours is told after the handshake.
            raise handshake_error(error, self._address) from error

    def close(self) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.transport.abort()

    async def _log_in(self, steps: LoginSteps) -> None:
        request = next(steps)
        try:
            while True:
                request = steps.send(await self.exchange(request))
        except StopIteration as end:
            lifetime_seconds: float = end.value
        if lifetime_seconds > 0:
            self.expires = asyncio.get_running_loop().time() + lifetime_seconds * LOGIN_RENEWED_AT

    async def _send_and_receive(self, message: Any) -> Any:
        self._protocol.send_request(message)
        self._writer.writelines(bytes(part) for part in self._protocol.data_to_send())
        await self._writer.drain()
        while (response := self._protocol.next_response()) is None:
            data = await self._reader.read(_READ_BYTES)
            if not data:
                raise BrokerUnavailableError(f"{self._address} closed the connection", address=str(self._address))
            self._protocol.receive_data(data)
        return response.message
