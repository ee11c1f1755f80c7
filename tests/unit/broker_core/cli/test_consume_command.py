"""`streamlog consume`."""

import json
import os
import select
import signal
import subprocess
import time

import pytest
from support.runs.warm_process import start_warm

from broker_core.cli import last_records


@pytest.fixture
def numbers(streamlog):
    """A topic with the values 0 to 99 in one partition."""
    streamlog("produce", "numbers", stdin=b"".join(b"%d\n" % number for number in range(100)))


def test_consume_reads_from_the_beginning_to_the_end_and_stops(streamlog, numbers):
    found = streamlog("consume", "numbers")
    assert found.status == 0
    assert found.lines == [b"%d" % number for number in range(100)]


@pytest.mark.parametrize(("start", "first"), [("earliest", 0), ("0", 0), ("95", 95), ("1970-01-01", 0)])
def test_from_sets_the_start_position(streamlog, numbers, start, first):
    assert streamlog("consume", "numbers", "--from", start).lines == [b"%d" % n for n in range(first, 100)]


@pytest.mark.parametrize("start", ["latest", "100", "2100-01-01"])
def test_from_latest_reads_nothing(streamlog, numbers, start):
    found = streamlog("consume", "numbers", "--from", start)
    assert (found.status, found.out) == (0, b"")


def test_an_offset_out_of_range_is_refused_with_the_bounds(streamlog, numbers):
    refused = streamlog("consume", "numbers", "--from", 101)
    assert refused.status == 1
    assert "0 up to 100" in refused.err


def test_an_offset_needs_a_partition_if_there_are_several(streamlog):
    streamlog("topic", "create", "t", "--partitions", 2)
    assert streamlog("consume", "t", "--from", 0).status == 2
    assert streamlog("consume", "t", "--from", 0, "--partition", 1).status == 0


@pytest.mark.parametrize("count", [0, 1, 7, 100, 1000])
def test_last_reads_the_last_records(streamlog, numbers, count):
    expected = [b"%d" % number for number in range(max(0, 100 - count), 100)]
    assert streamlog("consume", "numbers", "--last", count).lines == expected


def test_last_counts_records_instead_of_offsets(streamlog, numbers, monkeypatch):
    # Every second record is taken away as compaction would, so twice the window is needed.
    reads = []

    class Gappy(last_records.PartitionConsumer):
        def read(self, until_offset):
            reads.append(self.next_offset)
            for batch, count_bytes in super().read(until_offset):
                kept = [row for row in range(batch.num_rows) if batch.column("offset")[row].as_py() % 2 == 0]
                yield batch.take(kept), count_bytes

    monkeypatch.setattr(last_records, "PartitionConsumer", Gappy)
    assert streamlog("consume", "numbers", "--last", 10).lines == [b"%d" % number for number in range(80, 100)]
    assert reads == [90, 80]


def test_from_and_last_together_are_a_usage_error(streamlog, numbers):
    assert streamlog("consume", "numbers", "--from", 3, "--last", 4).status == 2


def test_a_single_partition_can_be_read_and_a_missing_one_is_refused(streamlog):
    streamlog("topic", "create", "t", "--partitions", 2)
    for partition in (0, 1):
        streamlog("produce", "t", "--partition", partition, stdin=b"%d\n" % partition)
    assert streamlog("consume", "t").lines == [b"0", b"1"]
    assert streamlog("consume", "t", "--partition", 1).lines == [b"1"]
    refused = streamlog("consume", "t", "--partition", 2)
    assert refused.status == 1
    assert "0 to 1" in refused.err


def test_json_has_the_position_of_a_record(streamlog, numbers):
    last = json.loads(streamlog("consume", "numbers", "--last", 1, "--format", "json").out)
    assert (last["topic"], last["partition"], last["offset"], last["value"]) == ("numbers", 0, 99, "99")
    assert abs(last["timestamp"] / 1000 - time.time()) < 3600


def test_a_missing_topic_is_an_error(streamlog, numbers):
    refused = streamlog("consume", "nothing")
    assert (refused.status, refused.out) == (1, b"")
    assert "'nothing' does not exist" in refused.err


def test_follow_continues_until_ctrl_c_and_ends_quietly(streamlog, numbers, log_path):
    command = ["consume", "numbers", "--last", "1", "-f", "--path", log_path]
    process = start_warm(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert _next_bytes(process) == b"99\n"
        streamlog("produce", "numbers", stdin=b"more\n")
        assert _next_bytes(process) == b"more\n"
        process.send_signal(signal.SIGINT)
        rest, complaint = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert (rest, complaint, process.returncode) == (b"", b"", 130)


def _next_bytes(process):
    readable, _, _ = select.select([process.stdout], [], [], 30)
    assert readable, "nothing came in 30 s"
    return os.read(process.stdout.fileno(), 100)
