"""A process dies, or the power fails, between any two file operations of transactions that are ended together.

Two tasks and a driver, as a sink has them: tasks write to overlapping partitions, the driver records the decision as a
group's offset, and all three are ended by one call. Whatever survives, all of it is committed or nothing, the
next process sees either and nothing in between, and the next driver continues.
"""

from __future__ import annotations

import gc
import random
import shutil
import tempfile
from collections import Counter
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path

import pytest
from fuzz.losing_file_system import LosingFileSystem
from fuzz.partition_findings import findings_of
from support.clients.transacting import SetClock, begin, committed, init, is_settled, write
from support.files.faulty_file_system import Killed

from broker_core.cluster import GroupOffset
from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.log_directory.internal_topics import CONSUMER_OFFSETS_PARTITION, TRANSACTION_STATE_PARTITION
from broker_core.model.identifiers import TopicPartition
from broker_core.model.transaction_state import TransactionState

pytestmark = pytest.mark.usefixtures("frozen_heap")

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
PARTITIONS = (A0, A1, B0)
GROUP = "sink"
MODES = ("process", "torn write", "power", "power, some sectors")
UNDER_WAY = {TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}


def values_of(batch):
    """What a batch puts where."""
    return {A0: [f"{batch} task 0"], A1: [f"{batch} task 0", f"{batch} task 1"], B0: [f"{batch} task 1"]}


def write_batch(cluster, batch, on_step=lambda name: None):
    """As the sink does it."""
    tasks = []
    for slot, partitions in enumerate([(A0, A1), (A1, B0)]):
        on_step(f"begin task {slot}")
        tasks.append(begin(cluster, f"query-{slot}-0", *partitions))
        for partition in partitions:
            on_step(f"append to {partition}")
            write(cluster, tasks[-1], partition, f"{batch} task {slot}")
    on_step("begin driver")
    driver = init(cluster, "query-driver")
    on_step("offsets")
    cluster.commit_offsets_in_transaction(driver, GROUP, {CONSUMER_OFFSETS_PARTITION: GroupOffset(offset=batch)})
    on_step("end")
    cluster.end_transaction(driver, commit=True, together_with=tasks)
    on_step("ended")


def go_on(cluster, batch):
    """What the next driver does: takes over, and ends what is left of an attempt that was not decided."""
    init(cluster, "query-driver")
    for left in cluster.list_transactions(prefix="query-", states=[TransactionState.ONGOING]):
        cluster.abort_transaction(left.transactional_id)
    if decided(cluster) != batch:
        write_batch(cluster, batch)


def decided(cluster):
    found = cluster.fetch_offsets(GROUP)
    return found[CONSUMER_OFFSETS_PARTITION].offset if found else None


def seen(cluster):
    return {partition: committed(cluster, partition) for partition in PARTITIONS}


def with_batches(*batches):
    return {
        partition: [value for batch in batches for value in values_of(batch)[partition]] for partition in PARTITIONS
    }


def a_process(directory, file_system=None):
    """Its own way into the directory. Without the thread of maintenance: what dies here dies in one order of events."""
    cluster = EmbeddedCluster(directory, create=True, clock=SetClock(), file_system=file_system)
    cluster._maintenance.stop()
    return cluster


def a_folder():
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="streamlog-crash-", dir=memory if memory.is_dir() else None))


@contextmanager
def a_copy(template):
    folder = a_folder()
    try:
        yield shutil.copytree(template, folder / "log")
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def prepared():
    """A directory with topics alone, and one that has seen a whole batch, so that all of its logs are there."""
    folder = a_folder()
    for name, batches in (("fresh", ()), ("used", (1,))):
        with a_process(folder / name) as cluster:
            cluster.create_topic("a", partition_count=2)
            cluster.create_topic("b", configs={"internal.segment.bytes": "150"})
            for batch in batches:
                write_batch(cluster, batch)
    yield folder
    shutil.rmtree(folder)


@cache
def rehearse(folder, name):
    """(the name of the step that each file operation belongs to, the operations)."""
    directory = a_folder() / "log"
    shutil.copytree(folder / name, directory)
    fs, steps = LosingFileSystem(str(directory)), []
    with a_process(directory, fs) as cluster:
        write_batch(cluster, 2, lambda step: steps.append((len(fs.calls), step)))
    fs.close()
    shutil.rmtree(directory.parent)
    return steps, fs.calls


@pytest.mark.parametrize("name", ["fresh", "used"])
def test_transactions_need_few_syncs(prepared, name):
    """Per task: one for its partitions, one for each append. To end: offsets, decision, a marker per partition."""
    steps, calls = rehearse(prepared, name)
    assert [step for _, step in steps][-1] == "ended"
    synced = Counter(Path(path).parent.name for kind, path in calls if kind == "sync" and path.endswith(".log"))
    if name == "used":
        assert synced == {
            str(TRANSACTION_STATE_PARTITION): 2 + 1 + 1,
            str(A0): 1 + 1,
            str(A1): 2 + 1,
            str(B0): 2 * (1 + 1),  # where a segment begins with each batch, the one that ends is synced, too
            str(CONSUMER_OFFSETS_PARTITION): 1 + 1,
        }
    assert {kind for kind, _ in calls} >= {"write", "sync", "create", "rename", "sync_directory"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("name", "stride"),
    [("used", 11), ("fresh", 37), *(pytest.param(name, 1, marks=pytest.mark.long) for name in ("used", "fresh"))],
)
def test_transactions_that_are_ended_together_are_all_committed_or_none(prepared, name, stride, mode):
    steps, calls = rehearse(prepared, name)
    wrong, hits = {}, Counter()
    for number in range(MODES.index(mode) % stride, len(calls), stride):
        step = [step for at, step in steps if at <= number][-1]
        error = _crash_at(prepared / name, number, mode, hits, first_batches=() if name == "fresh" else (1,))
        if error:
            wrong[number, step, calls[number]] = error
    assert not wrong
    assert hits["undecided"] and hits["decided"], hits
    if mode.startswith("power"):
        assert hits["lost something"], hits


