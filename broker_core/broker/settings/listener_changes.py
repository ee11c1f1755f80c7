"""Listeners that are added, removed or changed while a broker runs: what stays, and what Kafka does not allow.

A listener that is advertised cannot be removed: clients, and other brokers, know its address. Without
`advertised.listeners` in the properties file all are advertised, also those that were added. The protocol of a listener
cannot be changed; everything else of it can, for new connections.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from broker_core.broker.settings.listener_settings import Listener, inter_broker_listener, reachable
from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.setting_parsers import items_of


def kept_listeners(old: Iterable[Listener], new: Iterable[Listener], machine_name: str) -> tuple[Listener, ...]:
    """`new`, as it was written. Where it has port 0 a listener keeps the port that it has."""
    ports = {one.name: one.port for one in old}
    return tuple(reachable(one, one.port or ports.get(one.name, 0), machine_name) for one in new)


def check_listener_change(
    old: Sequence[Listener], new: Sequence[Listener], of_file: Mapping[str, str], written: str
) -> None:
    """`of_file`: the settings of the properties file; `written`: the new value of `listeners`. Raises
    InvalidConfigError."""
    names = [one.name for one in new]
    advertised = _names(of_file.get("advertised.listeners", "")) or [one.name for one in old]
    between_brokers = inter_broker_listener(of_file)
    if between_brokers in advertised and between_brokers not in names:
        raise InvalidConfigError(
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options"
            f" based on currently configured listeners are {','.join(names)}"
        )
    if not set(advertised) <= set(names):
        raise InvalidConfigError(
            f"Advertised listeners '{','.join(advertised)}' must be a subset of listeners '{','.join(names)}'"
        )
    controllers = _names(of_file.get("controller.listener.names", ""))
    if "controller" in items_of(of_file.get("process.roles", "")) and not set(controllers) & set(_names(written)):
        raise InvalidConfigError(
            "controller.listener.names must contain at least one value appearing in the 'listeners' configuration when"
            " running the KRaft controller role"
        )
    protocols = {one.name: one.protocol for one in old}
    for one in new:
        if protocols.get(one.name, one.protocol) is not one.protocol:
            raise InvalidConfigError(
                f"Security protocol cannot be updated for existing listener ListenerName({one.name})"
            )


def _names(listeners: str) -> list[str]:
    """Of a list like `PLAINTEXT://:9092,SSL://:9093`, or of names alone."""
    return [one.partition("://")[0].upper() for one in items_of(listeners) if one]
