"""The listeners of a broker: `listeners`, `advertised.listeners`, and the settings of each listener.

    listeners=PLAINTEXT://127.0.0.1:9092,OUTSIDE://:9093
    advertised.listeners=OUTSIDE://broker.example.com:9093
    listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OUTSIDE:SASL_SSL
    listener.name.outside.ssl.keystore.location=/etc/broker.pem

A name that is not in the map must be that of a security protocol. Controller listeners are not among them: a controller
opens its own (`controller_listener`). Port 0 uses a free port; without a host the listener binds to all addresses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from broker_core.broker.settings.broker_settings import BROKER_SETTINGS
from broker_core.broker.settings.listener_security import ListenerLogin, ListenerTls, listener_login, listener_tls
from broker_core.model.client_settings import BrokerAddress, SecurityProtocol
from broker_core.model.setting_parsers import items_of

LISTENER_PREFIX: Final = "listener.name."
_MAX_PORT: Final = 65_535
_ENDPOINT: Final = re.compile(
    r"(?P<name>[A-Za-z0-9_.-]+)://(?:\[(?P<six>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^:\s/\[\]]*)):(?P<port>\d{1,5})"
)
_EVERYWHERE: Final = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """`host` empty: all addresses. `advertised` with an empty host: the machine's own name; with port 0: the bound one.
    `tls` and `login` are None if the protocol does not use them."""

    name: str
    protocol: SecurityProtocol
    host: str
    port: int
    advertised: BrokerAddress
    tls: ListenerTls | None = None
    login: ListenerLogin | None = None
    max_connection_count: int | None = None

    def __str__(self) -> str:
        return f"{self.name}://{BrokerAddress(host=self.host, port=self.port)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Endpoint:
    name: str
    host: str
    port: int


def parse_listeners(
    given: Mapping[str, str], complaints: list[str], *, of_file: Mapping[str, str] | None = None
) -> tuple[Listener, ...]:
    """`given`: all settings by name; `of_file`: those of the properties file, by default all. Mistakes are added to
    `complaints`. A dynamic setting may be for a listener that is not there (yet)."""
    endpoints = _endpoints("listeners", given.get("listeners", BROKER_SETTINGS["listeners"].default or ""), complaints)
    closed = {name.upper() for name in items_of(given.get("controller.listener.names", ""))}
    served = [endpoint for endpoint in endpoints if endpoint.name not in closed]
    if not served and not complaints:
        complaints.append("listeners has no listener for clients: set it, for example, to PLAINTEXT://127.0.0.1:9092")
    advertised = {
        endpoint.name: endpoint
        for endpoint in _endpoints("advertised.listeners", given.get("advertised.listeners", ""), complaints)
    }
    for name in sorted(advertised.keys() - {endpoint.name for endpoint in endpoints}):
        complaints.append(f"advertised.listeners: {name} is not in listeners")
    protocols = _protocol_map(given, complaints)
    of_file = given if of_file is None else of_file
    names = {item.partition("://")[0].upper() for item in items_of(of_file.get("listeners", ""))}
    # Also those of controllers, to which this node only connects.
    _check_names_of_overrides(of_file, names | closed | {one.name for one in endpoints}, complaints)
    return tuple(
        _listener(endpoint, advertised.get(endpoint.name), protocols, given, complaints)
        for endpoint in served
        if _is_known(endpoint.name, protocols, complaints)
    )


def inter_broker_listener(of_file: Mapping[str, str]) -> str:
    """The name of the listener that brokers use among themselves."""
    name = of_file.get("inter.broker.listener.name") or of_file.get("security.inter.broker.protocol") or "PLAINTEXT"
    return name.strip().upper()


def controller_listener(given: Mapping[str, str], name: str, address: BrokerAddress, complaints: list[str]) -> Listener:
    """The listener of a controller that is reached at this address, with its TLS and logins."""
    endpoint = _Endpoint(name=name, host=address.host, port=address.port)
    protocols = {name: protocol_of_listener(name, given)}
    return _listener(endpoint, None, protocols, given, complaints)


def own_controller_listener(given: Mapping[str, str], name: str, complaints: list[str]) -> Listener | None:
    """The listener of a controller as `listeners` and `advertised.listeners` have it. None: with a complaint."""
    found = {each.name: each for each in _endpoints("listeners", given.get("listeners", ""), complaints)}
    shown = _endpoints("advertised.listeners", given.get("advertised.listeners", ""), complaints)
    advertised = {each.name: each for each in shown}
    if name not in found:
        complaints.append(f"listeners has no {name}, which other controllers connect to (controller.listener.names)")
        return None
    return _listener(found[name], advertised.get(name), {name: protocol_of_listener(name, given)}, given, complaints)


def protocol_of_listener(name: str, given: Mapping[str, str]) -> SecurityProtocol:
    """A listener that is not in the map and has no protocol's name has PLAINTEXT, as Kafka's controllers."""
    return _protocol_map(given, []).get(name.upper(), SecurityProtocol.PLAINTEXT)


def reachable(listener: Listener, port: int, machine_name: str) -> Listener:
    """The listener with its bound port. The advertised address has this port, and this machine's name, if it has none
    of its own."""
    advertised = listener.advertised
    return replace(
        listener,
        port=port,
        advertised=BrokerAddress(host=advertised.host or machine_name, port=advertised.port or port),
    )


def settings_of_listener(given: Mapping[str, str], name: str) -> dict[str, str]:
    """The settings of one listener: its own override the general ones."""
    prefix = f"{LISTENER_PREFIX}{name.lower()}."
    own = {key[len(prefix) :]: value for key, value in given.items() if key.lower().startswith(prefix)}
    return {**given, **own}


def _listener(
    endpoint: _Endpoint,
    advertised_endpoint: _Endpoint | None,
    protocols: Mapping[str, SecurityProtocol],
    given: Mapping[str, str],
    complaints: list[str],
) -> Listener:
    protocol = protocols[endpoint.name]
    own = settings_of_listener(given, endpoint.name)
    shown = advertised_endpoint or endpoint
    if shown.host in _EVERYWHERE:
        complaints.append(
            f"advertised.listeners: clients cannot connect to {shown.host}; set the address of this machine for "
            f"{endpoint.name}"
        )
    limit = given.get(f"{LISTENER_PREFIX}{endpoint.name.lower()}.max.connections")
    return Listener(
        name=endpoint.name,
        protocol=protocol,
        host=endpoint.host,
        port=endpoint.port,
        advertised=BrokerAddress(host=shown.host, port=shown.port),
        tls=listener_tls(own, endpoint.name, complaints) if protocol.is_encrypted else None,
        login=listener_login(own, endpoint.name, complaints) if protocol.is_authenticated else None,
        max_connection_count=int(limit) if limit is not None and limit.strip().isdigit() else None,
    )


def _endpoints(setting: str, value: str, complaints: list[str]) -> list[_Endpoint]:
    found: list[_Endpoint] = []
    for item in items_of(value):
        parts = _ENDPOINT.fullmatch(item)
        if parts is None or int(parts["port"]) > _MAX_PORT:
            complaints.append(f"{setting}: {item!r} is not a listener; write NAME://host:port, separated by commas")
            continue
        name = parts["name"].upper()
        if any(name == other.name for other in found):
            complaints.append(f"{setting}: {name} is given twice; listener names must be unique")
            continue
        endpoint = _Endpoint(name=name, host=parts["six"] or parts["host"] or "", port=int(parts["port"]))
        clash = next((one for one in found if endpoint.port and one.port == endpoint.port), None)
        if setting == "listeners" and clash is not None and clash.host == endpoint.host:
            complaints.append(f"{setting}: {clash.name} and {name} have the same port {endpoint.port}")
        found.append(endpoint)
    return found


def _protocol_map(given: Mapping[str, str], complaints: list[str]) -> dict[str, SecurityProtocol]:
    setting = "listener.security.protocol.map"
    protocols = {protocol.value: protocol for protocol in SecurityProtocol}
    for item in items_of(given.get(setting, "")):
        name, _, protocol = (part.strip().upper() for part in item.partition(":"))
        if not name or protocol not in {one.value for one in SecurityProtocol}:
            complaints.append(
                f"{setting}: {item!r} must be NAME:protocol, with a protocol of {', '.join(SecurityProtocol)}"
            )
        else:
            protocols[name] = SecurityProtocol(protocol)
    return protocols


def _is_known(name: str, protocols: Mapping[str, SecurityProtocol], complaints: list[str]) -> bool:
    if name not in protocols:
        complaints.append(
            f"listener.security.protocol.map has no protocol for listener {name}: add, for example, {name}:PLAINTEXT"
        )
    return name in protocols


def _check_names_of_overrides(given: Mapping[str, str], names: set[str], complaints: list[str]) -> None:
    for key in given:
        if key.startswith(LISTENER_PREFIX):
            name = key[len(LISTENER_PREFIX) :].partition(".")[0]
            if name.upper() not in names:
                complaints.append(f"{key}: {name.upper()} is not in listeners")
