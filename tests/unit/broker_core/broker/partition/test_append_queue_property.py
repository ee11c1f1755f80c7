"""What the loop writes by itself is what jobs alone would have written: the same answers and the same bytes, whatever
comes in one turn, whichever sync completes first, and whatever the disk refuses in between.

The loop's node is told of the batches' headers, as by a request that has read them; the jobs' node reads them itself.
"""

import tempfile
from collections import defaultdict
from pathlib import Path

from hypothesis import event, given
from hypothesis import strategies as st
from support.builders.builders import a_batch, a_record, with_header_field
from support.files.queued_writes import QueuedWrites
from support.nodes.replica_builders import ReplicaNode, offsets_read
from support.runs.examples import examples

from broker_core.model.exceptions import StorageError
from broker_core.model.identifiers import CompressionType, TopicPartition
from broker_core.model.limits import MAX_LOOP_APPEND_BYTES
from broker_core.record.batch_header import read_header
from broker_core.storage.readable_partition import ReadablePartition

PARTITIONS = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("os", 0)]
PRODUCERS = 2

partitions = st.sampled_from(PARTITIONS)
slots = st.integers(min_value=0, max_value=2)
steps = st.one_of(
    st.tuples(st.just("plain"), partitions, st.integers(min_value=1, max_value=4)),
    st.tuples(st.just("produced"), partitions, st.integers(min_value=0, max_value=PRODUCERS - 1), st.booleans()),
    st.tuples(st.just("odd"), partitions, st.sampled_from(["crc", "offset", "count", "time", "nothing"])),
    st.tuples(st.just("for a job"), partitions, st.sampled_from(["large", "compressed"])),
    st.tuples(st.just("change"), partitions, st.sampled_from(["roll", "flush"])),
    st.tuples(st.just("turn")),
    st.tuples(st.just("turn")),
    st.tuples(st.just("sync"), slots),
    st.tuples(st.just("synced"), slots),
    st.tuples(st.just("synced"), slots),
    st.tuples(st.just("job"), slots),
    st.tuples(st.just("done"), slots),
    st.tuples(
        st.just("refuse"),
        st.sampled_from([("sync", ".log"), ("write", ".log"), ("write", ".index"), ("write", "partition.bounds")]),
        st.integers(min_value=0, max_value=3),
    ),
)


def a_node(path, **given):
    node = ReplicaNode(path, **given)
    node.create(partition_count=2, internal_segment_bytes="1500", index_interval_bytes="100")
    node.create("os", flush_policy="os", internal_segment_bytes="1500", message_timestamp_type="LogAppendTime")
    # Maintenance takes partitions as well, and would wait for them here where the test's one thread may hold them.
    node.replicas._maintenance.stop(lambda: None)
    for partition in PARTITIONS:
        node.append(partition=partition)
    node.settle()
    return node


class Asked:
    """Something that was asked of a partition, so that it can be asked of another node too."""

    def __init__(self, ask):
        self._ask = ask
        self.answers = []

    def of(self, replica, now_ms, *, with_header):
        self._ask(replica, now_ms, self.answers, with_header)
        return self

    def again(self, replica, now_ms):
        return Asked(self._ask).of(replica, now_ms, with_header=False)

    @property
    def is_refused_by_the_disk(self):
        return isinstance(self.answers[0], StorageError)

    @property
    def said(self):
        (answer,) = self.answers
        return (type(answer), str(answer)) if isinstance(answer, Exception) else answer


def an_append(batch):
    def ask(replica, now_ms, answers, with_header):
        header = read_header(batch) if with_header and batch else None
        ReplicaNode.append(None, bytes(batch), replica=replica, header=header, into=answers)

    return Asked(ask)


def a_change(kind):
    def ask(replica, now_ms, answers, with_header):
        if kind == "roll":
            replica.change(lambda store: store.roll(now_ms), answers.append, answers.append)
        else:
            replica.flush(answers.append, answers.append)

    return Asked(ask)


