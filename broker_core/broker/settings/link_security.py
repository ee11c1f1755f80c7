"""How a node connects to the other nodes of its cluster: as the listener of theirs wants it.

    controller.listener.names=CONTROLLER                 the first of them: to controllers, and among them
    sasl.mechanism.controller.protocol=PLAIN
    inter.broker.listener.name=INTERNAL                  among brokers; or security.inter.broker.protocol, a listener of
    sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512   that name
    listener.name.<name>.<mechanism>.sasl.jaas.config    name and password that this node logs in with
    listener.name.<name>.ssl.truststore.…, .ssl.keystore.…, .ssl.endpoint.identification.algorithm

The same settings of the listener are those of its own side (`listener_security`): a certificate is shown to clients and
to other nodes, the truststore is for both. Names, rules and defaults are Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from broker_core.broker.settings.broker_settings import BROKER_SETTINGS
from broker_core.broker.settings.listener_settings import (
    inter_broker_listener,
    protocol_of_listener,
    settings_of_listener,
)
from broker_core.model.client_settings import (
    SASL_MECHANISMS,
    SaslSettings,
    SecurityProtocol,
    TlsSettings,
    parse_client_settings,
)
from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.setting_parsers import items_of

_CONTROLLER_MECHANISM: Final = "sasl.mechanism.controller.protocol"
_BROKER_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
_BROKER_LISTENER: Final = "inter.broker.listener.name"
_BROKER_PROTOCOL: Final = "security.inter.broker.protocol"
DEFAULT_CONTROLLER_LISTENER: Final = "CONTROLLER"
USED_BY_LINKS: Final = frozenset(
    {
        *(_CONTROLLER_MECHANISM, _BROKER_MECHANISM, _BROKER_LISTENER, _BROKER_PROTOCOL),
        "ssl.endpoint.identification.algorithm",
    }
)
"""The settings that are read here, and by no broker that is alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSecurity:
    """`listener`: the name of the listener that the other nodes have for it. None: without TLS, without a login."""

    listener: str = SecurityProtocol.PLAINTEXT.value
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None


def controller_listener_name(given: Mapping[str, str]) -> str:
    """Of the listener that nodes of this cluster connect to controllers at."""
    names = items_of(given.get("controller.listener.names", ""))
    return names[0].upper() if names and names[0] else DEFAULT_CONTROLLER_LISTENER


def links_to_controllers(given: Mapping[str, str], complaints: list[str]) -> LinkSecurity:
    """Mistakes are added to `complaints`."""
    return _link(given, controller_listener_name(given), _CONTROLLER_MECHANISM, complaints)


def parse_links_to_controllers(given: Mapping[str, str]) -> LinkSecurity:
    """Raises InvalidConfigError with all complaints."""
    return _without_complaints(given, links_to_controllers)


def parse_links_to_brokers(given: Mapping[str, str]) -> LinkSecurity:
    """Of a broker with these settings. Raises InvalidConfigError with all complaints."""
    return _without_complaints(given, _links_to_brokers)


def _without_complaints(
    given: Mapping[str, str], parse: Callable[[Mapping[str, str], list[str]], LinkSecurity]
) -> LinkSecurity:
    complaints: list[str] = []
    links = parse(given, complaints)
    if complaints:
        raise InvalidConfigError("; ".join(complaints), complaints=tuple(complaints))
    return links


def _links_to_brokers(given: Mapping[str, str], complaints: list[str]) -> LinkSecurity:
    name, protocol = (given.get(each, "").strip() for each in (_BROKER_LISTENER, _BROKER_PROTOCOL))
    if name and protocol:
        complaints.append(f"Only one of {_BROKER_LISTENER} and {_BROKER_PROTOCOL} should be set.")
    if protocol and protocol not in set(SecurityProtocol):
        complaints.append(f"{_BROKER_PROTOCOL} must be one of {', '.join(SecurityProtocol)}, not {protocol!r}")
        return LinkSecurity()
    listener = inter_broker_listener(given)
    listeners = given.get("listeners") or BROKER_SETTINGS["listeners"].default or ""
    known = [item.partition("://")[0].upper() for item in items_of(listeners)]
    controllers = {each.upper() for each in items_of(given.get("controller.listener.names", ""))}
    shown = [each for each in known if each not in controllers]
    if listener not in shown:
        complaints.append(
            f"{_BROKER_LISTENER} must be a listener name defined in advertised.listeners. The valid options based on "
            f"currently configured listeners are {','.join(shown)}"
        )
    return _link(given, listener, _BROKER_MECHANISM, complaints)


def _link(given: Mapping[str, str], listener: str, mechanism_setting: str, complaints: list[str]) -> LinkSecurity:
    protocol = protocol_of_listener(listener, given)
    own = settings_of_listener(given, listener)
    wanted = {name: value for name, value in own.items() if name.startswith("ssl.")}
    if protocol.is_authenticated:
        login = _login(own, listener, mechanism_setting, complaints)
        if login is None:
            return LinkSecurity(listener=listener)
        wanted |= login
    try:
        # As a client of that listener.
        found = parse_client_settings({**wanted, "bootstrap.servers": "unused:1", "security.protocol": protocol})
    except InvalidConfigError as error:
        complaints += [f"{listener}: {complaint}" for complaint in error.fields.get("complaints", (error.message,))]
        return LinkSecurity(listener=listener)
    return LinkSecurity(listener=listener, tls=found.tls, sasl=found.sasl)


def _login(
    own: Mapping[str, str], listener: str, mechanism_setting: str, complaints: list[str]
) -> dict[str, str] | None:
    mechanism = own.get(mechanism_setting, "GSSAPI").strip()
    if mechanism not in SASL_MECHANISMS:
        complaints.append(
            f"{listener} asks for a login: {mechanism_setting} must be one of {', '.join(SASL_MECHANISMS)}, not "
            f"{mechanism!r}"
        )
        return None
    if mechanism not in items_of(own.get("sasl.enabled.mechanisms", mechanism)):
        complaints.append(f"{mechanism_setting}={mechanism} must be among sasl.enabled.mechanisms of {listener}")
    setting = f"{mechanism.lower()}.sasl.jaas.config"
    jaas = own.get(setting) or own.get("sasl.jaas.config")
    if jaas is None:
        complaints.append(
            f'{listener} asks for a login: set listener.name.{listener.lower()}.{setting} with the username="…" and '
            'password="…" of this node'
        )
        return None
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
