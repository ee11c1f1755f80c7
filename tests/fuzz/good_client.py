"""A client that behaves, beside those that do not: it writes and reads its own topic all the time, and notes what is
not as it should be."""

from __future__ import annotations

import threading
import time

from support.builders.builders import a_batch

from broker_core.client.cluster_client import open_remote
from broker_core.model.client_settings import parse_client_settings
from broker_core.model.identifiers import TopicPartition
from broker_core.record.batch_reader import iter_headers

LONGEST_ROUND_SECONDS = 10
"""On a busy machine, with a sync of the disk in it."""


class GoodClient:
    """Runs in a thread until `stop`; gives what it found wrong, and how many rounds it made."""

    def __init__(self, bootstrap, topic):
        self._client = open_remote(parse_client_settings({"bootstrap.servers": bootstrap}))
        self._client.create_topic(topic, partition_count=1, configs={"retention.ms": "-1"})
        self._partition = TopicPartition(topic, 0)
        self._stops = threading.Event()
        self.errors = []
        self.round_count = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self):
        self._stops.set()
        self._thread.join(60)
        self._client.close()

    def _run(self):
        while not self._stops.is_set():
            begun = time.monotonic()
            try:
                self._round()
            except Exception as error:
                self.errors.append(repr(error))
                return
            if time.monotonic() - begun > LONGEST_ROUND_SECONDS:
                self.errors.append(f"a round of {time.monotonic() - begun:.1f} s")
            self.round_count += 1

    def _round(self):
        result = self._client.append(self._partition, a_batch(2))
        assert result.base_offset == 2 * self.round_count, (result, self.round_count)
        fetched = self._client.fetch(self._partition, result.base_offset, max_bytes=2**16)
        assert [header.base_offset for _, header in iter_headers(fetched.buffer)] == [result.base_offset]
