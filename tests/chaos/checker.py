"""What a run must not have shown: Jepsen's anomalies over `Seen`, the logs, and the replicas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from chaos.workload import Seen

Log = Mapping[int, Sequence[tuple[int, str]]]
"""By partition: (offset, value), as a read-committed reader sees it."""


def anomalies(seen: Seen, events: Log, transactions: Log) -> list[str]:
    return [*_of_events(seen, events), *_of_transactions(seen, transactions), *_of_polls(seen, events)]


def _of_events(seen: Seen, events: Log) -> list[str]:
    found = []
    for partition, acked in sorted(seen.acked.items()):
        values = [value for _, value in events.get(partition, ())]
        there = set(values)
        found += [f"lost write: {value} in partition {partition}" for value in acked if value not in there]
        found += [f"duplicate: {value}" for value, count in Counter(values).items() if count > 1]
        numbers = [int(value.rpartition("-")[2]) for value in values]
        found += [
            f"reordered: {after} behind {before} in partition {partition}"
            for before, after in pairwise(numbers)
            if after < before
        ]
    return found


def _of_transactions(seen: Seen, transactions: Log) -> list[str]:
    values = Counter(value for entries in transactions.values() for _, value in entries)
    found = [f"duplicate: {value}" for value, count in values.items() if count > 1]
    for first, (members, fate) in seen.transactions.items():
        visible = sum(value in values for value in members)
        if fate == "committed" and visible < len(members):
            found.append(f"lost write: {len(members) - visible} values of the committed transaction of {first}")
        elif fate == "aborted" and visible:
            found.append(f"aborted read: {visible} values of the transaction of {first}")
        elif 0 < visible < len(members):
            found.append(f"torn transaction: {visible} of {len(members)} values of the transaction of {first}")
    return found


def _of_polls(seen: Seen, events: Log) -> list[str]:
    found = []
    for partition, committed in seen.committed.items():
        offsets = {offset for offset, _ in events.get(partition, ()) if offset < committed}
        skipped = offsets - seen.polled[partition]
        if skipped:
            found.append(f"skipped poll: {len(skipped)} offsets below {committed} in partition {partition}")
    return found


def differing_replicas(data_paths: Sequence[Path], topics: Sequence[str], partition_count: int) -> list[str]:
    """Of nodes that have stopped, all in sync."""
    found = []
    for topic in topics:
        for number in range(partition_count):
            logs = [_log_of(path / f"{topic}-{number}") for path in data_paths]
            if len(set(logs)) > 1:
                sizes = ", ".join(str(len(log)) for log in logs)
                found.append(f"replicas differ: {topic}-{number} has {sizes} bytes")
    return found


def _log_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
