"""A cluster as the helpers of clients take it, like a broker: `bootstrap`, `name`, `client`, `admin`."""

from __future__ import annotations

import itertools

from confluent_kafka.admin import AdminClient

from broker_core.client.cluster_client import open_remote
from broker_core.model.client_settings import parse_client_settings


class ClientPlace:
    """A mixin; the cluster has `bootstrap_servers`, and sets `_names` when it is made."""

    _names: itertools.count

    def bootstrap(self, listener="PLAINTEXT"):
        assert listener == "PLAINTEXT"
        return self.bootstrap_servers

    def name(self, start="t"):
        return f"{start}{next(self._names)}"

    def client(self):
        return open_remote(parse_client_settings({"bootstrap.servers": self.bootstrap_servers}))

    def admin(self):
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
