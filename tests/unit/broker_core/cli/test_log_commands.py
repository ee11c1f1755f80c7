"""`streamlog log …`."""

import json

from broker_core.cluster import GroupOffset
from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.identifiers import TopicPartition


def corrupt(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


def test_segments_are_listed_with_their_offsets(streamlog):
    streamlog("produce", "t", stdin=b"a\nb\n")
    (segment,) = streamlog("log", "segments", "t", "--json").json
    assert (segment["topic"], segment["partition"]) == ("t", 0)
    assert (segment["base_offset"], segment["next_offset"]) == (0, 2)
    assert segment["is_active"] is True
    assert "t-0" in streamlog("log", "segments").out.decode()


def test_dump_shows_a_line_per_batch_and_the_records_on_request(streamlog):
    streamlog("produce", "t", "--compression", "zstd", stdin=b"a\nb\n")
    streamlog("produce", "t", stdin=b"c\n")
    first, second = streamlog("log", "dump", "t").lines
    assert b"t-0 offsets=0..1 records=2" in first
    assert b"codec=zstd" in first
    assert b"t-0 offsets=2..2 records=1" in second
    with_records = streamlog("log", "dump", "t", "--records").lines
    assert len(with_records) == 5
    assert with_records[2].endswith(b"value=b")


def test_dump_as_json_can_begin_at_an_offset(streamlog):
    for value in (b"a\n", b"b\n", b"c\n"):
        streamlog("produce", "t", stdin=value)
    dumped = [json.loads(line) for line in streamlog("log", "dump", "t", "--from", 1, "--json").lines]
    assert [batch["base_offset"] for batch in dumped] == [1, 2]


def test_verify_of_an_intact_log_finds_nothing(streamlog):
    streamlog("produce", "t", stdin=b"".join(b"value %d\n" % n for n in range(10_000)))
    sound = streamlog("log", "verify", "--json")
    assert sound.status == 0
    assert sound.json["damage"] == 0
    assert (sound.json["partitions"], sound.json["internal_partitions"]) == (1, 0)


def test_verify_counts_internal_partitions_apart(streamlog, log_path):
    """They were counted among the partitions of the topics that were created."""
    streamlog("produce", "t", stdin=b"a\n")
    with open_embedded(log_path) as cluster:
        cluster.commit_offsets("g", {TopicPartition("t", 0): GroupOffset(offset=1)})
    assert streamlog("log", "verify").err == (
        "1 partition and 1 internal partition verified, 0 damaged places, 0 other findings\n"
    )
    counts = streamlog("log", "verify", "--json").json
    assert (counts["partitions"], counts["internal_partitions"]) == (1, 1)
    only = streamlog("log", "verify", "__consumer_offsets")
    assert only.err.startswith("0 partitions and 1 internal partition verified")


def test_verify_finds_a_flipped_byte_and_exits_with_3(streamlog, log_path):
    streamlog("produce", "t", stdin=b"a\nb\nc\n")
    streamlog("produce", "t", stdin=b"d\n")
    corrupt(log_path / "t-0" / "00000000000000000000.log", 70)
    damaged = streamlog("log", "verify", "t", "--json")
    assert damaged.status == 3
    assert damaged.json["damage"] >= 1
    finding = damaged.json["findings"][0]
    assert (finding["topic"], finding["partition"]) == ("t", 0)
    assert finding["position"] == 0
    assert finding["file"].endswith("t-0/00000000000000000000.log")
    told = streamlog("log", "verify", "t")
    assert told.status == 3
    assert told.lines[0].startswith(b"t-0/00000000000000000000.log:0 offset 0: checksum")
    assert told.err == "1 partition verified, 1 damaged place, 0 other findings\n"


def test_verify_distinguishes_a_missing_index_from_damage_and_reports_no_position_twice(streamlog, log_path):
    streamlog("produce", "t", stdin=b"a\n")
    streamlog("produce", "t", stdin=b"b\n")
    streamlog("produce", "u", stdin=b"a\n")
    (log_path / "u-0" / "00000000000000000000.index").unlink()
    second = len((log_path / "t-0" / "00000000000000000000.log").read_bytes()) // 2
    corrupt(log_path / "t-0" / "00000000000000000000.log", second + 8)  # the length: nothing leads on from here
    told = streamlog("log", "verify")
    damage, index = told.out.decode().splitlines()
    assert damage.startswith(f"t-0/00000000000000000000.log:{second} offset 1: batch length -")
    assert damage.count("00000000000000000000.log") == 1
    assert index == (
        "u-0/00000000000000000000.index:0 offset 0: the offset index is missing (not damage: it is rebuilt when needed)"
    )
    assert told.err == "2 partitions verified, 1 damaged place, 1 other finding\n"


def test_a_damaged_batch_ends_consume_with_its_position(streamlog, log_path):
    streamlog("produce", "t", stdin=b"a\nb\nc\n")
    corrupt(log_path / "t-0" / "00000000000000000000.log", 70)
    refused = streamlog("consume", "t")
    assert (refused.status, refused.out) == (1, b"")
    assert "00000000000000000000.log" in refused.err
    assert refused.err.count("\n") == 1


def test_dump_marks_damaged_batches_continues_after_them_and_exits_with_3(streamlog, log_path):
    streamlog("produce", "t", stdin=b"a\nb\nc\n")
    streamlog("produce", "t", stdin=b"d\n")
    corrupt(log_path / "t-0" / "00000000000000000000.log", 70)
    dumped = streamlog("log", "dump", "t", "--records")
    assert dumped.status == 3
    damaged, sound, record = dumped.lines
    assert b"DAMAGED: checksum" in damaged
    assert b"offsets=3..3" in sound
    assert record.endswith(b"value=d")


def test_maintain_applies_retention(streamlog):
    streamlog("topic", "create", "t", "--config", "retention.ms=1", "--config", "internal.segment.bytes=100")
    for value in (b"a\n", b"b\n", b"c\n"):
        streamlog("produce", "t", stdin=value)
    assert streamlog("log", "maintain").status == 0
    assert streamlog("topic", "describe", "t", "--json").json["partitions"][0]["log_start_offset"] >= 2


def test_every_json_identifies_a_partition_by_topic_and_number(streamlog, log_path):
    # It was t-0 in some and 0 in others.
    streamlog("produce", "t", stdin=b"a\n")
    (log_path / "t-0" / "00000000000000000000.index").unlink()
    found = [
        streamlog("topic", "describe", "t", "--json").json["partitions"][0],
        streamlog("log", "segments", "--json").json[0],
        streamlog("log", "dump", "t", "--json").json,
        streamlog("log", "dump", "t", "--records", "--json").lines[1],
        streamlog("log", "verify", "--json").json["findings"][0],
        streamlog("log", "maintain", "--json").json[0],
        streamlog("consume", "t", "--format", "json").json,
    ]
    found[3] = json.loads(found[3])
    assert [(one["topic"], one["partition"]) for one in found] == [("t", 0)] * len(found)


def test_a_missing_topic_is_an_error(streamlog):
    streamlog("topic", "create", "t")
    for command in ("segments", "dump", "verify", "maintain"):
        assert streamlog("log", command, "nothing").status == 1
