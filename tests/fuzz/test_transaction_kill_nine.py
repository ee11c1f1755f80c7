"""`kill -9` of sinks at any instant: each batch is there once and whole or not at all, the acknowledged ones are."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from fuzz.partition_findings import findings_of
from fuzz.sinking_process import (
    DECISION,
    PARTITIONS,
    decide,
    decided,
    sink_until_killed,
    take_over,
    tasks_of,
    write_tasks,
)
from fuzz.worker_process import LoopingProcess
from support.clients.transacting import committed, is_settled

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.log_directory.internal_topics import TRANSACTION_STATE_PARTITION
from broker_core.model.exceptions import ProducerError
from broker_core.model.transaction_state import TransactionState

SMALL = {"internal.segment.bytes": "2500", "retention.ms": "-1"}


@pytest.fixture
def directory(tmp_path):
    """In memory where there is such a folder: a killed process loses nothing that the operating system has."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        path = f"{folder}/log"
        prepare(path)
        yield path


def prepare(path):
    with open_embedded(path, create=True) as cluster:
        cluster.create_topic("rows", partition_count=len(PARTITIONS), configs=SMALL)
        # So that the coordinators' own logs roll segments and are compacted during the test.
        take_over(cluster, "nobody")
        decide(cluster, "nobody", 1, [])
        for name in ("__transaction_state", "__consumer_offsets"):
            cluster.alter_topic_configs(name, {"internal.segment.bytes": "6000", "min.cleanable.dirty.ratio": "0.2"})


def expected_rows(query, batches):
    rows = Counter()
    for batch in batches:
        for task in tasks_of(query, batch):
            for partition, values in task.items():
                rows.update((partition, value) for value in values)
    return rows


def check(cluster, queries, told):
    """As a reader that looks at the coordinator first. What a killed sink left open still hides what lies behind it."""
    cluster.list_transactions()
    for query in queries:
        last = decided(cluster, query)
        assert last >= told[query], f"{query}: batch {told[query]} was acknowledged, {last} is decided"
        beyond = seen_of(cluster, query) - expected_rows(query, range(1, last + 1))
        assert not beyond, f"{query}: undecided, or twice: {beyond}"
    for left in cluster.list_transactions(states=[TransactionState.ONGOING]):
        # Unless it was decided: written, and its writer killed before its answer was read.
        cluster.abort_transaction(left.transactional_id)
    for query in queries:
        assert seen_of(cluster, query) == expected_rows(query, range(1, decided(cluster, query) + 1))


def seen_of(cluster, query):
    return Counter(
        (partition, value)
        for partition in PARTITIONS
        for value in committed(cluster, partition)
        if value.startswith(f"{query}/")
    )


@pytest.mark.parametrize("rounds", [5, pytest.param(150, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
def test_batches_of_killed_sinks_are_stored_once_or_not_at_all(directory, rounds):
    rng = random.Random(rounds)
    told, tried, hits = Counter(), Counter(), Counter()
    reader = open_embedded(directory)
    for number in range(rounds):
        queries = ["left", "right"] if number % 3 == 2 else ["left"] if number % 2 else ["right"]
        processes = {query: LoopingProcess(sink_until_killed, directory, query) for query in queries}
        try:
            for process in processes.values():
                assert process.take() == "ready"
            for _ in range(rng.randrange(1, 9)):
                for query, process in processes.items():
                    hear(query, process.take(), told, tried)
            for query, process in processes.items():
                time.sleep(rng.random() * 0.01)  # only spreads the instants: nothing waits for it
                process.kill()
                hits["killed"] += 1
                for message in process.take_all():
                    hear(query, message, told, tried)
        finally:
            for process in processes.values():
                process.close()
        hits["left open"] += bool(reader.list_transactions(states=[TransactionState.ONGOING]))
        check(reader, queries, told)
        hits["decided and not told"] += any(decided(reader, query) > told[query] for query in queries)
    assert hits["killed"] >= rounds
    assert hits["left open"], hits
    with open_embedded(directory) as survivor:
        for query in ("left", "right"):
            take_over(survivor, query)
            assert not survivor.list_transactions(prefix=query, states=[TransactionState.ONGOING])
            last = decided(survivor, query)
            assert decide(survivor, query, last + 1, write_tasks(survivor, query, last + 1))
        check(survivor, ("left", "right"), told)
        check(reader, ("left", "right"), told)
        assert all(is_settled(survivor, partition) for partition in (*PARTITIONS, DECISION))
        survivor.maintain()
    reader.close()  # which waits for maintenance that is under way
    for partition in (*PARTITIONS, DECISION, TRANSACTION_STATE_PARTITION):
        findings = findings_of(directory, partition)
        assert not findings, f"{partition}: {findings}"


def hear(query, message, told, tried):
    kind, batch = message
    if kind == "trying":
        assert batch == max(told[query], tried[query]) + 1 or batch in (told[query] + 1, tried[query] + 1, tried[query])
        tried[query] = batch
    else:
        assert batch == tried[query]
        told[query] = batch


def test_each_batch_of_competing_drivers_is_decided_once(directory):
    """They take over from one another without end, as a driver does that was taken for dead and lives."""
    wanted, hits, errors = 6, Counter(), []

    def drive(attempt):
        rng = random.Random(attempt)
        cluster = open_embedded(directory)
        try:
            while (batch := decided(cluster, "query") + 1) <= wanted:
                try:
                    take_over(cluster, "query")
                    tasks = write_tasks(cluster, "query", batch, attempt)
                    hits[f"by {attempt}"] += decide(cluster, "query", batch, tasks)
                except ProducerError:
                    hits["fenced"] += 1
                    time.sleep(rng.random() * 0.02)  # or neither would finish
        except BaseException as error:
            errors.append(error)
        finally:
            cluster.close()

    threads = [threading.Thread(target=drive, args=(attempt,), daemon=True) for attempt in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert errors == []
    assert hits["fenced"], hits
    with open_embedded(directory) as cluster:
        take_over(cluster, "query")
        assert decided(cluster, "query") == wanted
        check(cluster, ["query"], Counter(query=wanted))
