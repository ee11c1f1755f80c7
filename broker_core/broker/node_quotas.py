"""The quotas of a node's clients, as the metadata log has them now."""

from __future__ import annotations

from typing import Final

from broker_core.broker.settings.broker_config import BrokerConfig
from broker_core.metadata.client_quotas import ClientQuotas
from broker_core.quota.client_throttle import ClientThrottle
from broker_core.quota.connection_rates import ConnectionRates
from broker_core.quota.sampled_rate import QuotaWindow

_SECOND_MS: Final = 1000


class NodeQuotas:
    """`clients` and `connections` are what requests and listeners ask."""

    def __init__(self, config: BrokerConfig) -> None:
        window = QuotaWindow(
            sample_count=config.quota_window_num, sample_ms=config.quota_window_size_seconds * _SECOND_MS
        )
        mutation_window = QuotaWindow(
            sample_count=config.controller_quota_window_num,
            sample_ms=config.controller_quota_window_size_seconds * _SECOND_MS,
        )
        self.clients = ClientThrottle(window, mutation_window)
        self.connections = ConnectionRates(window)
        self._learned: tuple[ClientQuotas, int] | None = None

    def learn(self, quotas: ClientQuotas) -> None:
        """After each change of the image, of whatever."""
        learned = self._learned
        if learned is not None and learned[0] is quotas and learned[1] == quotas.change_count:
            return
        self._learned = (quotas, quotas.change_count)
        self.clients.learn(quotas.by_entity)
        self.connections.learn(quotas.by_entity)
