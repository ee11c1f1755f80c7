"""A producer of confluent-kafka in a thread: writes numbers to a topic until it is ended, and knows what was
acknowledged, where, and how long it had to wait for that."""

from __future__ import annotations

import time
from collections import defaultdict

from confluent_kafka import Producer
from support.cluster.client_thread import ClientThread

SECONDS = 60
_OUTSTANDING = 9
"""Few: the processes that are started meanwhile need the machine, too."""


class ClusterWriter(ClientThread):
    """A context manager. `acknowledged`: by partition, the values in the order of their acknowledgements."""

    def __init__(self, cluster, topic, *, partition_count=1, **settings):
        super().__init__()
        given = {
            "bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "enable.idempotence": True, "linger.ms": 1,
            "socket.timeout.ms": 2000, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200,
            "retry.backoff.ms": 20, "log_level": 0, **settings,
        }  # fmt: skip
        self.acknowledged, self.errors, self.longest_gap_s = defaultdict(list), [], 0.0
        self._producer, self._topic, self._partition_count = Producer(given), topic, partition_count
        self._last_s: dict[int, float] = {}

    def __exit__(self, kind, *exception):
        super().__exit__(kind, *exception)
        assert kind is not None or self.errors == []

    @property
    def count(self):
        return sum(map(len, self.acknowledged.values()))

    def wait_for_more(self, count=60):
        """Until each partition has so many more."""
        wanted = {number: len(self.acknowledged[number]) + count for number in range(self._partition_count)}
        deadline = time.monotonic() + SECONDS
        while any(len(self.acknowledged[number]) < least for number, least in wanted.items()):
            counts = {number: len(values) for number, values in self.acknowledged.items()}
            assert time.monotonic() < deadline, f"{counts} of {wanted} after {SECONDS} s"
            time.sleep(0.02)

    def _work(self):
        number = 0
        while not self._may_end.is_set():
            if len(self._producer) < _OUTSTANDING:
                place = {"partition": number % self._partition_count}
                self._producer.produce(self._topic, b"%d" % number, on_delivery=self._on_delivery, **place)
                number += 1
            self._producer.poll(0.01)
        if self._producer.flush(SECONDS):
            self.errors.append(f"{len(self._producer)} without an answer after {SECONDS} s")

    def _on_delivery(self, error, message):
        if error is not None:
            self.errors.append(error)
            return
        now, number = time.monotonic(), message.partition()
        self.longest_gap_s = max(self.longest_gap_s, now - self._last_s.get(number, now))
        self._last_s[number] = now
        self.acknowledged[number].append(message.value())
