"""`consume --group`: it reads on where the group stands, and commits behind what it wrote."""

import io
import os
import select
import signal
import subprocess
import sys
import time

import confluent_kafka
import pytest
from support.runs.warm_process import start_warm

from broker_core.cli import group_commits
from broker_core.cli.group_commits import GroupCommits
from broker_core.cli.partition_consumer import PartitionConsumer
from broker_core.cli.record_text import Format, columns_of, renderer
from broker_core.cli.record_writer import RecordWriter
from broker_core.cli.screen import SILENT
from broker_core.cli.stop_signals import StopSignals
from broker_core.cluster import GroupOffset
from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.identifiers import IsolationLevel, OffsetSpec, TopicPartition

T0 = TopicPartition("t", 0)


def lines_of(*values):
    return b"".join(b"%d\n" % value for value in values)


@pytest.fixture
def committed(log_path):
    """The offset of group `g` in t-0; None without one."""

    def look():
        with open_embedded(log_path) as cluster:
            found = cluster.fetch_offsets("g", [T0]).get(T0)
        return None if found is None else found.offset

    return look


def test_each_run_reads_the_records_since_the_previous_one(streamlog, committed):
    streamlog("produce", "t", stdin=lines_of(0, 1))
    assert streamlog("consume", "t", "--group", "g").lines == [b"0", b"1"]
    assert committed() == 2
    assert streamlog("consume", "t", "--group", "g").lines == []
    streamlog("produce", "t", stdin=lines_of(2))
    assert streamlog("consume", "t", "--group", "g").lines == [b"2"]
    assert streamlog("consume", "t", "--group", "other").lines == [b"0", b"1", b"2"]
    (row,) = streamlog("group", "describe", "g", "--json").json["partitions"]
    assert (row["offset"], row["behind_offsets"]) == (3, 0)


def test_from_applies_where_the_group_has_no_offset_and_the_end_is_committed(streamlog):
    streamlog("produce", "t", stdin=lines_of(0, 1))
    assert streamlog("consume", "t", "--group", "g", "--from", "latest").lines == []
    streamlog("produce", "t", stdin=lines_of(2))
    # The first run stood at the end as it was then, though it read nothing.
    assert streamlog("consume", "t", "--group", "g", "--from", "earliest").lines == [b"2"]


def test_each_partition_begins_at_the_groups_committed_offset(streamlog, log_path):
    streamlog("topic", "create", "t", "--partitions", 2)
    for partition in (0, 1):
        streamlog("produce", "t", "--partition", partition, stdin=lines_of(0, 1, 2))
    with open_embedded(log_path) as cluster:
        cluster.commit_offsets("g", {T0: GroupOffset(offset=2)})
    assert streamlog("consume", "t", "--group", "g").lines == [b"2", b"0", b"1", b"2"]


def test_last_and_group_together_are_a_usage_error(streamlog):
    refused = streamlog("consume", "t", "--group", "g", "--last", 1)
    assert refused.status == 2
    assert "--group and --last exclude each other" in refused.err


def test_a_group_beyond_the_end_is_refused_with_advice(streamlog, log_path, committed):
    streamlog("produce", "t", stdin=lines_of(0))
    with open_embedded(log_path) as cluster:
        cluster.commit_offsets("g", {T0: GroupOffset(offset=7)})
    refused = streamlog("consume", "t", "--group", "g")
    assert (refused.status, refused.out) == (1, b"")
    assert "offset 7 of t-0, which ends at 1" in refused.err
    assert "streamlog group delete g" in refused.err
    assert committed() == 7


def test_removed_unread_offsets_are_reported_and_skipped(streamlog, log_path):
    streamlog("produce", "t", stdin=lines_of(0, 1, 2))
    with open_embedded(log_path) as cluster:
        cluster.commit_offsets("g", {T0: GroupOffset(offset=0)})
        cluster.delete_records(T0, 2)
    found = streamlog("consume", "t", "--group", "g")
    assert (found.status, found.lines) == (0, [b"2"])
    assert "t-0: offsets 0 to 1 were removed before group g read them" in found.err


class BreakingOutput(io.RawIOBase):
    """Takes so many bytes, then the reader is gone. It keeps what it took."""

    def __init__(self, room):
        self.taken = bytearray()
        self._room = room

    def writable(self):
        return True

    def write(self, data):
        fitting = bytes(data[: self._room - len(self.taken)])
        if not fitting:
            raise BrokenPipeError
        self.taken += fitting
        return len(fitting)


