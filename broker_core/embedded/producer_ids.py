"""Producer ids for this process: taken from the metadata log by the block, given out one by one."""

from __future__ import annotations

import threading
from collections.abc import Callable

from broker_core.metadata.controller import ProducerIdBlock


class ProducerIds:
    """Gives out ids of blocks from `take_block`, each id once. What is left at the end is lost."""

    def __init__(self, take_block: Callable[[], ProducerIdBlock]) -> None:
        self._take_block = take_block
        self._mutex = threading.Lock()
        self._next_id = 0
        self._until_id = 0

    def next_id(self) -> int:
        with self._mutex:
            if self._next_id == self._until_id:
                block = self._take_block()
                self._next_id, self._until_id = block.first_id, block.first_id + block.id_count
            taken = self._next_id
            self._next_id += 1
            return taken
