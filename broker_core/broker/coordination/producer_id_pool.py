"""Producer ids of a node: allocated in blocks from the metadata log, each id used once.

A plan needs its id immediately, so callers use `when_held`: an id is available when their callback runs. The next block
is fetched while ids of this one are left. Unused ids are lost when the node stops, as in Kafka.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from broker_core.broker.callback_errors import OnError, log_callback_errors
from broker_core.broker.topic_store import TopicStore
from broker_core.metadata.controller import ProducerIdBlock
from broker_core.model.exceptions import CoordinatorLoadingError, StreamlogError

_log: Final = logging.getLogger(__name__)

_FETCHED_AHEAD: Final = 100
"""The next block is fetched when this many ids are left: a tenth of a block, as in Kafka."""


class ProducerIdPool:
    """Runs on the node's loop."""

    def __init__(self, topics: TopicStore) -> None:
        self._topics = topics
        self._blocks: deque[range] = deque()
        self._waiting: deque[tuple[Callable[[], None], OnError]] = deque()
        self._is_fetching = False

    @property
    def held_count(self) -> int:
        return sum(map(len, self._blocks))

    def when_held(self, callback: Callable[[], None], on_error: OnError) -> None:
        """Calls back, now or later, when `take` may be called once. If no ids are available, `on_error` gets
        CoordinatorLoadingError, as in Kafka."""
        if self._waiting or not self._blocks:
            self._waiting.append((callback, on_error))
            self._maybe_fetch()
        else:
            callback()

    def take(self) -> int:
        """Returns an unused id. Call it only in a callback of `when_held`, once."""
        assert self._blocks, "the block of producer ids is used up"
        block = self._blocks[0]
        if len(block) > 1:
            self._blocks[0] = block[1:]
        else:
            self._blocks.popleft()
        self._maybe_fetch()
        return block[0]

    def _maybe_fetch(self) -> None:
        if self._is_fetching or self.held_count > _FETCHED_AHEAD:
            return
        self._is_fetching = True
        self._topics.allocate_producer_ids(self._fetched, self._failed)

    def _fetched(self, block: ProducerIdBlock) -> None:
        self._is_fetching = False
        self._blocks.append(range(block.first_id, block.first_id + block.id_count))
        while self._waiting and self._blocks:
            callback, _ = self._waiting.popleft()
            log_callback_errors("a producer id", callback)
        if self._waiting:
            self._maybe_fetch()

    def _failed(self, error: StreamlogError) -> None:
        self._is_fetching = False
        _log.error("could not allocate producer ids: %s", error)
        refusal = CoordinatorLoadingError(f"No producer id is left, and allocating the next block failed: {error}")
        waiting, self._waiting = self._waiting, deque()
        for _, on_error in waiting:
            log_callback_errors("a producer id", on_error, refusal)
