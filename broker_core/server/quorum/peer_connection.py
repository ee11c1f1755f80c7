"""A connection to another node: made when it is needed, with TLS and a login as its listener wants; one request at a
time.

What is asked while an answer is still awaited is more urgent: the old connection is closed, and the answer with it.
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
CLIENT_ID: Final = "raft-client"
NO_ANSWER: Final = (
    *(OSError, asyncio.IncompleteReadError),
    *(BrokerUnavailableError, AuthenticationError, MalformedMessageError),
)
"""What `PeerConnection.ask` raises when the other node does not answer."""


class PeerConnection:
    """`close` may be called at any time; the next request connects again."""

    def __init__(self, address: BrokerAddress, dialer: PeerDialer) -> None:
        self.address = address
        self._dialer = dialer
        self._writer: asyncio.StreamWriter | None = None
        self._reader: asyncio.StreamReader | None = None
        self._protocol = ClientSide(client_id=CLIENT_ID, max_frame_bytes=MAX_RESPONSE_FRAME_BYTES)
        self._versions: Mapping[int, range] = {}
        self._expires = float("inf")
        self._is_new = True

    async def ask(self, api_key: int, known: range, make: Callable[[int], Any]) -> Any | None:
        """The answer to what `make` returns for a version, the newest of `known` that both sides know; None if there
        is none or `make` has nothing for it. Raises OSError, BrokerUnavailableError, AuthenticationError and
        MalformedMessageError; then the connection is closed."""
        try:
            if self._writer is not None and asyncio.get_running_loop().time() >= self._expires:
                self.close()
            if self._writer is None:
                await self._connect()
            spoken = self._versions.get(api_key, range(0))
            shared = [version for version in known if version in spoken]
            message = make(shared[-1]) if shared else None
            return None if message is None else self._accepted(api_key, await self._exchange(message))
        except AuthenticationError as error:
            self.close()
            self._dialer.on_refused(self.address, error)
            raise
        except (BrokerUnavailableError, ConnectionError) as error:
            is_open = self._writer is not None or isinstance(error, BrokerUnavailableError)
            self.close()
            if self._is_new and is_open:
                self._dialer.on_closed(self.address)
            raise
        except BaseException:
            self.close()
            raise

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
        if self._writer is not None:
            with contextlib.suppress(OSError, RuntimeError):
                self._writer.transport.abort()
        self._writer = self._reader = None

    async def _connect(self) -> None:
        from kio.schema.api_versions.v3.request import ApiVersionsRequest

        self._protocol = ClientSide(client_id=CLIENT_ID, max_frame_bytes=MAX_RESPONSE_FRAME_BYTES)
        self._expires, self._is_new = float("inf"), True
        self._reader, self._writer = await self._dialer.open(self.address)
        request = ApiVersionsRequest(client_software_name="spark-streamlog", client_software_version="1")
        answer = await self._exchange(request)
        if answer.error_code is not ErrorCode.none:
            raise MalformedMessageError(f"{self.address}: ApiVersions: {answer.error_code.name}")
        self._versions = {key.api_key: range(key.min_version, key.max_version + 1) for key in answer.api_keys}
        steps = self._dialer.login(self.address)
        if steps is not None:
            await self._log_in(steps)

    async def _log_in(self, steps: LoginSteps) -> None:
        request = next(steps)
        try:
            while True:
                request = steps.send(await self._exchange(request))
        except StopIteration as end:
            lifetime_seconds: float = end.value
        if lifetime_seconds > 0:
            self._expires = asyncio.get_running_loop().time() + lifetime_seconds * LOGIN_RENEWED_AT

    async def _exchange(self, message: Any) -> Any:
        try:
            return await self._send_and_receive(message)
        except ssl.SSLError as error:
            # With TLS 1.3 a refused certificate of ours is told after the handshake.
            raise handshake_error(error, self.address) from error

    async def _send_and_receive(self, message: Any) -> Any:
        reader, writer = self._reader, self._writer
        assert reader is not None and writer is not None
        self._protocol.send_request(message)
        writer.writelines(bytes(part) for part in self._protocol.data_to_send())
        await writer.drain()
        while (response := self._protocol.next_response()) is None:
            data = await reader.read(_READ_BYTES)
            if not data:
                raise BrokerUnavailableError(f"{self.address} closed the connection", address=str(self.address))
            self._protocol.receive_data(data)
        return response.message

    def _accepted(self, api_key: int, answer: Any) -> Any:
        if getattr(answer, "error_code", None) is ErrorCode.cluster_authorization_failed:
            self._dialer.complain(
                self.address,
                f"it refuses {api_label(api_key)}: the user of this node there needs CLUSTER_ACTION on the cluster, by "
                "its super.users or an access rule",
            )
        elif self._is_new:
            self._is_new = False
            self._dialer.on_accepted(self.address)
        return answer
