"""Clients of librdkafka that work while a cluster moves: transactions from topic to topic, and groups that read."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from support.cluster.client_thread import ClientThread

SECONDS = 90
_PATIENT = {"socket.timeout.ms": 4000, "reconnect.backoff.max.ms": 500, "log_level": 0}


class GroupReader(ClientThread):
    """A member of a group that reads all partitions of a topic, and commits. `values`: what it was given."""

    def __init__(self, cluster, topic, group, **settings):
        super().__init__()
        given = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
        self._consumer = Consumer({**given, "enable.auto.commit": False, **_PATIENT, **settings})
        self._consumer.subscribe([topic])
        self.values = []

    def wait_for(self, count):
        _wait(lambda: len(self.values) >= count or self.error is not None, lambda: f"{len(self.values)} of {count}")

    def wait_until_read(self, wanted):
        """Some may have come twice, where a commit was lost."""
        _wait(lambda: wanted <= set(self.values), lambda: f"never read: {sorted(wanted - set(self.values))[:20]}")

    def _work(self):
        while not self._may_end.is_set():
            messages = [each for each in self._consumer.consume(100, 0.2) if each.error() is None]
            self.values += [each.value() for each in messages]
            if messages:
                try:
                    self._consumer.commit(asynchronous=False)
                except KafkaException:
                    continue  # the next commit has the newer offsets
        self._consumer.close()


class TransactionWriter(ClientThread):
    """Commits ten values at a time, and aborts each fifth transaction. `committed`: the values."""

    def __init__(self, cluster, topic, transactional_id, *, partition_count):
        super().__init__()
        given = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": transactional_id}
        self._producer = Producer({**given, "transaction.timeout.ms": 60_000, **_PATIENT})
        self._topic, self._partition_count = topic, partition_count
        self.committed, self.count = [], 0

    def wait_for_more(self, count=5):
        wanted = self.count + count
        _wait(lambda: self.count >= wanted or self.error is not None, lambda: f"{self.count} of {wanted} transactions")

    def _work(self):
        self._again(lambda: self._producer.init_transactions(SECONDS))
        turn = 0
        while not self._may_end.is_set():
            turn += 1
            values = [b"%d-%d" % (turn, number) for number in range(10)]
            self._producer.begin_transaction()
            try:
                for number, value in enumerate(values):
                    self._producer.produce(self._topic, value, partition=number % self._partition_count)
                if turn % 5 == 0:
                    self._again(lambda: self._producer.abort_transaction(SECONDS))
                else:
                    self._again(lambda: self._producer.commit_transaction(SECONDS))
                    self.committed += values
                self.count += 1
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                self._again(lambda: self._producer.abort_transaction(SECONDS))

    def _again(self, call):
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                return call()
            except KafkaException as error:
                is_passing = error.args[0].retriable() or error.args[0].code() == KafkaError._TIMED_OUT
                if not is_passing or time.monotonic() > deadline:
                    raise


def _wait(condition, told):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, told()
        time.sleep(0.05)