@pytest.mark.parametrize("stride", [17, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", ["used", "fresh"])
def test_a_process_ends_the_transactions_of_a_dead_one_and_continues(prepared, name, stride):
    """He has looked now and then, so that he knows some of what the dead one did, and not the rest."""
    steps, calls = rehearse(prepared, name)
    wrong, hits = {}, Counter()
    for number in range(0, len(calls), stride):
        error = _crash_beside_another(prepared / name, number, hits, first_batches=() if name == "fresh" else (1,))
        if error:
            wrong[number, [step for at, step in steps if at <= number][-1], calls[number]] = error
    assert not wrong
    assert hits["undecided"] and hits["decided"], hits


def test_a_process_may_die_while_it_completes_transactions_of_a_dead_one(prepared):
    """After the decision nothing is done but to finish it; each process gets a step further and dies."""
    steps, _ = rehearse(prepared, "used")
    decision = next(at for at, step in steps if step == "end") + 3
    died = 0
    with a_copy(prepared / "used") as directory:
        with suppress(Killed):
            write_batch(a_process(directory, LosingFileSystem(str(directory), decision)), 2)
        while True:
            fs = LosingFileSystem(str(directory), died)
            with suppress(Killed):
                a_process(directory, fs).list_transactions()
            gc.collect()
            fs.close()
            if not fs.is_dead:
                break
            died += 1
        assert died > 5
        hits = Counter()
        assert _maintain(directory, hits, (1,), was_told=True) is None
        assert hits == {"decided": 1}


def _crash_at(template, number, mode, hits, *, first_batches):
    reached, torn_bytes = [], 30 if mode == "torn write" else 0
    with (
        a_copy(template) as directory,
        closing(LosingFileSystem(str(directory), number, torn_bytes=torn_bytes)) as fs,
    ):
        if not _dies_writing(directory, fs, reached.append):
            return "the fault was not hit"
        if mode.startswith("power"):
            fs.lose_power(random.Random(number) if mode == "power, some sectors" else None)
            hits["lost something"] += fs.hits
        return _maintain(directory, hits, first_batches, was_told=reached[-1] == "ended")


def _crash_beside_another(template, number, hits, *, first_batches):
    reached = []
    with (
        a_copy(template) as directory,
        closing(LosingFileSystem(str(directory), number)) as fs,
        a_process(directory) as reader,
        a_process(directory) as survivor,
    ):

        def on_step(name):
            if len(reached) % 3 == number % 3:
                for cluster in (reader, survivor):
                    seen(cluster), decided(cluster), cluster.list_transactions()
            reached.append(name)

        if not _dies_writing(directory, fs, on_step):
            return "the fault was not hit"
        return _what_is_wrong(reader, survivor, hits, first_batches, was_told=reached[-1] == "ended")


def _dies_writing(directory, fs, on_step):
    with suppress(Killed):
        write_batch(a_process(directory, fs), 2, on_step)
    gc.collect()  # what a dead process had open is closed, and its locks with it
    return fs.is_dead


def _maintain(directory, hits, first_batches, *, was_told):
    with a_process(directory) as reader, a_process(directory) as survivor:
        return _what_is_wrong(reader, survivor, hits, first_batches, was_told=was_told)


def _what_is_wrong(reader, survivor, hits, first_batches, *, was_told):
    before, after = with_batches(*first_batches), with_batches(*first_batches, 2)
    reader.list_transactions()
    found, batch = seen(reader), decided(reader)
    if (found, batch) not in ((before, first_batches[-1] if first_batches else None), (after, 2)):
        return f"a reader that looked at the coordinator sees {found}, decided is {batch}"
    if was_told and batch != 2:
        return "the end was acknowledged, and is lost"
    hits["decided" if batch == 2 else "undecided"] += 1
    init(survivor, "query-driver")
    if (decided(survivor) != 2 and batch == 2) or seen(survivor) != (after if decided(survivor) == 2 else before):
        return f"the next driver sees {seen(survivor)}, decided is {decided(survivor)}"
    go_on(survivor, 2)
    for cluster in (survivor, reader):
        if seen(cluster) != after or decided(cluster) != 2:
            return f"after the batch came again there is {seen(cluster)}, decided is {decided(cluster)}"
    states = {each.transactional_id: each.state for each in survivor.list_transactions()}
    if UNDER_WAY & set(states.values()):
        return f"left under way: {states}"
    unsettled = [p for p in (*PARTITIONS, CONSUMER_OFFSETS_PARTITION) if not is_settled(survivor, p)]
    if unsettled:
        return f"the last stable offset stands still in {unsettled}"
    logs = (*PARTITIONS, CONSUMER_OFFSETS_PARTITION, TRANSACTION_STATE_PARTITION)
    findings = [finding for partition in logs for finding in findings_of(survivor.path, partition)]
    return f"verify: {findings}" if findings else None
