"""A node's directory, topics and replicas on a real file system, with jobs that run when they are told to; with
`writes`, what its loop may write by itself is written by it."""

from __future__ import annotations

import copy
import errno
import os

from fuzz.dying_file_system import DyingFileSystem
from support.builders.builders import SOME_TIME_MS, a_batch
from support.files.queued_jobs import QueuedJobs

from broker_core.broker.node_directory import NodeDirectory
from broker_core.broker.partition.replica_manager import ReplicaManager
from broker_core.broker.timer_queue import TimerQueue
from broker_core.broker.topic_store import TopicStore
from broker_core.log.append_request import AppendRequest
from broker_core.log.producer_state import AppendOrigin
from broker_core.log_directory.system_ports import SystemEntropy
from broker_core.model.identifiers import IsolationLevel, TopicPartition
from broker_core.model.topic_defaults import TopicDefaults
from broker_core.record.batch_reader import iter_headers, records_of

T0 = TopicPartition("t", 0)
INTERVAL_MS = 300_000


class HandClock:
    """Time stands still until it is moved."""

    def __init__(self):
        self.ms = SOME_TIME_MS

    def now_ms(self):
        return self.ms


class RefusingFileSystem(DyingFileSystem):
    """Counts what changes files, dies on demand (see there), and refuses on demand: the next `count` calls of a kind
    whose path ends so, after the first `passed_count` of them."""

    def __init__(self, dies_at=None):
        super().__init__(dies_at)
        self.refused = 0
        self._refusing = (0, 0, "", "", errno.EIO)

    def refuse(self, kind, ending="", *, count=1, passed_count=0, error_number=errno.EIO):
        self._refusing = (passed_count, count, kind, ending, error_number)

    def on_call(self, kind, path):
        passed_count, count, refused_kind, ending, error_number = self._refusing
        if count and kind == refused_kind and path.endswith(ending):
            self._refusing = (max(0, passed_count - 1), count - (not passed_count), kind, ending, error_number)
            if not passed_count:
                self.refused += 1
                raise OSError(error_number, os.strerror(error_number), path)
        super().on_call(kind, path)

    def die_after(self, count):
        """Of so many further calls; see DyingFileSystem."""
        self._dies_at = len(self.calls) + count

    def count(self, kind, ending):
        return sum(call == kind and path.endswith(ending) for call, path in self.calls)


class ReplicaNode:
    """One start of a node in the directory at `path`; `stop` or `crash` ends it."""

    def __init__(
        self,
        path,
        *,
        jobs=None,
        writes=None,
        fs=None,
        budget=None,
        max_open_count=100,
        topic_defaults=None,
        pinned=None,
    ):
        self.fs = RefusingFileSystem() if fs is None else fs
        self.jobs = QueuedJobs() if jobs is None else jobs
        self.writes = writes
        self.clock = HandClock()
        self.timers = TimerQueue()
        self.topic_defaults = TopicDefaults(configs=topic_defaults or {})
        entropy = SystemEntropy()
        self.directory = NodeDirectory.open(
            self.fs,
            str(path),
            self.clock,
            entropy,
            max_open_count=max_open_count,
            topic_defaults=lambda: self.topic_defaults,
        )
        self.topics = TopicStore(
            copy.deepcopy(self.directory.metadata_log.image),
            self.directory.metadata_log,
            self.directory.folders,
            self.jobs,
            entropy,
            topic_defaults=lambda: self.topic_defaults,
        )
        self.replicas = ReplicaManager(
            self.directory,
            self.topics,
            self.jobs,
            self.timers,
            self.clock,
            entropy,
            retention_check_interval_ms=INTERVAL_MS,
            budget=budget,
            loop_writes=writes,
            **({} if pinned is None else {"pinned_offset": pinned}),
        )
        self.replicas.start(self.clock.ms)

    def create(self, name="t", partition_count=1, **configs):
        self._change(
            self.topics.create_topic,
            name,
            partition_count=partition_count,
            configs={setting.replace("_", "."): value for setting, value in configs.items()},
        )

    def delete(self, name="t"):
        self._change(self.topics.delete_topic, name)

    def alter(self, name="t", **configs):
        changes = {setting.replace("_", "."): value for setting, value in configs.items()}
        self._change(self.topics.change, lambda controller: controller.plan_alter_topic_configs(name, changes))

    def _change(self, change, *arguments, **more):
        errors = []
        change(*arguments, **more, on_reply=lambda reply: None, on_error=errors.append)
        self.settle()
        assert not errors, errors

    def replica(self, partition=T0):
        return self.replicas.get(partition)

    def append(self, batch=None, *, partition=T0, replica=None, origin=AppendOrigin.CLIENT, header=None, into=None):
        """Queues an append; what became of it comes into the list: (first, last) offset, or the error. `header`: of
        the batch, as who has read it passes it on."""
        answers = [] if into is None else into
        (replica or self.replica(partition)).append(
            AppendRequest(
                batches=bytearray(a_batch(1) if batch is None else batch),
                origin=origin,
                header=header,
                on_done=lambda result: answers.append((result.base_offset, result.last_offset)),
                on_error=answers.append,
            )
        )
        return answers

    def fire_timers(self, after_ms=INTERVAL_MS):
        self.clock.ms += after_ms
        self.timers.fire(self.clock.ms)
        self.settle()

    def settle(self):
        """Until nothing is left to do. The loop's own writes come first: a job may wait for what they hold."""
        while (self.writes is not None and self.writes.run_all()) or len(self.jobs):
            self.jobs.run_one()

    def stop(self):
        """As a node does it."""
        ended = []
        self.replicas.stop(lambda: ended.append(True))
        self.settle()
        assert ended
        self.directory.close(is_clean=self.replicas.is_flushed)

    def crash(self):
        """Files and locks are gone, nothing was finished."""
        self.replicas.abandon()
        self.directory.directory.close()


def offsets_read(replica, from_offset=None, *, isolation=IsolationLevel.READ_UNCOMMITTED):
    """Of all data records that a reader may have."""
    offset = replica.bounds.log_start_offset if from_offset is None else from_offset
    found = []
    while offset < replica.bounds.readable_end(isolation):
        fetched = replica.read(offset, max_bytes=1 << 20, isolation=isolation)
        for position, header in iter_headers(fetched.buffer):
            if not header.is_control:
                found += [record.offset for record in records_of(fetched.buffer, position)]
        assert fetched.next_offset > offset
        offset = fetched.next_offset
    return found
