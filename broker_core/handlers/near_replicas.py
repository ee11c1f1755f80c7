"""Which replica a consumer should rather fetch from: one in its rack (KIP-392, RackAwareReplicaSelector).

The leader says so instead of records, and the consumer fetches there until its metadata are old, or that replica
refuses it. A follower answers up to its own high watermark.
"""

from __future__ import annotations

from broker_core.broker.partition.replica import Replica
from broker_core.handlers.call import Call

FIRST_VERSION_WITH_FOLLOWERS = 11
"""From here on consumers know of them."""


class NearReplicas:
    """For one fetch of a consumer."""

    def __init__(self, call: Call) -> None:
        self._cluster = call.node.cluster
        self._rack: str = call.request_field("rack_id", "") if call.node.config.has_near_replicas else ""

    def preferred(self, replica: Replica, fetch_offset: int) -> int | None:
        """The broker's id; None: this one is meant, or none is near."""
        if not self._rack or self._is_near(self._cluster.node_id):
            return None
        return replica.preferred_reader(fetch_offset, self._is_near)

    def _is_near(self, broker_id: int) -> bool:
        return self._cluster.rack_of(broker_id) == self._rack
