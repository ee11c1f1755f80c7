"""Kafka's own DumpLogSegments accepts every file that our writers write, and decodes it to what was written.

All files go through two runs of the tool (data, metadata), since a start of Java costs more than the dumps.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from conformance.dumped_segments import DATA_ENDINGS, data_files, dump
from fuzz.partition_scenario import CONFIGS, STEPS, create, prepared, state_of
from fuzz.store_machine import DIRECTORY, StoreLog
from support.brokers import kafka_tools
from support.files.faulty_file_system import FaultyFileSystem

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.identifiers import CompressionType, IsolationLevel, TopicPartition
from broker_core.record import columns

CODECS = list(CompressionType)
START_MS = 1_700_000_000_000
ROLLING = {"internal.segment.bytes": "3000", "index.interval.bytes": "200", "retention.ms": "-1"}


@pytest.fixture(scope="session", autouse=True)
def kafka_is_here():
    reason = kafka_tools.why_unavailable()
    if reason:
        pytest.skip(reason)


# -- the writers --
def rows(count: int, first: int = 0) -> pa.RecordBatch:
    numbers = range(first, first + count)
    headers = [[{"key": "h", "value": b"x"}, {"key": "h", "value": None}] if n % 3 == 0 else None for n in numbers]
    return pa.record_batch(
        {
            "key": pa.array([None if n % 5 == 0 else b"key-%d" % (n % 20) for n in numbers], pa.binary()),
            "value": pa.array([None if n % 7 == 0 else b"value-%d " % n * 3 for n in numbers], pa.binary()),
            "timestamp": pa.array([START_MS + n for n in numbers], pa.int64()),
            "headers": pa.array(headers, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        }
    )


def written_by_embedded_cluster(folder: Path) -> None:
    """One topic for each codec; a producer with sequences and one without; several segments with their indexes."""
    cluster = open_embedded(str(folder), create=True)
    for codec in CODECS:
        name = f"codec-{codec.name.lower()}"
        cluster.create_topic(name, configs=ROLLING)
        producer = cluster.init_producer()
        sequence = 0
        for first in range(0, 400, 40):
            encoded = columns.encode(
                rows(40, first), compression=codec, max_batch_bytes=1500, default_timestamp_ms=START_MS,
                producer=(producer.producer_id, producer.producer_epoch, sequence) if first else None,
            )  # fmt: skip
            cluster.append(TopicPartition(name, 0), encoded.buffer)
            sequence = encoded.next_sequence if first else 0
    cluster.create_topic("append-time", configs={"message.timestamp.type": "LogAppendTime"})
    cluster.create_topic("recompressed", configs={"compression.type": "zstd"})
    for name in ("append-time", "recompressed"):
        cluster.append(TopicPartition(name, 0), columns.encode(rows(50), default_timestamp_ms=START_MS).buffer)
    cluster.create_topic("gone")
    cluster.alter_topic_configs("append-time", {"retention.ms": "1000000"})
    cluster.create_partitions("recompressed", 3)
    cluster.delete_topic("gone")
    cluster.close()


def written_by_the_command_line(folder: Path) -> None:
    lines = "".join(f"key-{n}\tvalue {n}\n" for n in range(100))
    for codec in CODECS:
        command = [
            sys.executable, "-m", "broker_core.cli.main", "produce", f"cli-{codec.name.lower()}", "--path", str(folder),
            "--key-separator", r"\t", "--header", "from=cli", "--compression", codec.name.lower(),
        ]  # fmt: skip
        subprocess.run(command, input=lines, text=True, check=True, capture_output=True, timeout=60)


def written_by_the_scenario(folder: Path) -> int:
    """The files after transactions (one aborted), compaction, retention and delete-records."""
    fs = prepared(FaultyFileSystem())
    create(fs)
    log = StoreLog(fs, CONFIGS)
    stages = {"aborted": 11, "compacted": 15, "trimmed": len(STEPS)}
    for number, step in enumerate(STEPS, 1):
        step.do(log)
        for stage in [stage for stage, after in stages.items() if after == number]:
            target = folder / f"{stage}-0"
            target.mkdir(parents=True)
            for path, content in fs.snapshot().items():
                (target / path.removeprefix(f"{DIRECTORY}/")).write_bytes(content)
    return len(state_of(log).rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ours")


@pytest.fixture(scope="module")
def dumped(folder):
    written_by_embedded_cluster(folder / "embedded")
    written_by_the_command_line(folder / "cli")
    written_by_the_scenario(folder / "scenario")
    return dump(data_files(folder), "--print-data-log")


def test_all_kinds_of_files_were_dumped(dumped):
    kinds = Counter(path.suffix for path in dumped.sections)
    assert all(kinds[ending] for ending in DATA_ENDINGS), kinds


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
def test_kafka_reads_what_the_embedded_cluster_wrote(folder, dumped, codec):
    name = codec.name.lower()
    partition = folder / "embedded" / f"codec-{name}-0"
    found = dumped.records(partition)
    assert [int(re.search(r"offset: (\d+)", line)[1]) for line in found] == list(range(400))
    assert len(list(partition.glob("*.log"))) > 2 or codec is not CompressionType.NONE
    assert set(dumped.codecs(partition)) == {name}
    _has_content_of(rows(400), found)


def _has_content_of(batch, found):
    table = batch.to_pydict()
    for n, line in enumerate(found):
        key, value, headers = table["key"][n], table["value"][n], table["headers"][n]
        assert f"CreateTime: {START_MS + n} " in line
        assert f"keySize: {-1 if key is None else len(key)} " in line
        assert f"valueSize: {-1 if value is None else len(value)} " in line
        assert ("headerKeys: [h,h]" in line) == (headers is not None)
        assert value is None or f"payload: {value.decode()}" in line


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
def test_kafka_reads_what_the_command_line_wrote(folder, dumped, codec):
    name = codec.name.lower()
    partition = folder / "cli" / f"cli-{name}-0"
    found = dumped.records(partition)
    assert len(found) == 100
    assert set(dumped.codecs(partition)) == {name}
    for n, line in enumerate(found):
        assert "headerKeys: [from]" in line
        assert f"key: key-{n} payload: value {n}" in line


def test_kafka_reads_log_append_times_and_recompressed_batches(folder, dumped):
    for line in dumped.records(folder / "embedded" / "append-time-0"):
        assert "LogAppendTime: " in line
    assert set(dumped.codecs(folder / "embedded" / "recompressed-0")) == {"zstd"}
    assert len(dumped.records(folder / "embedded" / "recompressed-0")) == 50


def test_kafka_reads_transactions_their_markers_and_the_index_of_aborted_ones(folder, dumped):
    text = "".join(dumped.sections[path] for path in (folder / "scenario" / "aborted-0").glob("*.log"))
    assert "endTxnMarker: ABORT" in text and "endTxnMarker: COMMIT" in text
    index = "".join(dumped.sections[path] for path in (folder / "scenario" / "aborted-0").glob("*.txnindex"))
    assert re.search(r"producerId: 2 firstOffset: 9 lastOffset: \d+", index), index


def test_kafka_reads_compacted_segments(folder, dumped):
    found = dumped.records(folder / "scenario" / "compacted-0")
    plain = dumped.records(folder / "scenario" / "aborted-0")
    assert 0 < len(found) < len(plain)


def test_kafka_reads_producer_snapshots(dumped):
    snapshots = [section for path, section in dumped.sections.items() if path.suffix == ".snapshot"]
    assert any(re.search(r"producerId: \d+ producerEpoch: 0", section) for section in snapshots), snapshots[:3]


def test_kafka_reads_the_metadata_log(folder, dumped):
    found = [
        dump(sorted((folder / name / "__cluster_metadata-0").glob("*.log")), "--cluster-metadata-decoder")
        for name in ("embedded",)
    ]
    text = "".join(section for each in found for section in each.sections.values())
    for kind in ("TOPIC_RECORD", "PARTITION_RECORD", "CONFIG_RECORD", "REMOVE_TOPIC_RECORD", "PRODUCER_IDS_RECORD"):
        assert f'"type":"{kind}"' in text, kind
    assert '"name":"codec-zstd"' in text


def test_kafka_and_our_reader_agree_on_the_records(folder, dumped):
    cluster = open_embedded(str(folder / "embedded"))
    for name, topic in cluster.describe_topics().items():
        if topic.is_internal:
            continue
        for number in range(topic.partition_count):
            partition = TopicPartition(name, number)
            end = cluster.bounds(partition).readable_end(IsolationLevel.READ_UNCOMMITTED)
            assert len(dumped.records(folder / "embedded" / str(partition))) == end
    cluster.close()
