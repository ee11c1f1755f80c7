"""Opens connections to one listener of the other nodes: TLS and login as its settings say.

What is wrong with a peer, its certificate, the login or what this node may do there, is logged once for each address,
and again when it is something else or after a minute; and when it is over. A refused login or certificate is tried
again after a pause that grows to a second, as with Kafka's clients; a peer that is away is tried when it is needed.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from dataclasses import dataclass
from typing import Final

from broker_core.broker.settings.link_security import LinkSecurity
from broker_core.model.client_settings import BrokerAddress, SecurityProtocol
from broker_core.model.exceptions import AuthenticationError
from broker_core.model.limits import MAX_TLS_HANDSHAKE_MS
from broker_core.protocol.client_login import LoginSteps, login_steps
from broker_core.tls.client_context import client_tls_context
from broker_core.tls.handshake_error import handshake_error

_FIRST_PAUSE_SECONDS: Final = 0.05
_MAX_PAUSE_SECONDS: Final = 1.0
_QUIET_SECONDS: Final = 60.0
_CLOSED_COUNT: Final = 5
"""A node that is killed closes a connection once or twice."""

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _Complaint:
    """The last one about a peer; no reason: it was never logged. `pause_seconds` 0: nothing is to be waited for."""

    reason: str = ""
    logged_at: float = 0.0
    closed_count: int = 0
    pause_seconds: float = 0.0
    not_before: float = 0.0


class PeerDialer:
    """Runs on the running loop. All connections to that listener share it."""

    def __init__(self, security: LinkSecurity | None = None) -> None:
        self.security = security or LinkSecurity()
        self._complaints: dict[BrokerAddress, _Complaint] = {}

    @property
    def is_secured(self) -> bool:
        """By TLS or a login."""
        return self.security.tls is not None or self.security.sasl is not None

    async def open(self, address: BrokerAddress) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection without a login. Raises OSError, BrokerUnavailableError and AuthenticationError."""
        await self._wait_for_turn(address)
        tls = self.security.tls
        if tls is None:
            return await asyncio.open_connection(address.host, address.port)
        context = client_tls_context(tls)
        try:
            return await asyncio.open_connection(
                address.host,
                address.port,
                ssl=context,
                server_hostname=address.host,
                ssl_handshake_timeout=MAX_TLS_HANDSHAKE_MS / 1000,
            )
        except (ConnectionRefusedError, TimeoutError):
            raise
        except (ssl.SSLError, ConnectionError) as error:
            raise handshake_error(error, address) from error

    def login(self, address: BrokerAddress) -> LoginSteps | None:
        """None: the listener has no logins."""
        sasl = self.security.sasl
        if sasl is None:
            return None
        what = f"{address}: login of {sasl.username!r} by {sasl.mechanism}"
        return login_steps(sasl, what=what, nonce=secrets.token_urlsafe(24))

    def on_refused(self, address: BrokerAddress, error: AuthenticationError) -> None:
        """A certificate or login was refused, by either side."""
        own = f"listener.name.{self.security.listener.lower()}.*"
        self.complain(address, error.message if own in error.message else f"{error.message}; see {own}")
        self._pause(self._complaints[address])

    def on_closed(self, address: BrokerAddress) -> None:
        """The peer closed the connection before its first answer: it may have died, or want another protocol."""
        complaint = self._complaints.setdefault(address, _Complaint())
        complaint.closed_count += 1
        if complaint.closed_count >= _CLOSED_COUNT:
            self.complain(
                address,
                f"it closes each connection before it answers: this node connects with {self._protocol}, does that "
                "listener have it (listener.security.protocol.map)?",
            )
            self._pause(complaint)

    def complain(self, address: BrokerAddress, reason: str) -> None:
        now = asyncio.get_running_loop().time()
        last = self._complaints.setdefault(address, _Complaint())
        if last.reason != reason or now - last.logged_at >= _QUIET_SECONDS:
            last.reason, last.logged_at = reason, now
            _log.warning("listener=%s peer=%s: %s", self.security.listener, address, reason)

    def on_accepted(self, address: BrokerAddress) -> None:
        """The peer answers as it should."""
        found = self._complaints.pop(address, None) if self._complaints else None
        if found is not None and found.reason:
            _log.info("listener=%s peer=%s is accepted, and accepts this node", self.security.listener, address)

    @property
    def _protocol(self) -> SecurityProtocol:
        tls, sasl = self.security.tls, self.security.sasl
        if sasl is None:
            return SecurityProtocol.PLAINTEXT if tls is None else SecurityProtocol.SSL
        return SecurityProtocol.SASL_PLAINTEXT if tls is None else SecurityProtocol.SASL_SSL

    def _pause(self, complaint: _Complaint) -> None:
        complaint.pause_seconds = min(_MAX_PAUSE_SECONDS, complaint.pause_seconds * 2 or _FIRST_PAUSE_SECONDS)
        complaint.not_before = asyncio.get_running_loop().time() + complaint.pause_seconds

    async def _wait_for_turn(self, address: BrokerAddress) -> None:
        complaint = self._complaints.get(address)
        if complaint is not None:
            wait_seconds = complaint.not_before - asyncio.get_running_loop().time()
            if wait_seconds > 0:
                await asyncio.sleep(wait_seconds)
