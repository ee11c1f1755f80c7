"""A whole node with its handlers on a simulated disk, clock, locks and dice: nothing of the machine is used."""

import fcntl
import os
import random
import sys
import time

import pytest
from support.builders.builders import a_batch, a_record
from support.clients.transacting import SetClock
from support.files.faulty_file_system import FaultyFileSystem
from support.files.memory_locks import MemoryLocks
from support.nodes.whole_node import a_node, ask, fetch, make_topic, pass_time, produce, stop

from broker_core.model.exceptions import DirectoryLockedError
from broker_core.protocol.api_table import ApiKey
from broker_core.record.batch_reader import iter_headers, records_of

ROOT = "/simulated"
HOUR_MS = 3_600_000
_heard: list[str] | None = None


def _hear(event, arguments):
    """Paths of files and folders that the process opens, lists, makes, renames or removes."""
    if _heard is not None and event in ("open", "os.listdir", "os.mkdir", "os.rename", "os.remove", "os.rmdir"):
        _heard.append(str(arguments[0]))


sys.addaudithook(_hear)


@pytest.fixture(autouse=True)
def no_real_disk_or_time(monkeypatch):
    global _heard

    def refuse(*arguments):
        pytest.fail(f"the machine was used: {arguments}")

    real_stat, asked = os.stat, []

    def stat(path, *arguments, **more):
        asked.append(str(path))
        return real_stat(path, *arguments, **more)

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "fcntl", refuse)
        patched.setattr(fcntl, "flock", refuse)
        patched.setattr(time, "sleep", refuse)
        patched.setattr(os, "stat", stat)
        _heard = []
        yield
        heard, _heard = _heard, None
    assert not [path for path in [*heard, *asked] if path.startswith(ROOT)]
    assert not os.path.exists(ROOT)


class RepeatableEntropy:
    def __init__(self, seed):
        self._dice = random.Random(seed)

    def random_bytes(self, count):
        return self._dice.randbytes(count)


class SimulatedMachine:
    """Its disk and clock stay while nodes on it come and go; locks end with the process that had them."""

    def __init__(self, seed=1):
        self.fs = FaultyFileSystem()
        self.clock = SetClock()
        self.entropy = RepeatableEntropy(seed)
        self.locks = MemoryLocks()
        self.fs.make_directory(ROOT)
        self.fs.sync_directory("")

    def start(self, **settings):
        return a_node(f"{ROOT}/log", fs=self.fs, clock=self.clock, entropy=self.entropy, locks=self.locks, **settings)

    def lose_power(self):
        self.fs.power_loss(random.Random(7))
        self.locks = MemoryLocks()


def values(node, topic="t", **how):
    records = fetch(node, topic, **how).records or b""
    batches = [place for place, header in iter_headers(records) if not header.is_control]
    return [record.value for place in batches for record in records_of(records, place)]


def commit(node, group, offset):
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": offset}]}]
    return ask(node, ApiKey.OFFSET_COMMIT, 8, group_id=group, topics=topics)


def committed(node, group):
    groups = [{"group_id": group, "topics": [{"name": "t", "partition_indexes": [0]}]}]
    answer = ask(node, ApiKey.OFFSET_FETCH, 8, groups=groups, require_stable=False)
    return answer.groups[0].topics[0].partitions[0].committed_offset


def a_life(machine):
    """Produces, commits an offset and ends a transaction; what a client then knows."""
    node = machine.start()
    make_topic(node, "t")
    assert produce(node, "t", a_batch(3)).base_offset == 0
    commit(node, "g", 2)
    producer = ask(
        node, ApiKey.INIT_PRODUCER_ID, 4, transactional_id="x", transaction_timeout=60_000, producer_id=-1,
        producer_epoch=-1,
    )  # fmt: skip
    who = {"transactional_id": "x", "producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    ask(node, ApiKey.ADD_PARTITIONS_TO_TXN, 3, v3_and_below_transactional_id="x",
        v3_and_below_producer_id=producer.producer_id, v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[{"name": "t", "partitions": [0]}])  # fmt: skip
    batch = a_batch(2, producer=(producer.producer_id, producer.producer_epoch, 0), is_transactional=True)
    assert produce(node, "t", batch, transactional_id="x").error_code.name == "none"
    assert ask(node, ApiKey.END_TXN, 3, committed=True, **who).error_code.name == "none"
    return node


def test_a_node_serves_and_restarts_on_simulated_hardware():
    machine = SimulatedMachine()
    node = a_life(machine)
    seen = values(node, isolation_level=1)
    assert len(seen) > 3
    stop(node)
    again = machine.start()
    assert (values(again, isolation_level=1), committed(again, "g")) == (seen, 2)
    stop(again)


def test_acknowledged_records_survive_a_simulated_power_failure():
    machine = SimulatedMachine()
    seen = values(a_life(machine), isolation_level=1)
    machine.lose_power()
    again = machine.start()
    assert (values(again, isolation_level=1), committed(again, "g")) == (seen, 2)


def test_time_advances_with_the_simulated_clock():
    machine = SimulatedMachine()
    node = machine.start(log_retention_check_interval_ms=1000)
    make_topic(node, "t", retention_ms=HOUR_MS, segment_ms=1000)
    for _ in range(3):
        produce(node, "t", a_batch([a_record(timestamp_ms=machine.clock.now_ms())]))
        pass_time(node, 2000)
    assert (fetch(node, "t").log_start_offset, fetch(node, "t").high_watermark) == (0, 3)
    pass_time(node, 2 * HOUR_MS)
    pass_time(node, 2000)
    assert fetch(node, "t", 0).error_code.name == "offset_out_of_range"


def test_a_second_node_waits_for_the_lock_and_is_refused():
    machine = SimulatedMachine()
    node = machine.start()
    begun = time.monotonic()
    with pytest.raises(DirectoryLockedError):
        machine.start()
    assert machine.locks.slept_seconds >= 5 > time.monotonic() - begun
    stop(node)
    machine.start()


def test_the_same_seed_gives_the_same_disk():
    disks = []
    for _ in range(2):
        machine = SimulatedMachine(seed=5)
        a_life(machine)
        disks.append(machine.fs.snapshot())
    assert disks[0] == disks[1]
