"""A coordinator that is as simple as one can be, for tests of what runs it: the newest number of each name; what a
transaction says counts when its marker comes."""

from __future__ import annotations

from dataclasses import dataclass

from support.nodes.replica_builders import ReplicaNode

from broker_core.broker.coordination.coordinator_runtime import CoordinatorRuntime
from broker_core.broker.coordination.internal_topic import InternalTopic
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.coordinator.coordinator_kind import CoordinatorKind
from broker_core.log_directory.internal_topics import CONSUMER_OFFSETS_PARTITION
from broker_core.model.exceptions import CorruptBatchError, InvalidRequestError
from broker_core.record.batch_reader import Record


@dataclass(frozen=True)
class Tallied:
    name: str
    number: int
    text: bytes = b""


class Tally:
    def __init__(self):
        self.numbers = {}
        self.offsets = {}
        self.pending = {}

    def plan_set(self, *records):
        """The reply is the state as the plan saw it."""
        return CoordinatorResult(records=records, reply=dict(self.numbers))

    def plan_refused(self):
        raise InvalidRequestError(f"refused at {self.numbers}")

    def look(self):
        return dict(self.numbers)

    def replay(self, record, offset, producer_id):
        if producer_id >= 0:
            self.pending.setdefault(producer_id, []).append((record, offset))
        else:
            self.numbers[record.name], self.offsets[record.name] = record.number, offset

    def replay_marker(self, producer_id, is_commit):
        for record, offset in self.pending.pop(producer_id, []):
            if is_commit and offset > self.offsets.get(record.name, -1):
                self.replay(record, offset, -1)


def encode(record, *, timestamp_ms):
    value = b"%d %s" % (record.number, record.text)
    return Record(key=record.name.encode(), value=value, timestamp_ms=timestamp_ms)


def decode(key, value):
    if value == b"damaged":
        raise CorruptBatchError("damaged")
    if key == b"skipped":
        return None
    number, text = value.split(b" ", 1)
    return Tallied(key.decode(), int(number), text)


TALLY_KIND = CoordinatorKind(
    partition=CONSUMER_OFFSETS_PARTITION,
    begin=Tally,
    encode=encode,
    decode=decode,
    replay=Tally.replay,
    replay_marker=Tally.replay_marker,
)


class TallyNode(ReplicaNode):
    """`answers` of the requests: ("done", reply) or the error, in the order in which they came."""

    def __init__(self, path, **options):
        super().__init__(path, **options)
        self.topic = InternalTopic(TALLY_KIND.partition, self.topics, self.replicas)
        self.runtime = CoordinatorRuntime(TALLY_KIND, self.topic, self.jobs, self.timers, self.clock)
        self.loads = []
        self.runtime.on_loaded(lambda: self.loads.append(self.peek()))
        self.answers = []
        self.runtime.load()
        self.jobs.run_all()

    def set(self, name, number, *, text=b"", producer=None, into=None):
        return self.change(lambda tally: tally.plan_set(Tallied(name, number, text)), producer=producer, into=into)

    def change(self, plan, *, into=None, **more):
        answers = self.answers if into is None else into
        self.runtime.change(plan, lambda reply: answers.append(("done", reply)), answers.append, **more)
        return answers

    def look(self, into=None):
        answers = self.answers if into is None else into
        self.runtime.look(Tally.look, lambda reply: answers.append(("seen", reply)), answers.append)
        return answers

    def mark(self, producer, marker, into=None):
        answers = self.answers if into is None else into
        self.runtime.append_marker(producer, marker, lambda: answers.append("marked"), answers.append)
        return answers

    def peek(self):
        return self.runtime.peek(Tally.look, None)

    def end_offset(self):
        replica = self.topic.replica()
        return replica and replica.bounds.log_end_offset
