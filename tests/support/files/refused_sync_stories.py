"""What is acknowledged when the kernel refuses to sync. Run as a process of its own, since there is no way back:

    python -m support.files.refused_sync_stories embedded <path> fdatasync fsync
    python -m support.files.refused_sync_stories broker <path> native fdatasync

Each attempt is a line of the output: what was tried, and whether it was "done" or "refused".
"""

from __future__ import annotations

import sys

from support.builders.append_records import append_values
from support.files.refused_syscalls import refuse_from_now_on

from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.client.cluster_client import ClusterClient
from broker_core.cluster import GroupOffset, TransactionalProducer
from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.model.client_settings import parse_client_settings
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import TopicPartition
from broker_core.server import thread_syncs
from broker_core.server.broker_thread import BrokerThread
from broker_core.server.development import development_settings

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def attempt(name: str, work) -> None:
    try:
        work()
    except StreamlogError:
        print(f"{name}: refused")
    else:
        print(f"{name}: done")


def embedded(path: str, *names: str) -> None:
    cluster = EmbeddedCluster(path, create=True)
    cluster.create_topic("t", partition_count=2)
    cluster.create_topic("lazy", configs={"flush.policy": "os"})
    cluster.create_topic("rolling", configs={"internal.segment.bytes": "300"})
    for topic in ("t", "lazy", "rolling"):
        append_values(cluster, topic, "before")
    cluster.commit_offsets("g", {T0: GroupOffset(offset=0)})
    given = cluster.init_producer("x", timeout_ms=60_000)
    producer = TransactionalProducer(
        transactional_id="x", producer_id=given.producer_id, producer_epoch=given.producer_epoch
    )
    cluster.add_partitions_to_transaction(producer, [T1])
    before = cluster.bounds(T0), cluster.fetch_offsets("g", [T0])
    refuse_from_now_on(*names)
    attempt("an append", lambda: append_values(cluster, "t", "after"))
    attempt("an append that is not to be synced", lambda: append_values(cluster, "lazy", "after"))
    attempt("an append that begins a segment", lambda: append_values(cluster, "rolling", "after" * 40))
    attempt("a commit of offsets", lambda: cluster.commit_offsets("g", {T0: GroupOffset(offset=1)}))
    attempt("the end of a transaction", lambda: cluster.end_transaction(producer, commit=True))
    attempt("a new topic", lambda: cluster.create_topic("u"))
    attempt("its first append", lambda: append_values(cluster, "u", "first"))
    changed = (cluster.bounds(T0), cluster.fetch_offsets("g", [T0])) != before
    print(f"what readers see: {'changed' if changed else 'as before'}")


def broker(path: str, kind: str, *names: str) -> None:
    if kind == "python":
        thread_syncs.SyncLanes.is_built = classmethod(lambda _: False)
    running = BrokerThread(parse_broker_config(development_settings(path, port=0)))

    settings = {
        "bootstrap.servers": running.bootstrap_servers,
        "delivery.timeout.ms": "3000",
        "request.timeout.ms": "3000",
    }
    cluster = ClusterClient(parse_client_settings(settings))
    cluster.create_topic("t", partition_count=1)
    append_values(cluster, "t", "before")
    before = cluster.bounds(T0)
    refuse_from_now_on(*names)
    attempt("a produce", lambda: append_values(cluster, "t", "after"))
    print(f"what readers see: {'as before' if cluster.bounds(T0) == before else 'changed'}")
    running.kill()


if __name__ == "__main__":
    story, *arguments = sys.argv[1:]
    {"embedded": embedded, "broker": broker}[story](*arguments)
