"""Producer ids for this process: allocated from the metadata log in blocks, assigned one by one."""

from __future__ import annotations

import threading
from collections.abc import Callable

from broker_core.metadata.controller import ProducerIdBlock


class NoIdHeldError(Exception):
    """The block has no id left: `fetch()` another one, outside of any lock, and start again."""


class ProducerIds:
    """Assigns ids of blocks from `take_block`, each id once. Unused ids are lost at the end."""

    def __init__(self, take_block: Callable[[], ProducerIdBlock]) -> None:
        self._take_block = take_block
        self._fetching = threading.Lock()
        self._mutex = threading.Lock()
        self._next_id = 0
        self._until_id = 0

    def next_id(self) -> int:
        while True:
            try:
                return self.held_id()
            except NoIdHeldError:
                self.fetch()

    def held_id(self) -> int:
        """For a caller that holds a partition's lock and may not wait for the metadata log's. Raises NoIdHeldError."""
        with self._mutex:
            if self._next_id == self._until_id:
                raise NoIdHeldError
            taken = self._next_id
            self._next_id += 1
            return taken

    def fetch(self) -> None:
        """Takes a block if no id is left. Does not hold the ids' mutex while it waits for the metadata log's lock."""
        with self._fetching:
            with self._mutex:
                if self._next_id < self._until_id:
                    return
            block = self._take_block()
            with self._mutex:
                self._next_id, self._until_id = block.first_id, block.first_id + block.id_count
