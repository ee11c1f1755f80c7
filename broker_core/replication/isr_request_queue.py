"""What the leaders of one broker propose to the controller: one request under way, with everything that waits.

submit ──► waiting ── next_request ──► under way ── on_answered ──► the leaders hear
              ▲                            │
              └──────── on_failed ─────────┘  after 50 ms
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.replication.isr_answer_table import IsrReaction, isr_reaction
from broker_core.replication.replication_values import MemberProposal

RETRY_PAUSE_MS: Final = 50


class IsrRequestQueue:
    """Keys are partitions. Of two proposals for one partition the newer one counts."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, MemberProposal] = {}
        self._under_way: dict[Hashable, MemberProposal] | None = None
        self._resume_ms = 0

    @property
    def next_timer_ms(self) -> int | None:
        """When `next_request` has one; None: not before something else happens."""
        return self._resume_ms if self._waiting and self._under_way is None else None

    def submit(self, key: Hashable, proposal: MemberProposal) -> None:
        self._waiting[key] = proposal

    def next_request(self, now_ms: int) -> dict[Hashable, MemberProposal] | None:
        """All that waits, as the request that is under way from now on."""
        if self._under_way is not None or not self._waiting or now_ms < self._resume_ms:
            return None
        self._under_way, self._waiting = self._waiting, {}
        return dict(self._under_way)

    def on_answered(self, errors: Iterable[ErrorCode], now_ms: int) -> dict[Hashable, MemberProposal]:
        """The answer came, with these errors of its partitions. Returns what it answers, for the leaders. One that
        tries again does so after a pause."""
        answered, self._under_way = self._under_way, None
        assert answered is not None, "nothing is under way"
        if any(isr_reaction(error) is IsrReaction.RETRY for error in errors):
            self._resume_ms = now_ms + RETRY_PAUSE_MS
        return answered

    def on_failed(self, now_ms: int) -> None:
        """No answer, or one to the request as a whole, such as STALE_BROKER_EPOCH: all of it is sent again."""
        assert self._under_way is not None, "nothing is under way"
        self._waiting = {**self._under_way, **self._waiting}
        self._under_way = None
        self._resume_ms = now_ms + RETRY_PAUSE_MS
