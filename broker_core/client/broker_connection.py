"""One connection to a broker, ready for requests: versions negotiated, logged in.

    connection = BrokerConnection(address, settings, deadline)
    answer, = connection.ask([request], deadline)             several requests are pipelined, answers come in order

Thread-safe: one exchange at a time. After an exception of the transport the connection is broken and must be dropped.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import RequestPayload

from broker_core.client.broker_errors import broker_error
from broker_core.client.broker_socket import BrokerSocket
from broker_core.client.deadline import Deadline
from broker_core.model.client_settings import BrokerAddress, ClientSettings, SaslSettings
from broker_core.model.exceptions import BrokerUnavailableError, UnsupportedVersionError
from broker_core.model.limits import LOGIN_RENEWED_AT, MAX_RESPONSE_FRAME_BYTES
from broker_core.model.loading import folders_on_path
from broker_core.protocol.api_table import ApiKey, api_label
from broker_core.protocol.connection import ClientSide

DISTRIBUTION: Final = "spark-streamlog"
"""The package, also the client software name that brokers see."""


class BrokerConnection:
    """The constructor raises BrokerUnavailableError, RequestTimedOutError, AuthenticationError, UnsupportedVersionError
    and MalformedMessageError."""

    def __init__(self, address: BrokerAddress, settings: ClientSettings, deadline: Deadline) -> None:
        self.address = address
        self._settings = settings
        self._lock = threading.Lock()
        self._protocol = ClientSide(client_id=settings.client_id, max_frame_bytes=MAX_RESPONSE_FRAME_BYTES)
        self._versions: Mapping[int, range] = {}
        self._features: Mapping[str, int] = {}
        self._expires = float("inf")
        self._last_use = time.monotonic()
        self._is_broken = False
        setup = Deadline(
            min(settings.connect_timeout_ms, max(1, int(deadline.remaining_seconds * 1000))),
            setting="socket.connection.setup.timeout.ms",
        )
        self._socket = BrokerSocket(address, settings, setup)
        try:
            self._agree_on_versions(setup)
            if settings.sasl is not None:
                self._log_in(settings.sasl, setup)
        except BaseException:
            self._socket.close()
            raise

    @property
    def is_usable(self) -> bool:
        """Whether the connection can be used for another request."""
        if not self._lock.acquire(blocking=False):
            # Another thread is using it.
            return not self._is_broken
        try:
            now = time.monotonic()
            is_fresh = now < self._expires and (now - self._last_use) * 1000 < self._settings.max_idle_ms
            return not self._is_broken and is_fresh and self._socket.is_silent
        finally:
            self._lock.release()

    def supports(self, api_key: ApiKey, api_version: int) -> bool:
        return api_version in self._versions.get(api_key, range(0))

    def feature_level(self, name: str) -> int:
        """The cluster's finalized level of a feature such as `transaction.version`; 0 if it has none."""
        return self._features.get(name, 0)

    def ask(self, requests: Sequence[RequestPayload], deadline: Deadline) -> list[Any]:
        """The answers, in order. Raises UnsupportedVersionError before anything is sent."""
        for request in requests:
            self._require(request)
        with self._lock:
            if self._is_broken:
                raise BrokerUnavailableError(
                    f"the connection to {self.address} failed while other requests waited for it",
                    address=str(self.address),
                )
            return self._exchange(requests, deadline)

    def close(self) -> None:
        self._is_broken = True
        self._socket.close()

    def _exchange(self, requests: Sequence[RequestPayload], deadline: Deadline) -> list[Any]:
        try:
            for request in requests:
                self._protocol.send_request(request)
                self._socket.send(self._protocol.data_to_send(), self._limited(deadline))
            answers = [self._receive(self._limited(deadline)) for _ in requests]
        except BaseException:
            # Also for asynchronous exceptions: a late answer would be taken for that of the next request.
            self.close()
            raise
        self._last_use = time.monotonic()
        return answers

    def _receive(self, deadline: Deadline) -> Any:
        while (response := self._protocol.next_response()) is None:
            frames = self._protocol.frames
            frames.bytes_received(self._socket.receive_into(frames.buffer_to_fill(), deadline))
        return response.message

    def _limited(self, deadline: Deadline) -> Deadline:
        remaining_ms = int(deadline.remaining_seconds * 1000)
        if remaining_ms < self._settings.request_timeout_ms:
            return deadline
        return Deadline(self._settings.request_timeout_ms, setting="request.timeout.ms")

    def _require(self, request: RequestPayload) -> None:
        spoken = self._versions.get(request.__api_key__)
        if spoken is None or request.__version__ not in spoken:
            span = f"versions {spoken.start} to {spoken.stop - 1}" if spoken else "no version"
            raise UnsupportedVersionError(
                f"{self.address} speaks {span} of {api_label(request.__api_key__)}, and version {request.__version__} "
                "is needed: brokers must be of Kafka 3.0 or newer",
                address=str(self.address),
            )

    def _agree_on_versions(self, deadline: Deadline) -> None:
        from kio.schema.api_versions.v3.request import ApiVersionsRequest

        request = ApiVersionsRequest(client_software_name=DISTRIBUTION, client_software_version=_own_version())
        (answer,) = self._exchange([request], deadline)
        # A broker without version 3 answers in version 0, often with the versions that it supports.
        if answer.error_code not in (ErrorCode.none, ErrorCode.unsupported_version):
            raise broker_error(answer.error_code, f"{self.address}: ApiVersions")
        self._versions = {key.api_key: range(key.min_version, key.max_version + 1) for key in answer.api_keys}
        features = getattr(answer, "finalized_features", ())
        self._features = {str(feature.name): int(feature.max_version_level) for feature in features}

    def _log_in(self, sasl: SaslSettings, deadline: Deadline) -> None:
        # Imported here: only logins need it.
        from broker_core.protocol.client_login import login_steps

        what = f"{self.address}: login of {sasl.username!r} by {sasl.mechanism}"
        steps = login_steps(sasl, what=what, nonce=secrets.token_urlsafe(24))
        request = next(steps)
        try:
            while True:
                self._require(request)
                (answer,) = self._exchange([request], deadline)
                request = steps.send(answer)
        except StopIteration as end:
            lifetime_seconds: float = end.value
        if lifetime_seconds > 0:
            self._expires = time.monotonic() + lifetime_seconds * LOGIN_RENEWED_AT


@cache
def _own_version() -> str:
    """`0` if the package is not installed. `importlib.metadata.version` would also read archives on the path, and that
    of Spark takes 0.05 s."""
    from importlib.metadata import Distribution

    found = Distribution.discover(name=DISTRIBUTION, path=folders_on_path())
    return next((one.version for one in found), "0")
