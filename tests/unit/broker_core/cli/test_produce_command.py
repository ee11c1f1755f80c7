"""`streamlog produce`."""

import json
import os
import select
import signal
import subprocess
import threading
import time
from contextlib import contextmanager

import pytest
from support.runs.warm_process import start_warm

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.identifiers import TopicPartition


def records_of(streamlog, topic, *options):
    return [json.loads(line) for line in streamlog("consume", topic, "--format", "json", *options).lines]


def test_every_line_is_written_as_a_value_in_order(streamlog):
    assert streamlog("produce", "t", stdin=b"one\n\nthree\n\xff\xfe").status == 0
    assert streamlog("consume", "t").lines == [b"one", b"", b"three", b"\xff\xfe"]


def test_a_file_is_read_like_standard_input(streamlog, tmp_path):
    lines = [b"%d" % number for number in range(100_000)]
    (tmp_path / "lines").write_bytes(b"\n".join(lines) + b"\n")
    said = streamlog("produce", "t", "--file", tmp_path / "lines", "--json")
    assert said.json == {"topic": "t", "records": 100_000}
    assert streamlog("consume", "t").lines == lines


def test_a_missing_file_is_an_error_in_one_sentence(streamlog):
    refused = streamlog("produce", "t", "--file", "/no/such/file")
    assert refused.status == 1
    assert refused.err == "streamlog: /no/such/file: No such file or directory\n"


def test_keys_are_split_off_and_partitioned_like_kafka(streamlog):
    streamlog("topic", "create", "t", "--partitions", 4)
    streamlog("produce", "t", "--key-separator", ":", stdin=b"21:a\nfoobar:b\na-little-bit-long-string:c\n21:d:e\n")
    found = {(r["key"], r["value"], r["partition"]) for r in records_of(streamlog, "t")}
    # murmur2 of these keys, as Kafka's own tests have it: -973932308, -790332482, -985981536.
    expected = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536}
    assert {(k, p) for k, _, p in found} == {(k, (h & 0x7FFFFFFF) % 4) for k, h in expected.items()}
    assert {v for k, v, _ in found if k == "21"} == {"a", "d:e"}


def test_a_line_without_a_separator_is_refused_with_line_and_source(streamlog, tmp_path):
    # It was called wrong usage.
    refused = streamlog("produce", "t", "--key-separator", "\\t", stdin=b"k\tv\nnothing\n")
    assert refused.status == 1
    assert refused.err == "streamlog: line 2 of standard input has no key separator '\\t'\n"
    (tmp_path / "lines").write_bytes(b"nothing\n")
    refused = streamlog("produce", "t", "--key-separator", ":", "--file", tmp_path / "lines")
    assert refused.err == f"streamlog: line 1 of {tmp_path}/lines has no key separator ':'\n"


def test_an_empty_separator_is_a_usage_error_that_points_to_the_help(streamlog):
    refused = streamlog("produce", "t", "--key-separator", "", stdin=b"a\n")
    assert refused.status == 2
    assert refused.err.endswith("Try 'streamlog produce --help'.\n")


def test_headers_are_added_to_every_record(streamlog):
    streamlog("produce", "t", "--header", "source=test", "--header", "empty=", stdin=b"a\nb\n")
    headers = [{"key": "source", "value": "test"}, {"key": "empty", "value": ""}]
    assert [record["headers"] for record in records_of(streamlog, "t")] == [headers, headers]


def test_a_partition_can_be_chosen_and_a_missing_one_is_refused(streamlog):
    streamlog("topic", "create", "t", "--partitions", 3)
    assert streamlog("produce", "t", "--partition", 2, stdin=b"a\n").status == 0
    assert [(r["partition"], r["value"]) for r in records_of(streamlog, "t")] == [(2, "a")]
    refused = streamlog("produce", "t", "--partition", 3, stdin=b"b\n")
    assert refused.status == 1
    assert "0 to 2" in refused.err


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_use_the_requested_compression(streamlog, codec):
    values = [b"value %d" % number for number in range(1000)]
    assert streamlog("produce", "t", "--compression", codec, stdin=b"\n".join(values)).status == 0
    assert streamlog("consume", "t").lines == values
    dumped = [json.loads(line) for line in streamlog("log", "dump", "t", "--json").lines]
    assert {batch["compression"] for batch in dumped} == {codec}


