"""Settings of a client of brokers, with the names of Kafka's own clients.

    settings = parse_client_settings({"bootstrap.servers": "a:9092,b:9092", "security.protocol": "SASL_SSL", …})

Certificates and keys are PEM (`ssl.truststore.type=PEM`), in files or in the settings themselves: Java's own stores
cannot be read without Java. `sasl.username` and `sasl.password` may stand for `sasl.jaas.config`. Passwords and keys
are never shown: neither by `repr` nor in a message.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.jaas_config import parse_jaas_config

SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
DEFAULT_CLIENT_ID: Final = "streamlog"
_MAX_PORT: Final = 65_535
_MAX_MS: Final = 2**31 - 1
_MAX_BYTES: Final = 2**31 - 1

_ADDRESS: Final = re.compile(
    r"(?:[A-Za-z_]+://)?(?:\[(?P<six>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^:\s/\[\]]+)):(?P<port>\d{1,5})"
)


class SecurityProtocol(enum.StrEnum):
    """The protocol of a listener."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def is_encrypted(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def is_authenticated(self) -> bool:
        """By SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)

    @property
    def wire_id(self) -> int:
        """Kafka's number for it, in registrations and the metadata log."""
        return (
            SecurityProtocol.PLAINTEXT,
            SecurityProtocol.SSL,
            SecurityProtocol.SASL_PLAINTEXT,
            SecurityProtocol.SASL_SSL,
        ).index(self)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class BrokerAddress:
    """The address of a broker."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Trusted certificates and the client's own. Paths name PEM files, `*_pem` holds the PEM text itself.

    Without trusted certificates those of the operating system are used.
    """

    trust_path: str | None = None
    trust_pem: str | None = field(default=None, repr=False)
    key_path: str | None = None
    """A private key and its certificates in one file."""
    key_pem: str | None = field(default=None, repr=False)
    certificates_pem: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    verifies_host_name: bool = True
    versions: tuple[str, ...] = TLS_VERSIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """How to log in."""

    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """All settings. Hashable, because open clients are cached by it. Defaults are those of Kafka's clients."""

    bootstrap_servers: tuple[BrokerAddress, ...]
    client_id: str = DEFAULT_CLIENT_ID
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None
    request_timeout_ms: int = 30_000
    """The timeout of one request."""
    api_timeout_ms: int = 60_000
    """The timeout of a whole call with its retries."""
    delivery_timeout_ms: int = 120_000
    """The timeout of a whole append, and of ending decided transactions."""
    connect_timeout_ms: int = 10_000
    """The timeout for opening a connection, TLS and login included."""
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    max_idle_ms: int = 540_000
    """A connection that was idle for longer is not used again; brokers close idle ones after ten minutes."""
    send_buffer_bytes: int | None = None
    """The size of a socket buffer; None: the operating system's default."""
    receive_buffer_bytes: int | None = None

    def __str__(self) -> str:
        return ",".join(map(str, self.bootstrap_servers))


_DURATIONS: Final = {
    "request.timeout.ms": "request_timeout_ms",
    "default.api.timeout.ms": "api_timeout_ms",
    "delivery.timeout.ms": "delivery_timeout_ms",
    "socket.connection.setup.timeout.ms": "connect_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "retry.backoff.max.ms": "retry_backoff_max_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "connections.max.idle.ms": "max_idle_ms",
}
_SOCKET_BUFFERS: Final = {
    "send.buffer.bytes": "send_buffer_bytes",
    "receive.buffer.bytes": "receive_buffer_bytes",
}
_SYSTEMS_CHOICE: Final = "-1"

CLIENT_SETTING_NAMES: Final = (
    "bootstrap.servers", "client.id", "security.protocol", "sasl.mechanism", "sasl.jaas.config", "sasl.username",
    "sasl.password", "ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.certificates",
    "ssl.truststore.password", "ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.key",
    "ssl.keystore.certificate.chain", "ssl.keystore.password", "ssl.key.password",
    "ssl.endpoint.identification.algorithm", "ssl.enabled.protocols", *_DURATIONS, *_SOCKET_BUFFERS,
)  # fmt: skip
"""All supported settings."""


def parse_client_settings(properties: Mapping[str, str]) -> ClientSettings:
    """Unknown names are ignored. Raises an InvalidConfigError with all errors in its message, and one by one in its
    field `complaints`."""
    complaints: list[str] = []
    given = {name: value.strip() for name, value in properties.items() if name in CLIENT_SETTING_NAMES}
    protocol = _protocol(given, complaints)
    settings = ClientSettings(
        bootstrap_servers=_addresses(given, complaints),
        client_id=given.get("client.id") or DEFAULT_CLIENT_ID,
        tls=_tls(given, complaints) if protocol.is_encrypted else None,
        sasl=_sasl(given, complaints) if protocol.is_authenticated else None,
        **_durations(given, complaints),
        **_socket_buffers(given, complaints),
    )
    _check_what_the_protocol_ignores(given, protocol, complaints)
    if complaints:
        raise InvalidConfigError("; ".join(complaints), complaints=tuple(complaints))
    return settings


def _addresses(given: Mapping[str, str], complaints: list[str]) -> tuple[BrokerAddress, ...]:
    found = []
    for text in filter(None, map(str.strip, given.get("bootstrap.servers", "").split(","))):
        parts = _ADDRESS.fullmatch(text)
        if parts is None or not 0 < int(parts["port"]) <= _MAX_PORT:
            complaints.append(f"bootstrap.servers must be host:port, separated by commas, not {text!r}")
        else:
            found.append(BrokerAddress(host=parts["six"] or parts["host"], port=int(parts["port"])))
    if not found and not complaints:
        complaints.append("bootstrap.servers is empty: set it to host:port, separated by commas")
    return tuple(found)