@pytest.mark.parametrize("room", [1, 50_000, 300_000, 777_777])
def test_a_broken_pipe_commits_only_written_records(streamlog, log_path, committed, monkeypatch, room):
    values = range(300_000)
    streamlog("produce", "t", stdin=lines_of(*values))
    monkeypatch.setattr(group_commits, "COMMIT_SECONDS", 0)
    output = BreakingOutput(room)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(output), write_through=False))
    commits = []
    with open_embedded(log_path) as cluster, StopSignals(()) as stop:
        group = GroupCommits(cluster, "g", {})
        (start,) = group.begin([T0], OffsetSpec.EARLIEST, IsolationLevel.READ_COMMITTED).values()
        reader = PartitionConsumer(
            cluster, T0, start, isolation=IsolationLevel.READ_COMMITTED, columns=columns_of(Format.TEXT)
        )
        commit_offsets = cluster.commit_offsets

        def checked(group_id, offsets, **more):
            commits.append(offsets[T0].offset)
            assert output.taken.count(b"\n") >= offsets[T0].offset
            commit_offsets(group_id, offsets, **more)

        cluster.commit_offsets = checked
        writer = RecordWriter(
            cluster, [reader], renderer(Format.TEXT, to_terminal=False), IsolationLevel.READ_COMMITTED, group
        )
        with pytest.raises(BrokenPipeError):
            writer.write_present(stop, SILENT)
    assert len(output.taken) == room
    assert committed() == (commits[-1] if commits else 0) <= output.taken.count(b"\n")
    assert bool(commits) == (room > 700_000)  # the first batch of 100,000 rows has 588,890 bytes
    monkeypatch.setattr(output, "_room", 10**9)


def follow(log_path, stdout):
    return start_warm(["consume", "t", "--group", "g", "--follow", "--path", log_path], stdout=stdout)


def next_bytes(process):
    readable, _, _ = select.select([process.stdout], [], [], 60)
    assert readable, "nothing came in 60 s"
    return os.read(process.stdout.fileno(), 100)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_commits_written_records_and_ends_the_command(streamlog, log_path, committed, number):
    streamlog("produce", "t", stdin=lines_of(0))
    process = follow(log_path, subprocess.PIPE)
    try:
        assert next_bytes(process) == b"0\n"
        streamlog("produce", "t", stdin=lines_of(1))
        assert next_bytes(process) == b"1\n"
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert committed() == 2


def test_after_a_stalled_reader_disconnects_the_next_run_gets_everything(streamlog, log_path, committed):
    line_bytes = 8
    streamlog("produce", "t", stdin=b"".join(b"%07d\n" % value for value in range(50_000)))
    process = follow(log_path, subprocess.PIPE)
    got = next_bytes(process)
    deadline = time.monotonic() + 3  # longer than COMMIT_SECONDS: it stands in a write that does not return
    while time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.1)
    process.stdout.close()
    assert process.wait(60) == -signal.SIGPIPE
    pipe_bytes = 65_536
    assert committed() * line_bytes <= len(got) + pipe_bytes
    again = streamlog("consume", "t", "--group", "g").lines
    first = 50_000 - len(again)
    assert first * line_bytes <= len(got) + pipe_bytes
    assert again == [b"%07d" % value for value in range(first, 50_000)]


def test_a_group_with_running_consumers_is_refused(streamlog, streamlog_broker):
    at_broker = ["--bootstrap-server", streamlog_broker.bootstrap_servers]
    streamlog("produce", "t", *at_broker, with_path=False, stdin=lines_of(0))
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": streamlog_broker.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["t"])
    try:
        deadline = time.monotonic() + 60
        while not consumer.assignment():
            assert time.monotonic() < deadline
            consumer.poll(0.2)
        refused = streamlog("consume", "t", "--group", "g", *at_broker, with_path=False)
        assert (refused.status, refused.out) == (1, b"")
        assert "group 'g' has running consumers (1)" in refused.err
    finally:
        consumer.close()
    assert streamlog("consume", "t", "--group", "g", *at_broker, with_path=False).lines == [b"0"]
    assert streamlog("consume", "t", "--group", "g", *at_broker, with_path=False).lines == []


def test_offsets_of_a_topic_that_was_created_again_before_the_commit_are_not_committed(
    streamlog, committed, monkeypatch
):
    streamlog("produce", "t", stdin=lines_of(0, 1))
    commit, recreated = GroupCommits.commit, []

    def recreate_and_commit(self, readers, output):
        if not recreated:
            recreated.append(True)
            self._cluster.delete_topic("t")
            self._cluster.create_topic("t")
        commit(self, readers, output)

    monkeypatch.setattr(GroupCommits, "commit", recreate_and_commit)
    found = streamlog("consume", "t", "--group", "g")
    assert recreated
    assert (found.status, found.lines) == (1, [b"0", b"1"])
    assert "'t' was deleted and created again while it was read" in found.err
    assert committed() is None
