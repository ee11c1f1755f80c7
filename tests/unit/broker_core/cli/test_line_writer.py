"""When lines are written, on a scripted input and clock; `test_produce_command` has the same with a process."""

import pytest

from broker_core.cli import line_writer
from broker_core.cli.line_writer import LineRecords, LineWriter
from broker_core.cli.screen import SILENT
from broker_core.cli.stop_signals import StopSignals
from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.identifiers import TopicPartition
from broker_core.topic_producer import TopicProducer, describe_or_create

T0 = TopicPartition("t", 0)


class ScriptedInput:
    """Gives the pieces at their times (seconds); a wait moves the clock. `look` is called before each piece."""

    name = "a script"

    def __init__(self, pieces, look):
        self._pieces = list(pieces)
        self._look = look
        self.now_s = 0.0

    def monotonic(self):
        return self.now_s

    def wait(self, timeout_s, *, stop_descriptor):
        due_s = self._pieces[0][0] if self._pieces else self.now_s
        if timeout_s is not None and self.now_s + timeout_s < due_s:
            self.now_s += timeout_s
            return False
        self.now_s = max(self.now_s, due_s)
        return True

    def read(self):
        self._look(self.now_s)
        if not self._pieces:
            return b""
        _, data = self._pieces.pop(0)
        return data


@pytest.fixture
def cluster(tmp_path):
    with open_embedded(tmp_path / "log", create=True) as opened:
        yield opened


def write(cluster, monkeypatch, pieces, *, linger_s=1.0, stop_at_s=None):
    """(visible records at each time that something is read, the writer)."""
    seen = []
    with StopSignals() as stop:

        def look(now_s):
            topics = cluster.describe_topics(["t"])
            seen.append((round(now_s, 3), cluster.bounds(T0).log_end_offset if topics else 0))
            if stop_at_s is not None and now_s >= stop_at_s:
                stop.received = 15

        source = ScriptedInput(pieces, look)
        monkeypatch.setattr(line_writer, "time", source)
        producer = TopicProducer(
            cluster, find_topic=lambda name: describe_or_create(cluster, name), now_ms=lambda: 1_700_000_000_000
        )
        records = LineRecords(key_separator=None, headers=[], partition=None)
        writer = LineWriter("t", source, producer, records, linger_s=linger_s)
        writer.write_all(stop, SILENT)
    return seen, writer


def steady(count, every_s):
    return [(number * every_s, b"%d\n" % number) for number in range(count)]


def test_values_of_a_steady_input_wait_at_most_the_linger(cluster, monkeypatch):
    # An input that never paused for 0.1 s was not written until a batch was full.
    seen, writer = write(cluster, monkeypatch, steady(500, every_s=0.02))
    assert seen[-1][0] > 9
    for now_s, visible in seen:
        read_a_linger_ago = max(0, int((now_s - 1.0) / 0.02))
        assert visible >= read_a_linger_ago, now_s
    assert writer.written_count == 500


def test_a_steady_input_is_batched_for_the_linger(cluster, monkeypatch):
    seen, _ = write(cluster, monkeypatch, steady(500, every_s=0.02))
    assert len({visible for _, visible in seen}) <= 12


def test_a_pause_in_the_input_writes_before_the_linger(cluster, monkeypatch):
    seen, _ = write(cluster, monkeypatch, [(0.0, b"a\n"), (0.15, b"b\n")], linger_s=60)
    assert seen[1] == (0.15, 1)


def test_without_linger_each_piece_is_written_before_the_next_is_read(cluster, monkeypatch):
    seen, _ = write(cluster, monkeypatch, steady(5, every_s=0.01), linger_s=0)
    assert [visible for _, visible in seen] == [0, 1, 2, 3, 4, 5]


def test_a_signal_ends_reading_and_read_values_are_written(cluster, monkeypatch):
    _, writer = write(cluster, monkeypatch, steady(500, every_s=0.02), linger_s=60, stop_at_s=2.0)
    assert 90 < writer.read_count < 110
    assert cluster.bounds(T0).log_end_offset == writer.written_count == writer.read_count


def test_an_unterminated_line_is_dropped_after_a_signal_and_written_at_the_end_of_input(cluster, monkeypatch):
    pieces = [(0.0, b"one\ntw"), (0.01, b"o\nthr")]
    _, writer = write(cluster, monkeypatch, [*pieces, (5.0, b"ee\n")], stop_at_s=0.01)
    assert (writer.written_count, writer.unfinished_bytes) == (2, 3)
    _, writer = write(cluster, monkeypatch, pieces)
    assert (writer.written_count, writer.unfinished_bytes) == (3, 0)
