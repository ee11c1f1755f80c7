"""The quotas of clients at the active controller: partitions that they create and delete (`controller_mutation_rate`).

    begin(client) ──► the plan calls take(partitions) for each topic ──► end() tells for how long it is throttled

The client is the one that a broker names with its request. What no client is named for is not limited: other requests
of brokers, and those that an administrator sends to the controller itself.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker_core.metadata.client_quotas import ClientQuotas
from broker_core.model.exceptions import RequestRefusedError
from broker_core.quota.client_throttle import ClientThrottle, MutationCharge
from broker_core.quota.quota_table import QuotaClient
from broker_core.quota.sampled_rate import QuotaWindow


class MutationLimits:
    """Of one active controller: a new one begins with full buckets."""

    def __init__(self, window: QuotaWindow) -> None:
        self._throttle = ClientThrottle(window, window)
        self._learned: tuple[ClientQuotas, int] | None = None
        self._charge: MutationCharge | None = None

    def begin(self, quotas: ClientQuotas, client: QuotaClient, *, is_strict: bool) -> None:
        """A request of the client is planned now."""
        if self._learned is None or self._learned[0] is not quotas or self._learned[1] != quotas.change_count:
            self._learned = (quotas, quotas.change_count)
            self._throttle.learn(quotas.by_entity)
        self._charge = self._throttle.mutations_of(client, is_strict=is_strict)

    def take(self, partition_count: int, now_ms: int) -> None:
        """Raises RequestRefusedError with THROTTLING_QUOTA_EXCEEDED."""
        if self._charge is not None and not self._charge.take(partition_count, now_ms):
            raise RequestRefusedError(
                "The throttling quota has been exceeded.", error_code=ErrorCode.throttling_quota_exceeded
            )

    def end(self, now_ms: int) -> int:
        """For how many ms the client is throttled."""
        charge, self._charge = self._charge, None
        return 0 if charge is None else charge.throttle_ms(now_ms)
