"""`kill -9` at any instant: what was acknowledged is there, in order, once; what a reader saw stays.

One directory lives through all rounds. Its topics roll every few batches; one is cut by retention, one is compacted. In
every round one or two processes write to all partitions until they are killed, while this process reads; then the next
writers send again what may or may not have been written.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from dataclasses import dataclass, field

import pytest
from fuzz.appending_process import Acknowledged, Trying, WriterPosition, append_until_killed, batch_of, contents_of
from fuzz.batches import rows_of
from fuzz.partition_findings import findings_of
from fuzz.plain_log import Row
from fuzz.worker_process import LoopingProcess

from broker_core.embedded.embedded_cluster import EmbeddedCluster, open_embedded
from broker_core.model.identifiers import TopicPartition

KEEPER = "keeper"
"""This process: it outlives all others, and goes on with what it knew of the directory before they died."""
SMALL = {"internal.segment.bytes": "2500", "index.interval.bytes": "300", "retention.ms": "-1"}
TOPICS = {
    "whole": (2, SMALL),
    "short": (1, {**SMALL, "retention.bytes": "6000"}),
    "compacted": (1, {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}),
}
PARTITIONS = [TopicPartition(name, number) for name, (count, _) in TOPICS.items() for number in range(count)]


@dataclass
class Fate:
    """What is known of one writer's batches in one partition."""

    place: WriterPosition
    acknowledged: list[Acknowledged] = field(default_factory=list)
    in_doubt: WriterPosition | None = None


@dataclass
class Ledger:
    """What the writers said, and what readers saw."""

    fates: dict[str, dict[TopicPartition, Fate]]
    seen: dict[TopicPartition, dict[int, Row]] = field(default_factory=lambda: defaultdict(dict))
    read_up_to: dict[TopicPartition, int] = field(default_factory=lambda: defaultdict(int))
    hits: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def hear(self, writer: str, message: Trying | Acknowledged) -> None:
        fate = self.fates[writer][message.partition]
        if isinstance(message, Trying):
            assert fate.in_doubt in (None, message.place)
            fate.in_doubt = message.place
            return
        if fate.acknowledged:
            assert message.base_offset > fate.acknowledged[-1].last_offset, f"{message} is below an earlier batch"
        self.hits["duplicate"] += message.is_duplicate
        fate.acknowledged.append(message)
        fate.place, fate.in_doubt = message.place.after(writer, message.partition), None


def read_on(cluster: EmbeddedCluster, ledger: Ledger, partition: TopicPartition) -> None:
    """What a consumer does: reads from where it was, and remembers."""
    bounds = cluster.bounds(partition)
    offset = max(ledger.read_up_to[partition], bounds.log_start_offset)
    while offset < bounds.high_watermark:
        start = cluster.bounds(partition).log_start_offset
        if offset < start:
            offset = start
            continue
        fetched = cluster.fetch(partition, offset, max_bytes=4000)
        for row in rows_of(fetched, offset):
            assert row == ledger.seen[partition].setdefault(row.offset, row)
        assert fetched.next_offset > offset
        offset = fetched.next_offset
    ledger.read_up_to[partition] = offset


def one_round(directory: str, cluster: EmbeddedCluster, ledger: Ledger, writers: list[str], seed: int) -> None:
    rng = random.Random(seed)
    processes = {}
    for writer in writers:
        places = {partition: fate.place for partition, fate in ledger.fates[writer].items()}
        processes[writer] = LoopingProcess(append_until_killed, directory, writer, places, seed)
    try:
        for process in processes.values():
            assert process.take() == "ready"
        for _ in range(rng.randrange(4, 60)):
            for writer, process in processes.items():
                ledger.hear(writer, process.take())
            if rng.random() < 0.2:
                read_on(cluster, ledger, rng.choice(PARTITIONS))
        for writer, process in processes.items():
            time.sleep(rng.random() * 0.004)  # only spreads the instants: nothing waits for it
            process.kill()
            ledger.hits["killed"] += 1
            for message in process.take_all():
                ledger.hear(writer, message)
    finally:
        for process in processes.values():
            process.close()
    for partition in PARTITIONS:
        check(cluster, ledger, partition)


