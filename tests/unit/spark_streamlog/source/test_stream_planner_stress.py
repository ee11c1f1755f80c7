"""Any order of what can happen to topics while a query runs, stops and starts again: nothing is ever read twice.

As long as no topic or record was removed, nothing is missing at the end either.
"""

import itertools

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.brokers.in_memory_cluster import InMemoryCluster
from support.runs.examples import examples
from support.spark.read_query import StreamRun

from broker_core.model.identifiers import TopicPartition

TOPICS = st.sampled_from(["a", "b"])


class StreamOverChangingTopics(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.cluster = InMemoryCluster()
        self.numbers = itertools.count()
        self.written = []
        self.read = []
        self.is_anything_removed = False

    @initialize(
        limit=st.none() | st.integers(1, 4),
        limit_bytes=st.none() | st.integers(1, 400),
        min_partitions=st.none() | st.integers(1, 5),
        group=st.none() | st.just("g"),
    )
    def start(self, limit, limit_bytes, min_partitions, group):
        given = {
            "maxOffsetsPerTrigger": limit,
            "maxBytesPerTrigger": limit_bytes,
            "minPartitions": min_partitions,
            "groupId": group,
        }
        self.options = {name: value for name, value in given.items() if value is not None}
        self.run = None
        self.start_run(None)

    def start_run(self, checkpoint):
        self.run = StreamRun(
            self.cluster,
            checkpoint,
            subscribePattern="^[ab]$",
            startingOffsets="earliest",
            failOnDataLoss=False,
            **self.options,
        )

    @rule(topic=TOPICS, count=st.integers(1, 6), partition=st.integers(0, 2))
    def write(self, topic, count, partition):
        if topic not in self.cluster.describe_topics():
            self.cluster.create_topic(topic)
        partition %= self.cluster.describe_topics()[topic].partition_count
        values = [f"{topic}{next(self.numbers)}" for _ in range(count)]
        self.cluster.add(topic, *values, partition=partition)
        self.written += values

    @rule(topic=TOPICS)
    def add_a_partition(self, topic):
        there = self.cluster.describe_topics().get(topic)
        if there and there.partition_count < 3:
            self.cluster.create_partitions(topic, there.partition_count + 1)

    @rule(topic=TOPICS)
    def delete_a_topic(self, topic):
        if topic in self.cluster.describe_topics():
            self.cluster.delete_topic(topic)
            self.is_anything_removed = True

    @rule(topic=TOPICS, share=st.integers(0, 4))
    def delete_records(self, topic, share):
        if topic in self.cluster.describe_topics():
            end = self.cluster.bounds(TopicPartition(topic, 0)).log_end_offset
            start = self.cluster.bounds(TopicPartition(topic, 0)).log_start_offset
            self.cluster.delete_records(TopicPartition(topic, 0), max(start, end * share // 4))
            self.is_anything_removed = True

    @rule()
    def run_a_batch(self):
        self.read += self.run.run_batch() or []

    @rule()
    def restart(self):
        self.start_run(self.run.committed)

    @precondition(lambda self: self.run.committed is not None)
    @rule()
    def restart_and_repeat_a_batch_that_was_planned(self):
        start, end = self.run.next_end()
        committed = self.run.committed
        self.start_run(committed)
        if end != start:
            self.read += self.run.run_batch(end)

    @invariant()
    def nothing_is_read_twice(self):
        assert len(self.read) == len(set(self.read))

    def teardown(self):
        if self.run is None:
            return
        for _ in range(1000):
            batch = self.run.run_batch()
            self.read += batch or []
            if batch is None:
                break
        self.nothing_is_read_twice()
        if not self.is_anything_removed:
            assert sorted(self.read) == sorted(self.written)


TestStreamOverChangingTopics = StreamOverChangingTopics.TestCase
TestStreamOverChangingTopics.settings = examples(60, stateful_step_count=25)
