"""The security of one listener: TLS certificates and SASL logins, from `ssl.*` and `sasl.*` settings. The prefix
`listener.name.<name>.` limits a setting to one listener.

Certificates and keys are PEM, in files or in the settings: Java's keystores cannot be read without Java.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from broker_core.broker.settings.principal_mapping import PrincipalMapping, parse_principal_mapping
from broker_core.model.client_settings import TLS_VERSIONS, TlsSettings
from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.jaas_config import parse_jaas_users

_DEFAULT_MAPPING: Final = parse_principal_mapping("DEFAULT")
_STORES: Final = ("truststore", "keystore")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerTls:
    """`client_auth`: none, requested or required. `allows_*`: of a certificate that replaces the one in use."""

    identity: TlsSettings
    client_auth: str = "none"
    allows_another_subject: bool = False
    allows_missing_names: bool = False
    principal_mapping: PrincipalMapping = _DEFAULT_MAPPING


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLogin:
    """Mechanisms in the order sent to clients, and the users of PLAIN."""

    mechanisms: tuple[str, ...]
    plain_users: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)


def listener_tls(given: Mapping[str, str], where: str, complaints: list[str]) -> ListenerTls:
    """`given`: the listener's settings; `where`: its name for complaints."""
    for store in _STORES:
        _check_store(given, store, where, complaints)
    if ("ssl.keystore.key" in given) != ("ssl.keystore.certificate.chain" in given):
        complaints.append(f"{where}: ssl.keystore.key and ssl.keystore.certificate.chain must be set together")
    elif not given.keys() & {"ssl.keystore.location", "ssl.keystore.key"}:
        complaints.append(
            f"{where} uses TLS but has no certificate: set ssl.keystore.location to a PEM file with the private key "
            "and its certificates"
        )
    client_auth = given.get("ssl.client.auth", "none").strip()
    if client_auth != "none" and not given.keys() & {"ssl.truststore.location", "ssl.truststore.certificates"}:
        complaints.append(
            f"{where}: ssl.client.auth={client_auth} requires a truststore: set ssl.truststore.location to a "
            "PEM file of the certificate authorities that sign client certificates"
        )
    try:
        mapping = parse_principal_mapping(given.get("ssl.principal.mapping.rules", "DEFAULT"))
    except InvalidConfigError as error:
        complaints.append(error.message)
        mapping = _DEFAULT_MAPPING
    versions = tuple(filter(None, map(str.strip, given.get("ssl.enabled.protocols", "").split(","))))
    return ListenerTls(
        identity=TlsSettings(
            trust_path=given.get("ssl.truststore.location"),
            trust_pem=given.get("ssl.truststore.certificates"),
            key_path=given.get("ssl.keystore.location"),
            key_pem=given.get("ssl.keystore.key"),
            certificates_pem=given.get("ssl.keystore.certificate.chain"),
            key_password=given.get("ssl.key.password"),
            versions=versions or TLS_VERSIONS,
        ),
        client_auth=client_auth,
        allows_another_subject=_is_true(given, "ssl.allow.dn.changes"),
        allows_missing_names=_is_true(given, "ssl.allow.san.changes"),
        principal_mapping=mapping,
    )


def listener_login(given: Mapping[str, str], where: str, complaints: list[str]) -> ListenerLogin:
    """The users of PLAIN are in `plain.sasl.jaas.config` or `sasl.jaas.config`."""
    mechanisms = tuple(filter(None, map(str.strip, given.get("sasl.enabled.mechanisms", "").split(","))))
    if not mechanisms:
        complaints.append(
            f"{where} requires SASL: set sasl.enabled.mechanisms to one or more of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"
        )
    users: Mapping[str, str] = {}
    name = "plain.sasl.jaas.config" if "plain.sasl.jaas.config" in given else "sasl.jaas.config"
    if "PLAIN" in mechanisms and name in given:
        try:
            users = parse_jaas_users(given[name])
        except InvalidConfigError as error:
            complaints.append(f"{where}: {error.message}")
    elif "PLAIN" in mechanisms:
        complaints.append(
            f"{where}: PLAIN is enabled but has no users: set sasl.jaas.config=org.apache.kafka.common.security.plain."
            'PlainLoginModule required user_<name>="<password>";'
        )
    return ListenerLogin(mechanisms=mechanisms, plain_users=MappingProxyType(dict(users)))


def _is_true(given: Mapping[str, str], name: str) -> bool:
    return given.get(name, "").strip().lower() == "true"


def _check_store(given: Mapping[str, str], store: str, where: str, complaints: list[str]) -> None:
    kind = given.get(f"ssl.{store}.type", "PEM").strip().upper()
    if kind != "PEM":
        complaints.append(
            f"{where}: ssl.{store}.type must be PEM, not {kind}: a Java keystore cannot be read; convert it to"
            " PEM (keytool "
            "-exportcert -rfc, openssl pkcs12)"
        )
    if f"ssl.{store}.password" in given:
        complaints.append(
            f"{where}: ssl.{store}.password does not apply to PEM; ssl.key.password decrypts a private key"
        )
    if f"ssl.{store}.location" in given and given.keys() & {f"ssl.{store}.certificates", f"ssl.{store}.key"}:
        complaints.append(f"{where}: ssl.{store}.location and the inline PEM settings exclude each other: set only one")
