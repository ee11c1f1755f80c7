"""A connection to another node of the quorum: made when it is needed, one request at a time.

What is asked while an answer is still awaited is more urgent: the old connection is closed, and the answer with it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import BrokerUnavailableError, MalformedMessageError
from broker_core.model.limits import MAX_RESPONSE_FRAME_BYTES
from broker_core.protocol.connection import ClientSide

_READ_BYTES: Final = 256 * 1024
CLIENT_ID: Final = "raft-client"


class PeerConnection:
    """`close` may be called at any time; the next request connects again."""

    def __init__(self, address: BrokerAddress) -> None:
        self.address = address
        self._writer: asyncio.StreamWriter | None = None
        self._reader: asyncio.StreamReader | None = None
        self._protocol = ClientSide(client_id=CLIENT_ID, max_frame_bytes=MAX_RESPONSE_FRAME_BYTES)
        self._versions: Mapping[int, range] = {}

    async def ask(self, api_key: int, known: range, make: Callable[[int], Any]) -> Any | None:
        """The answer to what `make` returns for a version, the newest of `known` that both sides know; None if there
        is none or `make` has nothing for it. Raises OSError, BrokerUnavailableError and MalformedMessageError; then
        the connection is closed."""
        try:
            if self._writer is None:
                await self._connect()
            spoken = self._versions.get(api_key, range(0))
            shared = [version for version in known if version in spoken]
            message = make(shared[-1]) if shared else None
            return None if message is None else await self._exchange(message)
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
        self._reader, self._writer = await asyncio.open_connection(self.address.host, self.address.port)
        request = ApiVersionsRequest(client_software_name="spark-streamlog", client_software_version="1")
        answer = await self._exchange(request)
        if answer.error_code is not ErrorCode.none:
            raise MalformedMessageError(f"{self.address}: ApiVersions: {answer.error_code.name}")
        self._versions = {key.api_key: range(key.min_version, key.max_version + 1) for key in answer.api_keys}

    async def _exchange(self, message: Any) -> Any:
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
