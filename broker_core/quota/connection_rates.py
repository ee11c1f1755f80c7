"""How many connections an address may open in a second: `connection_creation_rate`, of an address or the default.

A connection beyond the rate is accepted, kept without reading from it for the throttle time, and closed: its client
sees a slow broker, and does not come back at once. It does not count itself.
"""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address
from typing import Final

from broker_core.model.limits import MAX_QUOTA_METERS
from broker_core.quota.quota_table import EntityQuotas
from broker_core.quota.sampled_rate import QuotaWindow, SampledRate

CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
_IP: Final = "ip"


def plain_address(address: str) -> str:
    """One text for each address. Raises ValueError if it is none."""
    parsed = ip_address(address)
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return str(mapped or parsed)


class ConnectionRates:
    """Of one node."""

    def __init__(self, window: QuotaWindow) -> None:
        self._window = window
        self._bounds: dict[str | None, float] = {}
        self._rates: OrderedDict[str, SampledRate] = OrderedDict()

    def learn(self, quotas: EntityQuotas) -> None:
        self._bounds.clear()
        for entity, by_key in quotas.items():
            names = dict(entity)
            if _IP in names and CONNECTION_CREATION_RATE in by_key:
                name = names[_IP]
                self._bounds[None if name is None else _as_known(name)] = by_key[CONNECTION_CREATION_RATE]
        if not self._bounds:
            self._rates.clear()

    def on_connection(self, address: str, now_ms: int) -> int:
        """0: it may stay. Else it may not, and is closed after so many ms."""
        if not self._bounds:
            return 0
        address = _as_known(address)
        bound = self._bounds.get(address, self._bounds.get(None))
        if bound is None:
            return 0
        rate = self._rates.get(address)
        if rate is None:
            rate = self._rates[address] = SampledRate(self._window)
            if len(self._rates) > MAX_QUOTA_METERS:
                self._rates.popitem(last=False)
        self._rates.move_to_end(address)
        rate.record(1, now_ms)
        throttle_ms = min(rate.throttle_ms(bound, now_ms), self._window.sample_ms)
        if throttle_ms:
            rate.record(-1, now_ms)
        return throttle_ms


def _as_known(address: str) -> str:
    try:
        return plain_address(address)
    except ValueError:
        return address