def check(cluster: EmbeddedCluster, ledger: Ledger, partition: TopicPartition) -> None:
    """Before anybody repairs anything: a reader of its own sees all that was acknowledged."""
    ledger.read_up_to[partition] = 0
    found = dict(ledger.seen[partition])
    ledger.seen[partition].clear()
    read_on(cluster, ledger, partition)
    present = ledger.seen[partition]
    start = cluster.bounds(partition).log_start_offset
    for offset, row in found.items():
        if offset in present:
            assert present[offset] == row, f"{partition}: a reader saw {row}, now it is {present[offset]}"
        elif offset >= start and partition.topic != "compacted":
            raise AssertionError(f"{partition}: a reader saw {row}, now it is gone")
    allowed: dict[int, tuple[bytes | None, bytes | None]] = {}
    for writer, fates in ledger.fates.items():
        allowed |= _acknowledged_rows(writer, partition, fates[partition])
    unknown = {offset: row for offset, row in present.items() if offset not in allowed}
    in_doubt = _rows_in_doubt(ledger, partition)
    for row in unknown.values():
        assert row.value in in_doubt, f"{partition}: {row} was never sent, or came twice"
    assert len({row.value for row in unknown.values()}) == len(unknown), f"{partition}: twice: {unknown}"
    ledger.hits["landed unacknowledged"] += bool(unknown)
    newest = {
        key: offset
        for offset, (key, _) in sorted([*allowed.items(), *((o, (r.key, r.value)) for o, r in unknown.items())])
    }
    for offset, content in allowed.items():
        if offset in present:
            assert (present[offset].key, present[offset].value) == content
        elif offset >= start:
            overtaken = partition.topic == "compacted" and newest[content[0]] > offset
            assert overtaken, f"{partition}: acknowledged {content} at {offset} is lost"
    ledger.hits[f"cut {partition.topic}"] += start > 0
    ledger.hits[f"compacted {partition.topic}"] += len(present) < len(allowed) and start == 0


def _acknowledged_rows(
    writer: str, partition: TopicPartition, fate: Fate
) -> dict[int, tuple[bytes | None, bytes | None]]:
    return {
        batch.base_offset + slot: (content.key, content.value)
        for batch in fate.acknowledged
        for slot, content in enumerate(contents_of(writer, partition, batch.place.number))
    }


def _rows_in_doubt(ledger: Ledger, partition: TopicPartition) -> set[bytes | None]:
    return {
        content.value
        for writer, fates in ledger.fates.items()
        if (place := fates[partition].in_doubt) is not None
        for content in contents_of(writer, partition, place.number)
    }


def run_rounds(directory: str, count: int, seed: int) -> Ledger:
    cluster = open_embedded(directory, create=True)
    for name, (partition_count, configs) in TOPICS.items():
        cluster.create_topic(name, partition_count=partition_count, configs=configs)
    ledger = Ledger(
        {
            writer: {p: Fate(WriterPosition(cluster.init_producer().producer_id)) for p in PARTITIONS}
            for writer in ("left", "right", KEEPER)
        }
    )
    for number in range(count):
        writers = ["left", "right"] if number % 3 == 2 else ["left"] if number % 2 else ["right"]
        one_round(directory, cluster, ledger, writers, seed + number)
        kept = PARTITIONS[number % len(PARTITIONS)]
        send_again(cluster, KEEPER, kept, ledger.fates[KEEPER][kept])
        if number % 5 == 4:
            cluster.maintain()
        check(cluster, ledger, kept)
        assert findings_of(directory, kept, damage_only=True) == []
    cluster.close()
    return ledger


@pytest.mark.parametrize("rounds", [12, pytest.param(200, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
def test_acknowledged_records_survive_sigkill(tmp_path, rounds):
    ledger = run_rounds(str(tmp_path / "log"), rounds, seed=rounds)
    assert ledger.hits["killed"] >= rounds
    assert ledger.hits["cut short"] and ledger.hits["compacted compacted"]
    assert any(fate.in_doubt for fates in ledger.fates.values() for fate in fates.values()) or ledger.hits["duplicate"]
    if rounds >= 200:
        assert ledger.hits["duplicate"], "no kill fell between a write and its acknowledgement"
    # Every batch whose fate is unknown is sent again. Then every partition and every index is whole.
    directory = str(tmp_path / "log")
    with_log = open_embedded(directory)
    try:
        for writer, fates in ledger.fates.items():
            for partition, fate in fates.items():
                send_again(with_log, writer, partition, fate)
        for partition in PARTITIONS:
            check(with_log, ledger, partition)
            assert not _rows_in_doubt(ledger, partition)
    finally:
        with_log.close()
    # After its maintenance: an index that is read while a segment is rolled or swapped is neither old nor new.
    for partition in PARTITIONS:
        assert findings_of(directory, partition) == []


def send_again(cluster: EmbeddedCluster, writer: str, partition: TopicPartition, fate: Fate) -> None:
    place = fate.place
    result = cluster.append(partition, batch_of(writer, partition, place))
    fate.acknowledged.append(
        Acknowledged(partition, place, result.base_offset, result.last_offset, result.is_duplicate)
    )
    fate.place, fate.in_doubt = place.after(writer, partition), None