def _protocol(given: Mapping[str, str], complaints: list[str]) -> SecurityProtocol:
    text = given.get("security.protocol", SecurityProtocol.PLAINTEXT).upper()
    try:
        return SecurityProtocol(text)
    except ValueError:
        complaints.append(f"security.protocol must be one of {', '.join(SecurityProtocol)}, not {text!r}")
        return SecurityProtocol.PLAINTEXT


def _durations(given: Mapping[str, str], complaints: list[str]) -> dict[str, int]:
    found = {}
    for name, attribute in _DURATIONS.items():
        text = given.get(name)
        if text is None:
            continue
        if not re.fullmatch(r"\d{1,10}", text) or not 0 < int(text) <= _MAX_MS:
            complaints.append(f"{name} must be a whole number of milliseconds from 1 to {_MAX_MS}, not {text!r}")
        else:
            found[attribute] = int(text)
    return found


def _socket_buffers(given: Mapping[str, str], complaints: list[str]) -> dict[str, int]:
    found = {}
    for name, attribute in _SOCKET_BUFFERS.items():
        text = given.get(name, _SYSTEMS_CHOICE)
        if text == _SYSTEMS_CHOICE:
            continue
        if not re.fullmatch(r"\d{1,10}", text) or not 0 < int(text) <= _MAX_BYTES:
            complaints.append(
                f"{name} must be a whole number of bytes from 1 to {_MAX_BYTES}, or {_SYSTEMS_CHOICE} for the "
                f"operating system's choice, not {text!r}"
            )
        else:
            found[attribute] = int(text)
    return found


def _tls(given: Mapping[str, str], complaints: list[str]) -> TlsSettings:
    for store in ("truststore", "keystore"):
        kind = given.get(f"ssl.{store}.type", "PEM").upper()
        if kind != "PEM":
            complaints.append(
                f"ssl.{store}.type must be PEM, not {kind}: a Java keystore cannot be read; convert it to PEM (keytool "
                "-exportcert -rfc, openssl pkcs12)"
            )
        if f"ssl.{store}.password" in given:
            complaints.append(f"ssl.{store}.password does not apply to PEM; ssl.key.password decrypts a private key")
        if f"ssl.{store}.location" in given and given.keys() & {f"ssl.{store}.certificates", f"ssl.{store}.key"}:
            complaints.append(f"ssl.{store}.location and the inline PEM settings exclude each other: set only one")
    if ("ssl.keystore.key" in given) != ("ssl.keystore.certificate.chain" in given):
        complaints.append("ssl.keystore.key and ssl.keystore.certificate.chain must be set together")
    identification = given.get("ssl.endpoint.identification.algorithm", "https").lower()
    if identification not in ("https", ""):
        complaints.append(f"ssl.endpoint.identification.algorithm must be https or empty, not {identification!r}")
    versions = tuple(filter(None, map(str.strip, given.get("ssl.enabled.protocols", "").split(","))))
    for version in versions:
        if version not in TLS_VERSIONS:
            complaints.append(f"ssl.enabled.protocols may hold {', '.join(TLS_VERSIONS)}, not {version!r}")
    return TlsSettings(
        trust_path=given.get("ssl.truststore.location"),
        trust_pem=given.get("ssl.truststore.certificates"),
        key_path=given.get("ssl.keystore.location"),
        key_pem=given.get("ssl.keystore.key"),
        certificates_pem=given.get("ssl.keystore.certificate.chain"),
        key_password=given.get("ssl.key.password"),
        verifies_host_name=identification == "https",
        versions=versions or TLS_VERSIONS,
    )


def _sasl(given: Mapping[str, str], complaints: list[str]) -> SaslSettings | None:
    mechanism = given.get("sasl.mechanism", "").upper()
    if mechanism not in SASL_MECHANISMS:
        named = f", not {mechanism!r}" if mechanism else " and is missing"
        complaints.append(f"sasl.mechanism must be one of {', '.join(SASL_MECHANISMS)}{named}")
    username, password = given.get("sasl.username"), given.get("sasl.password")
    text = given.get("sasl.jaas.config")
    if text is not None:
        if username is not None or password is not None:
            complaints.append("sasl.jaas.config excludes sasl.username and sasl.password: set only one of the two")
        try:
            login = parse_jaas_config(text)
        except InvalidConfigError as error:
            complaints.append(error.message)
            return None
        if mechanism in SASL_MECHANISMS and mechanism not in login.mechanisms:
            complaints.append(f"the login module of sasl.jaas.config does not fit sasl.mechanism={mechanism}")
        username, password = login.username, login.password
    if username is None or password is None:
        complaints.append(
            "security.protocol requires a login: set sasl.username and sasl.password, or sasl.jaas.config"
        )
        return None
    return SaslSettings(mechanism=mechanism, username=username, password=password)


def _check_what_the_protocol_ignores(
    given: Mapping[str, str], protocol: SecurityProtocol, complaints: list[str]
) -> None:
    """Refuses credentials without a protocol that uses them."""
    if "security.protocol" in given:
        return
    for prefix, wanted in (("sasl.", "SASL_SSL or SASL_PLAINTEXT"), ("ssl.", "SSL or SASL_SSL")):
        named = [name for name in given if name.startswith(prefix)]
        if named:
            complaints.append(f"{named[0]} is ignored without security.protocol={wanted}")
