"""Processes with threads, all of them in transactions, while topics come and go under them and logs are compacted:
no process waits for ever, no transaction stays open, and every transaction is read as a whole or not at all.
"""

from __future__ import annotations

import random
import tempfile
import threading
import traceback
from collections import Counter
from pathlib import Path

import pytest
from fuzz.partition_findings import findings_of
from fuzz.worker_process import LoopingProcess
from support.clients.transacting import begin, committed, is_settled, write

from broker_core.cluster import GroupOffset
from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.log_directory.internal_topics import CONSUMER_OFFSETS_PARTITION, TRANSACTION_STATE_PARTITION
from broker_core.model.exceptions import TopicExistsError, UnknownPartitionError, UnknownTopicError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.transaction_state import TransactionState

T0, T1, PASSING = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("passing", 0)
GONE = (UnknownTopicError, UnknownPartitionError)
SMALL = {"internal.segment.bytes": "3000", "retention.ms": "-1"}


def work(connection, directory, name, rounds):
    """Two threads share the process's cluster; each thread has a transactional id of its own."""
    cluster = open_embedded(directory)
    errors, hits = [], Counter()
    committed_values = []

    def run(thread):
        rng = random.Random(thread)
        try:
            for number in range(rounds):
                one_transaction(cluster, thread, f"{thread}/{number}", rng, hits, committed_values)
                if rng.random() < 0.4:
                    churn(cluster, rng, hits)
        except BaseException:
            errors.append(f"{thread}: {traceback.format_exc()}")

    connection.recv()
    threads = [threading.Thread(target=run, args=(f"{name}-{n}",), daemon=True) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
        if thread.is_alive():
            errors.append("a thread waits for ever")
    connection.send((errors, hits, committed_values))
    if not any(thread.is_alive() for thread in threads):
        cluster.close()


def one_transaction(cluster, transactional_id, value, rng, hits, committed_values):
    wanted = [T0, T1]
    try:
        producer = begin(cluster, transactional_id, *wanted, PASSING)
        wanted.append(PASSING)
    except GONE:
        hits["gone before"] += 1
        producer = begin(cluster, transactional_id, *wanted)
    for partition in wanted:
        try:
            write(cluster, producer, partition, value)
        except GONE:
            hits["gone in the middle"] += 1
            assert partition == PASSING
    cluster.commit_offsets_in_transaction(
        producer, transactional_id, {T0: GroupOffset(offset=int(value.split("/")[1]))}
    )
    commit = rng.random() < 0.7
    cluster.end_transaction(producer, commit=commit)
    hits["committed" if commit else "aborted"] += 1
    if commit:
        committed_values.append(value)


def churn(cluster, rng, hits):
    try:
        if rng.random() < 0.5:
            cluster.delete_topic("passing")
            hits["deleted"] += 1
        else:
            cluster.create_topic("passing", configs=SMALL)
            hits["made"] += 1
    except (TopicExistsError, *GONE):
        hits["too late"] += 1


@pytest.mark.parametrize(("processes", "rounds"), [(2, 12), pytest.param(4, 150, marks=pytest.mark.long)])
def test_transactions_continue_while_topics_are_created_and_deleted(tmp_path, processes, rounds):
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        directory = f"{folder}/log"
        with open_embedded(directory, create=True) as cluster:
            cluster.create_topic("t", partition_count=2, configs=SMALL)
            cluster.commit_offsets("first", {T0: GroupOffset(offset=0)})
            cluster.end_transaction(begin(cluster, "first", T0), commit=True)
            for name in ("__transaction_state", "__consumer_offsets"):
                settings = {"internal.segment.bytes": "5000", "min.cleanable.dirty.ratio": "0.2"}
                cluster.alter_topic_configs(name, settings)
        values, hits = _run(directory, processes, rounds)
        assert hits["deleted"] and hits["made"] and hits["aborted"] and hits["gone before"], hits
        with open_embedded(directory) as cluster:
            for partition in (T0, T1):
                seen = Counter(committed(cluster, partition))
                assert seen == Counter(values)
            under_way = {TransactionState.ONGOING, TransactionState.PREPARE_ABORT, TransactionState.PREPARE_COMMIT}
            assert cluster.list_transactions(states=under_way) == ()
            for transactional_id in {value.split("/")[0] for value in values}:
                last = max(int(value.split("/")[1]) for value in values if value.startswith(f"{transactional_id}/"))
                assert cluster.fetch_offsets(transactional_id)[T0].offset == last
            assert all(is_settled(cluster, partition) for partition in (T0, T1, CONSUMER_OFFSETS_PARTITION))
        for partition in (T0, T1, CONSUMER_OFFSETS_PARTITION, TRANSACTION_STATE_PARTITION):
            assert findings_of(directory, partition) == []


def _run(directory, processes, rounds):
    workers = [LoopingProcess(work, directory, f"process-{n}", rounds) for n in range(processes)]
    values, hits = [], Counter()
    try:
        for worker in workers:
            worker.send("go")
        for worker in workers:
            errors, its_hits, its_values = worker.take()
            assert errors == [], "\n".join(errors)
            values += its_values
            hits += its_hits
        for worker in workers:
            worker.join()
    finally:
        for worker in workers:
            worker.close()
    return values, hits
