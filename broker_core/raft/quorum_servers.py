"""Whom an observer asks next, and when: the leader, or the bootstrap servers in turn while it does not answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker_core.model.client_settings import BrokerAddress
from broker_core.raft.quorum_values import QuorumTimings


class QuorumServers:
    """Pauses double from `retry_backoff_ms` to `retry_backoff_max_ms` until something useful was answered."""

    def __init__(self, bootstrap: Sequence[BrokerAddress], timings: QuorumTimings) -> None:
        assert bootstrap, "an observer needs a bootstrap server"
        self._bootstrap = tuple(bootstrap)
        self._timings = timings
        self._addresses: dict[int, BrokerAddress] = {}
        self._next_server = 0
        self._asks_others = False
        self._asked_leader = False
        self._backoff_ms = timings.retry_backoff_ms
        self.next_try_ms = 0

    def learn(self, endpoints: Mapping[int, BrokerAddress]) -> None:
        """Addresses of nodes as an answer tells them."""
        self._addresses.update(endpoints)

    def address_of(self, node_id: int) -> BrokerAddress | None:
        return self._addresses.get(node_id)

    def next_to_ask(self, leader_id: int) -> BrokerAddress:
        leader = self._addresses.get(leader_id)
        self._asked_leader = leader is not None and not self._asks_others
        if leader is not None and self._asked_leader:
            return leader
        self._next_server = (self._next_server + 1) % len(self._bootstrap)
        return self._bootstrap[self._next_server]

    def on_useful_answer(self, now_ms: int) -> None:
        """The next request goes out at once, to the leader."""
        self._asks_others = False
        self._backoff_ms = self._timings.retry_backoff_ms
        self.next_try_ms = now_ms

    def on_useless_answer(self, now_ms: int, *, names_leader: bool) -> None:
        """`names_leader`: the answering node knows the same leader. Others may know more than the leader itself."""
        self._asks_others = self._asked_leader or not names_leader
        self._pause(now_ms)

    def on_no_answer(self, now_ms: int) -> None:
        """The next request goes to another node: the leader may be gone, and others know its successor."""
        self._asks_others = True
        self._pause(now_ms)

    def on_bad_content(self, now_ms: int) -> None:
        """The same server is asked again, after a pause."""
        self._pause(now_ms)

    def _pause(self, now_ms: int) -> None:
        self.next_try_ms = now_ms + self._backoff_ms
        self._backoff_ms = min(2 * self._backoff_ms, self._timings.retry_backoff_max_ms)
