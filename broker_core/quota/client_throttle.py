"""What the clients of one node have used of their quotas, and how long each is throttled.

    producer_byte_rate         bytes of Produce requests           SampledRate
    consumer_byte_rate         bytes of records in Fetch answers   SampledRate
    request_percentage         share of the time that requests     SampledRate, at most one sample's time
                               take, 100 for one thread
    controller_mutation_rate   partitions created and deleted      TokenBucket

A request that goes beyond a quota was carried out already: the answer is sent at once, and then nothing is read from
the client for the throttle time, which the answer tells. So nothing is refused, except by the mutation rate, and a
client that does not know of throttling is slowed down, too.

A throttled Fetch is answered without records, which do not count then. Those of a client that got nothing within the
whole window are delivered, however many they are: else a batch that is larger than the window allows, which Kafka's
consumers never get, would stop the client for good.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from broker_core.model.limits import MAX_QUOTA_METERS
from broker_core.quota.quota_table import EntityQuotas, QuotaClient, QuotaTable
from broker_core.quota.sampled_rate import QuotaWindow, SampledRate
from broker_core.quota.token_bucket import TokenBucket

Meter = TypeVar("Meter")

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"

_SECOND_MS: Final = 1000
_PERCENT_PER_NANOSECOND: Final = 100 / 1_000_000_000


class QuotaMeters(Generic[Meter]):
    """One meter for all clients whose records count together, for one key. Those that were not used for longest are
    dropped when there are too many: their clients begin anew."""

    def __init__(self, key: str, new_meter: Callable[[], Meter], *, most: int = MAX_QUOTA_METERS) -> None:
        self._key = key
        self._new_meter = new_meter
        self._most = most
        self._table = QuotaTable(key, {})
        self._meters: OrderedDict[tuple[str, str], Meter] = OrderedDict()

    @property
    def is_used(self) -> bool:
        """Somebody has a quota."""
        return bool(self._table)

    def learn(self, quotas: EntityQuotas) -> None:
        """What was used so far counts against the new bounds."""
        self._table = QuotaTable(self._key, quotas)
        if not self._table:
            self._meters.clear()

    def bound_of(self, client: QuotaClient) -> float | None:
        found = self._table.bound_of(client)
        return None if found is None else found.bound

    def meter_of(self, client: QuotaClient) -> tuple[Meter, float] | None:
        """With the client's bound; None: it has no quota."""
        found = self._table.bound_of(client)
        if found is None:
            return None
        meter = self._meters.get(found.shared_by)
        if meter is None:
            meter = self._meters[found.shared_by] = self._new_meter()
            if len(self._meters) > self._most:
                self._meters.popitem(last=False)
        else:
            self._meters.move_to_end(found.shared_by)
        return meter, found.bound


class ClientThrottle:
    """Methods return for how many ms the client is throttled; 0: not at all."""

    def __init__(self, window: QuotaWindow, mutation_window: QuotaWindow) -> None:
        self._window = window
        self._produced = QuotaMeters(PRODUCER_BYTE_RATE, lambda: SampledRate(window))
        self._fetched = QuotaMeters(CONSUMER_BYTE_RATE, lambda: SampledRate(window))
        self._handled = QuotaMeters(REQUEST_PERCENTAGE, lambda: SampledRate(window))
        self._mutations = QuotaMeters(CONTROLLER_MUTATION_RATE, lambda: TokenBucket(mutation_window))
        self.is_used = False
        """Somebody has a quota of any kind."""

    def learn(self, quotas: EntityQuotas) -> None:
        kinds = (self._produced, self._fetched, self._handled, self._mutations)
        for meters in kinds:
            meters.learn(quotas)
        self.is_used = any(meters.is_used for meters in kinds)

    @property
    def counts_mutations(self) -> bool:
        return self._mutations.is_used

    def on_produced(self, client: QuotaClient, byte_count: int, now_ms: int) -> int:
        found = self._produced.meter_of(client)
        if found is None:
            return 0
        meter, bound = found
        meter.record(byte_count, now_ms)
        return meter.throttle_ms(bound, now_ms)

    def most_fetch_bytes(self, client: QuotaClient) -> int | None:
        """What a Fetch may return without being throttled for it alone; None: no limit."""
        bound = self._fetched.bound_of(client)
        return None if bound is None else int(bound * self._window.full_span_ms / _SECOND_MS)

    def on_fetched(self, client: QuotaClient, byte_count: int, now_ms: int) -> int:
        """Not 0: answer without records, and the bytes do not count."""
        found = self._fetched.meter_of(client)
        if found is None:
            return 0
        meter, bound = found
        is_first = meter.total(now_ms) <= 0
        meter.record(byte_count, now_ms)
        throttle_ms = meter.throttle_ms(bound, now_ms)
        if not throttle_ms or is_first:
            return 0
        meter.record(-byte_count, now_ms)
        return throttle_ms

    def rollback_fetched(self, client: QuotaClient, byte_count: int, now_ms: int) -> None:
        """The answer is sent without them, for another reason."""
        found = self._fetched.meter_of(client)
        if found is not None:
            found[0].record(-byte_count, now_ms)

    def on_handled(self, client: QuotaClient, spent_ns: int, now_ms: int) -> int:
        """A request has taken so much of a thread's time."""
        found = self._handled.meter_of(client)
        if found is None:
            return 0
        meter, bound = found
        meter.record(spent_ns * _PERCENT_PER_NANOSECOND, now_ms)
        return min(meter.throttle_ms(bound, now_ms), self._window.sample_ms)

    def mutations_of(self, client: QuotaClient, *, is_strict: bool) -> MutationCharge | None:
        """For one request; None: it has no quota. `is_strict`: what is beyond it is refused."""
        found = self._mutations.meter_of(client)
        return None if found is None else MutationCharge(*found, is_strict=is_strict)


class MutationCharge:
    """The partitions that one request creates or deletes, as they are taken from its client's bucket."""

    def __init__(self, bucket: TokenBucket, bound: float, *, is_strict: bool) -> None:
        self._bucket = bucket
        self._bound = bound
        self._is_strict = is_strict
        self._throttle_ms = 0
        self._since_ms = 0

    def take(self, partition_count: int, now_ms: int) -> bool:
        """False: refused. A strict one refuses while the bucket is in debt, and lets any number pass if it is not."""
        if self._is_strict:
            throttle_ms = self._bucket.throttle_ms(self._bound, now_ms)
            if throttle_ms:
                self._note(throttle_ms, now_ms)
                return False
        self._bucket.take(partition_count, self._bound, now_ms)
        if not self._is_strict:
            self._note(self._bucket.throttle_ms(self._bound, now_ms), now_ms)
        return True

    def _note(self, throttle_ms: int, now_ms: int) -> None:
        self._throttle_ms, self._since_ms = throttle_ms, now_ms

    def throttle_ms(self, now_ms: int) -> int:
        """What is left of it: the request may have waited meanwhile."""
        return max(0, self._throttle_ms - (now_ms - self._since_ms))
