"""A sink that will be killed: tasks and a driver that write batch after batch, exactly once.

What a batch writes follows from (query, batch) alone, so a later check knows what a whole batch is. Messages:
`("trying", batch)` before its end is asked for, `("committed", batch)` after it.
"""

from __future__ import annotations

import random
from multiprocessing.connection import Connection

from support.clients.transacting import begin, init, write

from broker_core.cluster import Cluster, GroupOffset, TransactionalProducer
from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.identifiers import TopicPartition
from broker_core.model.transaction_state import TransactionState

PARTITIONS = [TopicPartition("rows", number) for number in range(3)]
DECISION = TopicPartition("__consumer_offsets", 0)

Rows = dict[TopicPartition, list[str]]


def tasks_of(query: str, batch: int) -> list[Rows]:
    """What each task writes where."""
    rng = random.Random(f"{query} {batch}")
    return [
        {
            partition: [f"{query}/{batch}/{slot}/{number}" for number in range(rng.randrange(1, 4))]
            for partition in rng.sample(PARTITIONS, rng.randrange(1, 4))
        }
        for slot in range(rng.randrange(1, 4))
    ]


def decided(cluster: Cluster, query: str) -> int:
    """The last batch that counts; 0 before the first."""
    found = cluster.fetch_offsets(f"sink-{query}")
    return found[DECISION].offset if found else 0


def take_over(cluster: Cluster, query: str) -> TransactionalProducer:
    driver = init(cluster, f"{query}-driver")
    for left in cluster.list_transactions(prefix=f"{query}-", states=[TransactionState.ONGOING]):
        cluster.abort_transaction(left.transactional_id)
    return driver


def write_tasks(cluster: Cluster, query: str, batch: int, attempt: int = 0) -> list[TransactionalProducer]:
    producers = []
    for slot, rows in enumerate(tasks_of(query, batch)):
        producer = begin(cluster, f"{query}-{slot}-{attempt}", *rows)
        for partition, values in rows.items():
            for number, value in enumerate(values):
                write(cluster, producer, partition, value, base_sequence=number)
        producers.append(producer)
    return producers


def decide(cluster: Cluster, query: str, batch: int, tasks: list[TransactionalProducer]) -> bool:
    """First an older driver is fenced, then the decision is read: so no driver decides between the look and the end."""
    driver = init(cluster, f"{query}-driver")
    if decided(cluster, query) >= batch:
        return False
    cluster.commit_offsets_in_transaction(driver, f"sink-{query}", {DECISION: GroupOffset(offset=batch)})
    cluster.end_transaction(driver, commit=True, together_with=tasks)
    return True


def sink_until_killed(connection: Connection, directory: str, query: str) -> None:
    cluster = open_embedded(directory)
    take_over(cluster, query)
    batch = decided(cluster, query)
    connection.send("ready")
    while True:
        batch += 1
        tasks = write_tasks(cluster, query, batch, attempt=batch % 2)
        connection.send(("trying", batch))
        decide(cluster, query, batch, tasks)
        connection.send(("committed", batch))
