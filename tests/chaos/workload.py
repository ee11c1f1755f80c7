"""The clients of a chaos run. What they were told goes into `Seen`; values are `<producer>-<number>`."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

EVENTS, TRANSACTIONS = "events", "transactions"
PARTITIONS = 3
TRANSACTIONAL_IDS = tuple(f"chaos-{number}" for number in range(3))
GROUPS = tuple(f"kept-{number}" for number in range(6))
"""Groups without members; with the transactional ids they are at the coordinators of many partitions."""
_SETTINGS = {"socket.timeout.ms": 4000, "log_level": 0, "reconnect.backoff.max.ms": 500}


@dataclass(slots=True)
class Seen:
    """`acked` by partition in the order of the acknowledgements; `transactions` by first value: (values, what became of
    it: committed, aborted or unknown); `polled` by partition: offsets given to members; `committed` by partition."""

    acked: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    sent: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    transactions: dict[str, tuple[list[str], str]] = field(default_factory=dict)
    polled: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    committed: dict[int, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    kept: dict[str, int] = field(default_factory=dict)
    """By group without members, the last offset whose commit was acknowledged."""
    producers_lost: list[str] = field(default_factory=list)
    """Transactional producers that could not go on."""


class Workload:
    """`start`, then `stop`, which waits until everything that was sent is answered."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self.seen = Seen()

    def create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._servers, **_SETTINGS})
        topics = [NewTopic(name, PARTITIONS, 3) for name in (EVENTS, TRANSACTIONS)]
        for done in admin.create_topics(topics).values():
            done.result(30)

    def start(self) -> None:
        runs: dict[str, Callable[[], None]] = {"the consumer": self._consume}
        runs |= {f"producer {each}": lambda each=each: self._produce(each) for each in range(PARTITIONS)}
        runs |= {f"transactions {each}": lambda each=each: self._transact(each) for each in TRANSACTIONAL_IDS}
        runs |= {f"commits of {each}": lambda each=each: self._commit(each) for each in GROUPS}
        for name, run in runs.items():
            thread = threading.Thread(target=self._guarded, args=(run,), name=name)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(180)
            assert not thread.is_alive(), f"{thread.name} does not come to an end"

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except Exception as error:
            self.seen.errors.append(f"{type(error).__name__}: {error}")

    def _produce(self, partition: int) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "message.timeout.ms": 120_000,
                **_SETTINGS,
            }
        )

        def told(error, message):
            if error is None:
                self.seen.acked[partition].append(message.value().decode())
            else:
                self.seen.errors.append(f"partition {partition}: {error}")

        number = 0
        while not self._stopping.wait(0.01):
            with contextlib.suppress(BufferError):
                producer.produce(EVENTS, f"p{partition}-{number}".encode(), partition=partition, on_delivery=told)
                number += 1
            producer.poll(0)
        self.seen.sent[partition] = number
        assert producer.flush(150) == 0, f"partition {partition}: not everything was answered"

    def _transact(self, name: str) -> None:
        number = 0
        while not self._stopping.is_set():
            producer = Producer(
                {
                    "bootstrap.servers": self._servers,
                    "transactional.id": name,
                    "transaction.timeout.ms": 30_000,
                    **_SETTINGS,
                }
            )
            try:
                producer.init_transactions(120)
                while not self._stopping.wait(0.02):
                    self._transact_once(producer, number, name)
                    number += 1
            except KafkaException as error:
                # Fenced, or fatal for another reason: a new producer goes on, as an application would.
                self.seen.producers_lost.append(f"transaction {name}-{number}: {error}")
                number += 1

    def _transact_once(self, producer: Producer, number: int, name: str) -> None:
        values = [f"{name}-{number}-{each}" for each in range(2 * PARTITIONS)]
        self.seen.transactions[values[0]] = (values, "unknown")
        producer.begin_transaction()
        for each, value in enumerate(values):
            producer.produce(TRANSACTIONS, value.encode(), partition=each % PARTITIONS)
        wants_abort = number % 4 == 3
        for _ in range(60):
            try:
                if wants_abort:
                    producer.abort_transaction(30)
                else:
                    producer.commit_transaction(30)
            except KafkaException as error:
                if error.args[0].txn_requires_abort():
                    wants_abort = True
                elif not error.args[0].retriable():
                    raise
                continue
            self.seen.transactions[values[0]] = (values, "aborted" if wants_abort else "committed")
            return
        raise AssertionError("a transaction could not be ended in 30 minutes")

    def _commit(self, group: str) -> None:
        """Ever larger offsets, which must be found again. A commit without an answer may be carried out long after."""
        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": group, **_SETTINGS})
        acknowledged, doubtful = 0, set[int]()
        for offset in itertools.count(1):
            if self._stopping.wait(0.1):
                break
            doubtful.add(offset)
            with contextlib.suppress(KafkaException):
                (done,) = consumer.commit(offsets=[TopicPartition(EVENTS, 0, offset)], asynchronous=False)
                if done.error is None:
                    acknowledged = offset
                    doubtful.discard(offset)
            with contextlib.suppress(KafkaException):
                (found,) = consumer.committed([TopicPartition(EVENTS, 0)], timeout=4)
                if found.error is None and max(found.offset, 0) not in doubtful | {acknowledged}:
                    self.seen.errors.append(f"group {group}: committed is {found.offset}, not {acknowledged}")
        self.seen.kept[group] = acknowledged
        consumer.close()

    def _consume(self) -> None:
        def told(error, offsets):
            """Not waited for: a commit that librdkafka waits for has no timeout, and has been seen to wait for ever."""
            for done in () if error is not None else offsets:
                if done.error is None:
                    self.seen.committed[done.partition] = done.offset

        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "chaos",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "on_commit": told,
                "session.timeout.ms": 6000,
                **_SETTINGS,
            }
        )
        consumer.subscribe([EVENTS])
        positions: dict[int, int] = {}
        count = 0
        while not self._stopping.is_set():
            message = consumer.poll(0.2)
            if message is None or message.error():
                continue
            self.seen.polled[message.partition()].add(message.offset())
            positions[message.partition()] = message.offset() + 1
            count += 1
            if count % 100 == 0:
                offsets = [TopicPartition(EVENTS, number, offset) for number, offset in positions.items()]
                with contextlib.suppress(KafkaException):
                    consumer.commit(offsets=offsets, asynchronous=True)
        consumer.close()
