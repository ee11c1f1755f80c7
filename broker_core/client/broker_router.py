"""Routes requests: to any broker, to a partition's leader, to a coordinator; with retries.

    router.run("what, in words", lambda deadline: …)      a call with retries; the function is called for each try
    router.ask_any / ask_leader / ask_coordinator          one try

A failed try raises; `run` decides by the error whether to retry, drops routes that may be stale (leaders,
coordinators), backs off, and at the deadline raises the last error.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode
from kio.static.protocol import RequestPayload

from broker_core.client.broker_connection import BrokerConnection
from broker_core.client.broker_errors import broker_error, is_about_the_route, is_worth_a_retry
from broker_core.client.connection_pool import ConnectionPool
from broker_core.client.coordinator_finder import CoordinatorType, coordinator_request, coordinators_of
from broker_core.client.deadline import Backoff, Deadline
from broker_core.client.metadata_snapshot import NO_LEADER, MetadataSnapshot, TopicMetadata, metadata_request, renewed
from broker_core.client.process_lock import ProcessLock
from broker_core.client.retry_warning import RetryWarning
from broker_core.client.unreachable_warning import trying_next, trying_until
from broker_core.model.client_settings import BrokerAddress, ClientSettings
from broker_core.model.exceptions import (
    BrokerUnavailableError,
    RequestTimedOutError,
    StreamlogError,
    UnknownPartitionError,
    UnknownTopicError,
)
from broker_core.model.identifiers import TopicPartition

Answer = TypeVar("Answer")

_BUSY_BACKOFF_MS: Final = 10
"""The first backoff where the right broker only needs a moment; it grows."""


class BrokerRouter:
    """Thread-safe, and usable in a forked child."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._pool = ConnectionPool(settings)
        self._lock = ProcessLock()
        self._view = MetadataSnapshot()
        self._is_stale = True
        self._renewed_at = 0.0
        self._coordinators: dict[tuple[CoordinatorType, str], int] = {}

    # -- calls --

    def run(self, what: str, attempt: Callable[[Deadline], Answer], *, timeout_ms: int | None = None) -> Answer:
        """Retries until success, a fatal error or the deadline: `default.api.timeout.ms` unless `timeout_ms` is
        given."""
        if timeout_ms is None:
            deadline = Deadline(self.settings.api_timeout_ms, setting="default.api.timeout.ms")
        else:
            deadline = Deadline(timeout_ms, setting="delivery.timeout.ms")
        backoff = Backoff(first_ms=self.settings.retry_backoff_ms, longest_ms=self.settings.retry_backoff_max_ms)
        busy = Backoff(first_ms=_BUSY_BACKOFF_MS, longest_ms=self.settings.retry_backoff_max_ms)
        warning = RetryWarning()
        reported: StreamlogError | None = None
        while True:
            try:
                return attempt(deadline)
            except StreamlogError as error:
                if not is_worth_a_retry(error):
                    raise
                if reported is None or not deadline.is_over:
                    # A timeout in the middle of a try explains nothing; the error before it does.
                    reported = error
                if is_about_the_route(error):
                    self.forget_routes()
                    pause = backoff.next_seconds()
                else:
                    pause = busy.next_seconds()
                warning.on_failure(what, error, deadline, pause_seconds=pause)
                if not deadline.pause(pause):
                    raise _out_of_time(what, deadline, reported) from error

    def forget_routes(self) -> None:
        """Leaders and coordinators are looked up again before their next use."""
        with self._lock:
            self._is_stale = True
            self._coordinators.clear()

    # -- one try --

    def ask_any(self, request: RequestPayload, deadline: Deadline) -> Any:
        """Asks the first reachable broker: connected ones first, the bootstrap addresses last."""
        return self.ask_first_of(self._candidates(), [request], deadline)[0]

    def ask_node(self, node_id: int, requests: Sequence[RequestPayload], deadline: Deadline) -> list[Any]:
        return self.node(node_id, deadline).ask(requests, deadline)

    def ask_coordinator(
        self, kind: CoordinatorType, key: str, requests: Sequence[RequestPayload], deadline: Deadline
    ) -> list[Any]:
        return self.ask_node(self.coordinator(kind, key, deadline), requests, deadline)

    def ask_first_of(
        self, addresses: Iterable[BrokerAddress], requests: Sequence[RequestPayload], deadline: Deadline
    ) -> list[Any]:
        """Tries the addresses in order. Raises a BrokerUnavailableError with the errors of all."""
        errors = []
        candidates = list(addresses)
        for position, address in enumerate(candidates, 1):
            is_last = position == len(candidates)
            then = trying_until(deadline) if is_last else trying_next(candidates[position])
            try:
                return self._pool.connection(address, deadline, then=then).ask(requests, deadline)
            except (BrokerUnavailableError, RequestTimedOutError) as error:
                errors.append(error.message)
                if deadline.is_over:
                    break
        raise BrokerUnavailableError(f"no broker can be reached: {'; '.join(errors)}")

    def node(self, node_id: int, deadline: Deadline) -> BrokerConnection:
        """The connection to a broker by node id."""
        address = self.view(deadline).brokers.get(node_id)
        if address is None:
            raise BrokerUnavailableError(f"broker {node_id} is not in the metadata of the cluster")
        try:
            return self._pool.connection(address, deadline, then=trying_until(deadline))
        except BrokerUnavailableError as error:
            if address in self.settings.bootstrap_servers:
                raise
            raise BrokerUnavailableError(
                f"{error.message} (broker {node_id} advertises this address; {self.settings} was reachable: check the "
                "broker's advertised.listeners)",
                address=str(address),
            ) from error

    # -- the cluster's metadata --

    def view(self, deadline: Deadline) -> MetadataSnapshot:
        """The cluster's metadata, requested if it is missing or stale."""
        with self._lock:
            is_old = (time.monotonic() - self._renewed_at) * 1000 > self.settings.metadata_max_age_ms
            if self._view.brokers and not self._is_stale and not is_old:
                return self._view
            self._is_stale = True
        return self.refresh([], deadline)

    def refresh(self, names: Collection[str], deadline: Deadline) -> MetadataSnapshot:
        """Requests metadata of the brokers and of these topics, and of all known topics if that may be stale."""
        with self._lock:
            wanted = {*names, *self._view.topics} if self._is_stale else set(names)
        answer = self.ask_any(metadata_request(wanted), deadline)
        with self._lock:
            self._view = renewed(self._view, answer)
            self._is_stale = False
            self._renewed_at = time.monotonic()
            return self._view

    def topic(self, name: str, deadline: Deadline) -> TopicMetadata:
        """Raises UnknownTopicError if a broker that was asked just now does not know it."""
        found = self.view(deadline).topics.get(name)
        if found is not None:
            return found
        view = self.refresh([name], deadline)
        if name in view.topics:
            return view.topics[name]
        code = view.errors.get(name, ErrorCode.unknown_topic_or_partition)
        if code == ErrorCode.unknown_topic_or_partition:
            raise UnknownTopicError(f"Topic '{name}' does not exist.", topic=name)
        raise broker_error(code, f"topic {name!r}", topic=name)

    def leader_of(self, partition: TopicPartition, deadline: Deadline) -> int:
        """The node id of the leader. Raises UnknownTopicError, UnknownPartitionError."""
        topic = self.topic(partition.topic, deadline)
        if partition.partition >= len(topic.partitions):
            self.refresh([partition.topic], deadline)
            topic = self.topic(partition.topic, deadline)
        if not 0 <= partition.partition < len(topic.partitions):
            raise UnknownPartitionError(
                f"Topic '{partition.topic}' has no partition {partition.partition}: it has"
                f" {len(topic.partitions)} partitions.",
                topic=partition.topic,
                partition=partition.partition,
            )
        leader_id = topic.partitions[partition.partition].leader_id
        if leader_id == NO_LEADER:
            raise broker_error(ErrorCode.leader_not_available, f"{partition} has no leader")
        return leader_id

    def refusal(self, code: ErrorCode, what: str, partition: TopicPartition, deadline: Deadline) -> StreamlogError:
        """The exception for a coordinator's error code for a partition. UNKNOWN_TOPIC_OR_PARTITION may only mean that
        its metadata is stale: UnknownTopicError and UnknownPartitionError are raised only if no broker knows it."""
        if code == ErrorCode.unknown_topic_or_partition:
            self.refresh([partition.topic], deadline)
            self.leader_of(partition, deadline)
        return broker_error(code, f"{what}: {partition}")

    def by_leader(self, partitions: Iterable[TopicPartition], deadline: Deadline) -> dict[int, list[TopicPartition]]:
        """The partitions by leader. Raises like `leader_of`, for the first one without a leader."""
        partitions = list(partitions)
        unknown = {partition.topic for partition in partitions} - self.view(deadline).topics.keys()
        if len(unknown) > 1:
            self.refresh(unknown, deadline)
        grouped: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            grouped.setdefault(self.leader_of(partition, deadline), []).append(partition)
        return grouped

    def coordinator(self, kind: CoordinatorType, key: str, deadline: Deadline) -> int:
        return self.coordinators(kind, [key], deadline)[key]

    def coordinators(self, kind: CoordinatorType, keys: Collection[str], deadline: Deadline) -> dict[str, int]:
        """The coordinator's node id for each key. Raises the broker's error if there is one for any key."""
        with self._lock:
            known = {key: self._coordinators[kind, key] for key in keys if (kind, key) in self._coordinators}
        missing = sorted(set(keys) - known.keys())
        if missing:
            answer = self.ask_any(coordinator_request(kind, missing), deadline)
            found = coordinators_of(kind, missing, answer)
            with self._lock:
                self._coordinators.update({(kind, key): node_id for key, node_id in found.items()})
            known |= found
        return known

    def close(self) -> None:
        self._pool.close()

    def _candidates(self) -> list[BrokerAddress]:
        connected = self._pool.connected()
        known = [address for address in self._view.brokers.values() if address not in connected]
        seeds = [address for address in self.settings.bootstrap_servers if address not in {*connected, *known}]
        random.shuffle(known)
        return [*connected, *known, *seeds]


def _out_of_time(what: str, deadline: Deadline, error: StreamlogError) -> StreamlogError:
    if isinstance(error, BrokerUnavailableError):
        return BrokerUnavailableError(
            f"{what}: {error.message}; tried for {deadline.timeout_ms} ms ({deadline.setting})", **error.fields
        )
    return RequestTimedOutError(
        f"{what}: not completed within {deadline.timeout_ms} ms ({deadline.setting}); the last error: {error.message}"
    )
