"""`streamlog log …`."""

import json


def corrupt(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


def test_segments_are_listed_with_their_offsets(streamlog):
    streamlog("produce", "t", stdin=b"a\nb\n")
    (segment,) = streamlog("log", "segments", "t", "--json").json
    assert (segment["partition"], segment["base_offset"], segment["next_offset"]) == ("t-0", 0, 2)
    assert segment["is_active"] is True
    assert "t-0" in streamlog("log", "segments").out.decode()


def test_dump_shows_a_line_a_batch_and_the_records_if_asked(streamlog):
    streamlog("produce", "t", "--compression", "zstd", stdin=b"a\nb\n")
    streamlog("produce", "t", stdin=b"c\n")
    first, second = streamlog("log", "dump", "t").lines
    assert b"t-0 offsets=0..1 records=2" in first
    assert b"codec=zstd" in first
    assert b"t-0 offsets=2..2 records=1" in second
    with_records = streamlog("log", "dump", "t", "--records").lines
    assert len(with_records) == 5
    assert with_records[2].endswith(b"value=b")


def test_dump_as_json_may_begin_at_an_offset(streamlog):
    for value in (b"a\n", b"b\n", b"c\n"):
        streamlog("produce", "t", stdin=value)
    dumped = [json.loads(line) for line in streamlog("log", "dump", "t", "--from", 1, "--json").lines]
    assert [batch["base_offset"] for batch in dumped] == [1, 2]


def test_verify_of_a_sound_log_finds_nothing(streamlog):
    streamlog("produce", "t", stdin=b"".join(b"value %d\n" % n for n in range(10_000)))
    sound = streamlog("log", "verify", "--json")
    assert sound.status == 0
    assert sound.json["damage"] == 0
    assert sound.json["partitions"] >= 1


def test_verify_finds_a_flipped_byte_and_ends_with_3(streamlog, log_path):
    streamlog("produce", "t", stdin=b"a\nb\nc\n")
    streamlog("produce", "t", stdin=b"d\n")
    corrupt(log_path / "t-0" / "00000000000000000000.log", 70)
    damaged = streamlog("log", "verify", "t", "--json")
    assert damaged.status == 3
    assert damaged.json["damage"] >= 1
    finding = damaged.json["findings"][0]
    assert finding["partition"] == "t-0"
    assert finding["position"] == 0
    assert finding["file"].endswith("t-0/00000000000000000000.log")
    table = streamlog("log", "verify", "t")
    assert table.status == 3
    assert "t-0" in table.out.decode()


def test_a_damaged_batch_ends_consume_with_trouble_that_names_the_place(streamlog, log_path):
    streamlog("produce", "t", stdin=b"a\nb\nc\n")
    corrupt(log_path / "t-0" / "00000000000000000000.log", 70)
    refused = streamlog("consume", "t")
    assert (refused.status, refused.out) == (1, b"")
    assert "00000000000000000000.log" in refused.err
    assert refused.err.count("\n") == 1


def test_dump_marks_damaged_batches_goes_on_behind_them_and_ends_with_3(streamlog, log_path):
    streamlog("produce", "t", stdin=b"a\nb\nc\n")
    streamlog("produce", "t", stdin=b"d\n")
    corrupt(log_path / "t-0" / "00000000000000000000.log", 70)
    dumped = streamlog("log", "dump", "t", "--records")
    assert dumped.status == 3
    damaged, sound, record = dumped.lines
    assert b"DAMAGED: checksum" in damaged
    assert b"offsets=3..3" in sound
    assert record.endswith(b"value=d")


def test_maintain_drops_what_retention_no_longer_keeps(streamlog):
    streamlog("topic", "create", "t", "--config", "retention.ms=1", "--config", "internal.segment.bytes=100")
    for value in (b"a\n", b"b\n", b"c\n"):
        streamlog("produce", "t", stdin=value)
    assert streamlog("log", "maintain").status == 0
    assert streamlog("topic", "describe", "t", "--json").json["partitions"][0]["log_start_offset"] >= 2


def test_a_topic_that_is_not_there_is_trouble(streamlog):
    streamlog("topic", "create", "t")
    for command in ("segments", "dump", "verify", "maintain"):
        assert streamlog("log", command, "nothing").status == 1