def test_a_missing_topic_is_refused_without_creation(streamlog, log_path):
    streamlog("topic", "create", "other")
    for sent in (b"a\n", b""):  # it was taken when nothing was sent
        refused = streamlog("produce", "t", "--no-create", stdin=sent)
        assert refused.status == 1
        assert "'t' does not exist" in refused.err


def test_a_record_above_the_topics_limit_is_refused_with_size_limit_and_setting(streamlog):
    streamlog("topic", "create", "t", "--config", "max.message.bytes=1000")
    refused = streamlog("produce", "t", stdin=b"small\n" + b"x" * 2000 + b"\n")
    assert refused.status == 1
    for word in ("1000", "max.message.bytes"):
        assert word in refused.err
    assert streamlog("consume", "t").out == b""


def test_an_idle_pipe_does_not_delay_values(streamlog, log_path):
    streamlog("topic", "create", "t")
    producer = start_warm(["produce", "t", "--path", log_path], stdin=subprocess.PIPE)
    follower = start_warm(["consume", "t", "--follow", "--path", log_path], stdout=subprocess.PIPE)
    try:
        producer.stdin.write(b"at once\n")
        producer.stdin.flush()
        readable, _, _ = select.select([follower.stdout], [], [], 30)
        assert readable, "nothing came through in 30 s"
        assert os.read(follower.stdout.fileno(), 100) == b"at once\n"
        producer.stdin.close()
        assert producer.wait(30) == 0
    finally:
        for process in (producer, follower):
            process.kill()
            process.wait()
        follower.stdout.close()


def test_a_header_given_twice_is_written_twice_in_order(streamlog):
    # The first one was lost: header keys of a record may repeat.
    streamlog("produce", "t", "--header", "a=1", "--header", "b=", "--header", "a=2", stdin=b"x\n")
    (record,) = records_of(streamlog, "t")
    assert [(h["key"], h["value"]) for h in record["headers"]] == [("a", "1"), ("b", ""), ("a", "2")]


def test_an_impossible_partition_is_a_usage_error(streamlog):
    # It was an OverflowError with a traceback.
    refused = streamlog("produce", "t", "--partition", 99_999_999_999, stdin=b"x\n")
    assert refused.status == 2
    assert "--partition" in refused.err


@contextmanager
def fed_steadily(log_path, *options):
    """`streamlog produce t` with a line each 5 ms on its input; the process, and how many lines were sent so far."""
    read_end, write_end = os.pipe()
    process = start_warm(["produce", "t", "--path", log_path, *options], stdin=read_end, stdout=subprocess.PIPE)
    sent, is_over = [0], threading.Event()

    def feed():
        while not is_over.wait(0.005):
            os.write(write_end, b"%07d\n" % sent[0])
            sent[0] += 1

    feeder = threading.Thread(target=feed)
    feeder.start()

    def stop_feeding():
        """What was sent and is still in the pipe."""
        is_over.set()
        feeder.join(30)
        os.close(write_end)
        with os.fdopen(read_end, "rb") as rest:
            return rest.read()

    try:
        yield process, sent, stop_feeding
    finally:
        is_over.set()
        process.kill()
        process.wait()
        process.stdout.close()


def wait_until_visible(log_path, count):
    deadline = time.monotonic() + 60
    while True:
        assert time.monotonic() < deadline, f"{count} values are not there after 60 s"
        time.sleep(0.05)
        if log_path.exists():
            with open_embedded(log_path) as cluster:
                if "t" in cluster.describe_topics() and cluster.bounds(TopicPartition("t", 0)).high_watermark >= count:
                    return


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_steady_input_becomes_visible_and_a_signal_loses_no_read_value(streamlog, log_path, number):
    # Of 621 values in 12 s none was visible, and Ctrl-C lost them all without a word.
    streamlog("topic", "create", "t")
    with fed_steadily(log_path, "--json") as (process, sent, stop_feeding):
        wait_until_visible(log_path, 50)
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
        unread = stop_feeding()
        assert process.returncode == 128 + number
    read = b"".join(b"%07d\n" % value for value in range(sent[0])).removesuffix(unread)
    assert len(unread) < 8 * sent[0]
    assert streamlog("consume", "t").out == read
    assert json.loads(out) == {"topic": "t", "records": len(read) // 8}


def test_the_linger_is_bounded(streamlog):
    assert streamlog("produce", "t", "--linger", "0", stdin=b"a\n").status == 0
    refused = streamlog("produce", "t", "--linger", "-1", stdin=b"a\n")
    assert refused.status == 2
    assert "--linger" in refused.err
