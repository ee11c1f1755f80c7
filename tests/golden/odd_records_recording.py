"""Batches whose records have odd offsets and times: what a real Kafka stores of them, and what its consumer gets.

`python tests/golden/odd_records_recording.py` writes odd-records-kafka-4.3.1.json again (Java, and Kafka's jars by
Maven). By scene: the error of each batch that was sent, the stored bytes in base64 as a consumer fetches them, and the
records that Kafka's console consumer printed, as [offset, timestamp, value].
"""

from __future__ import annotations

import json
import struct
import sys
import tempfile
from base64 import b64encode
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from support.brokers.kafka_tools import kafka_tool
from support.brokers.reachable_broker import ReachableBroker
from support.brokers.real_kafka import RealKafka

from broker_core.client.cluster_client import ClusterClient
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import TopicPartition
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_header import HEADER_BYTES, write_crc
from broker_core.record.batch_reader import Record

FILE = Path(__file__).parent / "odd-records-kafka-4.3.1.json"
SHOWN = "--formatter-property"
NOW_MS = 1_764_000_000_000
LARGEST = 2**63 - 1


def varint(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*data, number])


def odd_batch(deltas: list[int], value: str, *, base_ms: int = NOW_MS, time_deltas: list[int] | None = None) -> bytes:
    """A batch whose header counts `deltas` records in a row, and whose records have these offset deltas."""
    records = b""
    for number, delta in enumerate(deltas):
        content = f"{value}{number}".encode()
        time_delta = time_deltas[number] if time_deltas else number
        body = b"\0" + varint(time_delta) + varint(delta) + varint(-1) + varint(len(content)) + content + varint(0)
        records += varint(len(body)) + body
    batch = bytearray(build_batch([Record(value=b"x", timestamp_ms=base_ms)]))[:HEADER_BYTES] + records
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">i", batch, 23, len(deltas) - 1)
    struct.pack_into(">qq", batch, 27, base_ms, base_ms)
    struct.pack_into(">i", batch, 57, len(deltas))
    write_crc(batch, 0)
    return bytes(batch)


def scenes() -> dict[str, list[bytes]]:
    """Each is followed by a plain batch, which must not be lost."""
    plain = odd_batch([0, 1], "plain")
    odd = {
        "a gap": odd_batch([0, 5], "odd"),
        "a gap that a lower offset follows": odd_batch([0, 5, 1], "odd"),
        "the same offset twice": odd_batch([0, 0, 1], "odd"),
        "descending": odd_batch([2, 1, 0], "odd"),
        "below the batch": odd_batch([-3, 0, 1], "odd"),
        "far above the batch": odd_batch([0, 1, 1_000_000], "odd"),
        "all above the batch": odd_batch([7, 8], "odd"),
        "a time above 64 bits": odd_batch([0, 1], "odd", base_ms=LARGEST - 5, time_deltas=[0, 10]),
        "a time below 64 bits": odd_batch([0, 1], "odd", base_ms=-LARGEST, time_deltas=[0, -10]),
        "the widest difference of times": odd_batch([0, 1], "odd", base_ms=NOW_MS, time_deltas=[0, LARGEST]),
    }
    return {name: [batch, plain] for name, batch in odd.items()}


def record(broker: ReachableBroker, batches_of: dict[str, list[bytes]]) -> dict[str, dict[str, object]]:
    """A partition for each scene."""
    topic = broker.name()
    recorded: list[dict[str, object]] = []
    consumed: list[list[object]] = [[] for _ in batches_of]
    with broker.client() as client:
        # The odd times are neither too old nor too far ahead here, and nothing is deleted.
        limits = {f"message.timestamp.{side}.max.ms": str(LARGEST) for side in ("before", "after")}
        client.create_topic(topic, partition_count=len(batches_of), configs={"retention.ms": "-1", **limits})
        for number, batches in enumerate(batches_of.values()):
            partition = TopicPartition(topic, number)
            errors = [error_of(client, partition, batch) for batch in batches]
            stored = client.fetch(partition, 0, max_bytes=1 << 20).buffer
            recorded.append({"errors": errors, "stored": b64encode(stored).decode(), "consumed": consumed[number]})
    printed = kafka_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", broker.bootstrap(), "--topic", topic, "--from-beginning", "--timeout-ms", "15000"),
        *(part for name in ("offset", "timestamp", "partition") for part in (SHOWN, f"print.{name}=true")),
    )
    for line in printed.splitlines():
        timestamp, number, offset, value = (part.split(":")[-1] for part in line.split("\t"))
        consumed[int(number)].append([int(offset), int(timestamp), value])
    return dict(zip(batches_of, recorded, strict=True))


def error_of(client: ClusterClient, partition: TopicPartition, batch: bytes) -> str:
    try:
        client.append(partition, bytearray(batch))
    except StreamlogError as error:
        return type(error).__name__
    return "none"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        broker = RealKafka(Path(folder) / "node")
        try:
            recorded = record(broker, scenes())
        finally:
            broker.stop()
    FILE.write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
