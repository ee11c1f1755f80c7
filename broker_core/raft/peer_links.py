"""The requests of a node that are under way, and the time when a peer can be asked again.

    ready ──begin──► under way ──answer──► ready
                         │ no answer, or one that is of no use
                         └──► pause, doubled each time up to a limit ──► ready

A peer gets one request at a time. The requests of an earlier role are forgotten with the role, and their answers are
ignored.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker_core.raft.quorum_values import QuorumTimings
from broker_core.raft.voter_events import PeerRequest


@dataclass(slots=True)
class _Link:
    request_id: int | None = None
    deadline_ms: int = 0
    ready_ms: int = 0
    pause_ms: int = 0


class PeerLinks:
    """By node id."""

    def __init__(self, timings: QuorumTimings) -> None:
        self._timings = timings
        self._longest_pause_ms = min(timings.retry_backoff_max_ms, timings.election_timeout_ms // 4)
        self._links: dict[int, _Link] = {}
        self._asked: dict[int, tuple[int, PeerRequest]] = {}
        self._last_id = 0

    @property
    def under_way_count(self) -> int:
        return len(self._asked)

    @property
    def next_deadline_ms(self) -> int | None:
        """When the wait for an answer is over."""
        return min((self._links[peer_id].deadline_ms for peer_id, _ in self._asked.values()), default=None)

    def is_ready(self, peer_id: int, now_ms: int) -> bool:
        link = self._links.get(peer_id)
        return link is None or (link.request_id is None and now_ms >= link.ready_ms)

    def next_ms(self, peer_id: int) -> int:
        """When there is something to look at: the end of a pause, or of the wait for an answer."""
        link = self._links.get(peer_id)
        if link is None:
            return 0
        return link.ready_ms if link.request_id is None else link.deadline_ms

    def begin(self, peer_id: int, request: PeerRequest, now_ms: int) -> int:
        """The request's id."""
        link = self._links.setdefault(peer_id, _Link())
        self._last_id += 1
        link.request_id, link.deadline_ms = self._last_id, now_ms + self._timings.request_timeout_ms
        self._asked[self._last_id] = (peer_id, request)
        return self._last_id

    def take(self, request_id: int) -> tuple[int, PeerRequest] | None:
        """The peer that answers this id, and the request. None: the answer is not expected."""
        asked = self._asked.pop(request_id, None)
        if asked is not None:
            self._links[asked[0]].request_id = None
        return asked

    def on_success(self, peer_id: int) -> None:
        self._links[peer_id].pause_ms = 0

    def on_failure(self, peer_id: int, now_ms: int) -> None:
        link = self._links[peer_id]
        link.pause_ms = min(max(2 * link.pause_ms, self._timings.retry_backoff_ms), self._longest_pause_ms)
        link.ready_ms = now_ms + link.pause_ms

    def overdue(self, now_ms: int) -> list[int]:
        """Ids of requests whose time is over."""
        return [
            request_id for request_id, (peer_id, _) in self._asked.items() if now_ms >= self._links[peer_id].deadline_ms
        ]

    def forget(self) -> None:
        """Every peer is ready at once, and no answer is awaited."""
        self._links.clear()
        self._asked.clear()