class QueueWorld:
    """One node whose loop writes; what was asked of each partition, in order."""

    def __init__(self, path):
        self.node = a_node(path, writes=QueuedWrites())
        self.asked = defaultdict(list)
        self.sequences = defaultdict(int)

    def ask(self, partition, asked):
        self.asked[partition].append(asked.of(self.node.replica(partition), self.node.clock.ms, with_header=True))

    def do(self, step):
        writes, jobs = self.node.writes, self.node.jobs
        match step:
            case ("plain", partition, count):
                self.ask(partition, an_append(a_batch(count)))
            case ("produced", partition, producer_id, is_in_order):
                sequence = self.sequences[partition, producer_id]
                self.sequences[partition, producer_id] += is_in_order
                batch = a_batch(1, producer=(producer_id, 0, sequence + (0 if is_in_order else 2)))
                self.ask(partition, an_append(batch))
            case ("odd", partition, fault):
                self.ask(partition, an_append(an_odd_batch(fault)))
            case ("for a job", partition, "large"):
                self.ask(partition, an_append(a_batch([a_record(0, value=bytes(900))])))
                self.ask(partition, an_append(a_batch([a_record(0, value=bytes(MAX_LOOP_APPEND_BYTES))])))
            case ("for a job", partition, "compressed"):
                self.ask(partition, an_append(a_batch(2, compression=CompressionType.GZIP)))
            case ("change", partition, kind):
                self.ask(partition, a_change(kind))
            case ("turn",):
                writes.end_turn()
            case ("sync", slot):
                do_one(writes.syncs, slot)
            case ("synced", slot):
                finish_one(writes.syncs, slot)
            case ("job", slot):
                do_one(jobs, slot)
            case ("done", slot):
                finish_one(jobs, slot)
            case ("refuse", (kind, ending), passed_count):
                self.node.fs.refuse(kind, ending, passed_count=passed_count)
        self.check()

    def check(self):
        """What was answered is seen, and nothing else."""
        for partition, asked in self.asked.items():
            answered = [each.answers for each in asked]
            assert all(answered[: sum(map(bool, answered))]), "an answer came before an earlier one"
            ends = [each[0][1] + 1 for each in answered if each and isinstance(each[0], tuple)]
            assert self.node.replica(partition).bounds.log_end_offset == max(ends, default=1)


def do_one(jobs, slot):
    if jobs._waiting:
        jobs.do_next(slot % len(jobs._waiting))


def finish_one(jobs, slot):
    if jobs._working:
        jobs.finish(slot % len(jobs._working))


def an_odd_batch(fault):
    match fault:
        case "crc":
            batch = a_batch(2)
            batch[-1] ^= 1
            return batch
        case "offset":
            return a_batch(1, base_offset=7)
        case "time":
            # Not refused: the largest timestamp is put right.
            return with_header_field(a_batch(2), 35, ">q", 5)
        case "count":
            return with_header_field(a_batch(2), 57, ">i", 3)
        case _:
            return b""


def logs_of(path):
    """Name to bytes, of all that is a log's; the largest record is the only one that is not small."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for partition in PARTITIONS
        for file in Path(path, str(partition)).glob("*.log")
    }


@examples(50)
@given(st.lists(steps, min_size=20, max_size=80))
def test_the_loop_and_jobs_give_the_same_results_and_logs(plan):
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        world = QueueWorld(f"{folder}/loop")
        for step in plan:
            world.do(step)
        world.node.fs.refuse("nothing", count=0)
        world.node.settle()
        world.check()
        event(f"a disk operation failed: {min(world.node.fs.refused, 2)}")
        event(f"syncs of the loop's own writes: {min(world.node.writes.syncs.count, 5)}")
        assert world.node.replicas.budget.held_bytes == 0
        twin = a_node(f"{folder}/jobs")
        for partition, asked in world.asked.items():
            # Of what a disk operation failed nothing is left, so it is as if it had not been asked.
            kept = [each for each in asked if not each.is_refused_by_the_disk]
            again = [each.again(twin.replica(partition), twin.clock.ms) for each in kept]
            twin.settle()
            assert [each.said for each in kept] == [each.said for each in again]
        assert logs_of(f"{folder}/loop") == logs_of(f"{folder}/jobs")
        for node in (world.node, twin):
            for partition in world.asked:
                assert node.directory.access.read(partition, ReadablePartition.verify) == []
        for partition in world.asked:
            found = [offsets_read(node.replica(partition)) for node in (world.node, twin)]
            assert found[0] == found[1]
            assert_same_producers(partition, world.node, twin)
        world.node.stop()
        twin.stop()


def assert_same_producers(partition, *nodes):
    known = []
    for node in nodes:
        replica = node.replica(partition)
        replica.when_producers_known(lambda: None, AssertionError)
        node.settle()
        known.append({number: entry.last_sequence for number, entry in replica.producer_entries().items()})
    assert known[0] == known[1]
