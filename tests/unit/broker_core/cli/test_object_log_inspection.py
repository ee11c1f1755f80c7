"""The command line on a log on object storage, kept in a folder."""

import json
import re

import pytest


@pytest.fixture
def log_path(tmp_path):
    return f"objects://{tmp_path}/log"


@pytest.fixture
def data_objects(tmp_path):
    return lambda: sorted((tmp_path / "log" / "data").iterdir())


def test_values_are_produced_and_consumed_and_a_group_resumes(streamlog):
    assert streamlog("topic", "create", "t", "--partitions", 2).status == 0
    streamlog("produce", "t", "--partition", 1, stdin=b"a\nb\n")
    assert streamlog("consume", "t", "--group", "g").lines == [b"a", b"b"]
    streamlog("produce", "t", "--partition", 1, stdin=b"c\n")
    assert streamlog("consume", "t", "--group", "g").lines == [b"c"]
    assert streamlog("consume", "t").lines == [b"a", b"b", b"c"]
    assert streamlog("group", "list").lines == [b"g"]
    assert streamlog("topic", "list", "--json").json[0]["name"] == "t"


def test_segments_are_ranges_of_objects(streamlog, log_path):
    streamlog("produce", "t", stdin=b"a\nb\n")
    streamlog("produce", "t", stdin=b"c\n")
    first, second = streamlog("log", "segments", "t", "--json").json
    assert (first["base_offset"], first["next_offset"]) == (0, 2)
    assert (second["base_offset"], second["next_offset"]) == (2, 3)
    assert re.fullmatch(re.escape(log_path) + r"/data/[0-9a-f-]+@0", first["file"])


def test_dump_shows_batches_with_their_log_offsets(streamlog):
    streamlog("produce", "t", stdin=b"a\nb\n")
    streamlog("produce", "t", "--compression", "gzip", stdin=b"c\n")
    lines = streamlog("log", "dump", "t", "--records").lines
    assert b"t-0 offsets=0..1 records=2" in lines[0]
    assert b"t-0 offsets=2..2 records=1" in lines[3] and b"codec=gzip" in lines[3]
    assert lines[4].endswith(b"value=c")
    assert [json.loads(line)["base_offset"] for line in streamlog("log", "dump", "t", "--from", 2, "--json").lines] == [
        2
    ]


def test_verifying_an_intact_log_finds_nothing(streamlog):
    streamlog("produce", "t", stdin=b"a\n")
    done = streamlog("log", "verify")
    assert (done.status, done.out) == (0, b"")
    assert "1 partition verified, 0 damaged places" in done.err


@pytest.mark.parametrize("position", [3, 12, 21, 65])
def test_a_flipped_bit_is_reported_with_object_and_position_and_other_ranges_are_verified(
    streamlog, data_objects, position
):
    streamlog("produce", "t", stdin=b"a\n")
    (damaged,) = data_objects()
    streamlog("produce", "t", stdin=b"b\n")
    data = bytearray(damaged.read_bytes())
    data[position] ^= 1
    damaged.write_bytes(data)
    done = streamlog("log", "verify")
    assert done.status == 3
    assert f"data/{damaged.name}:0 offset 0: " in done.out.decode()
    assert "1 damaged place" in done.err
    dumped = streamlog("log", "dump", "t")
    assert dumped.status == 3
    assert [line.split()[1] for line in dumped.lines] == [b"offsets=1..1"]
    assert f"data/{damaged.name}:0 offset 0: " in dumped.err


def test_a_missing_object_is_damage(streamlog, data_objects):
    streamlog("produce", "t", stdin=b"a\n")
    (missing,) = data_objects()
    missing.unlink()
    (finding,) = streamlog("log", "verify", "--json").json["findings"]
    assert (finding["is_damage"], finding["file"], finding["offset"]) == (True, f"data/{missing.name}", 0)


def test_an_object_that_is_not_the_logs_is_reported_and_is_no_damage(streamlog, tmp_path):
    streamlog("produce", "t", stdin=b"a\n")
    streamlog("log", "maintain")
    bogus = tmp_path / "log" / "checkpoints" / f"{999:020d}"
    bogus.write_bytes(b"bogus")
    done = streamlog("log", "verify")
    assert done.status == 0
    (line,) = done.out.decode().splitlines()
    assert line.startswith(f"checkpoints/{999:020d}: the log ends at commit ")
    assert "0 damaged places, 1 other finding" in done.err
    found = streamlog("log", "verify", "--json").json
    assert (found["findings"], found["foreign_objects"][0]["path"]) == ([], f"checkpoints/{999:020d}")
    assert bogus.exists()


def test_maintain_applies_retention_and_writes_a_checkpoint(streamlog):
    streamlog("topic", "create", "t", "--config", "retention.bytes=0", "--config", "segment.bytes=1048576")
    streamlog("produce", "t", stdin=b"a\n")
    did = streamlog("log", "maintain", "t", "--json").json
    assert did["errors"] == []
    assert did["deleted_offsets"] == 1
    assert isinstance(did["checkpoint"], int)
    assert "nothing to do" in streamlog("log", "maintain").err


def test_transactions_are_refused_on_object_storage(streamlog):
    streamlog("topic", "create", "t")
    assert streamlog("transactions", "list").status == 0
    refused = streamlog("transactions", "abort", "id")
    assert refused.status == 1
    assert "transactional id" in refused.err


def test_a_url_without_a_log_is_named(streamlog, log_path):
    refused = streamlog("consume", "t")
    assert refused.status == 1
    assert f"There is no log at {log_path}" in refused.err


def test_store_settings_come_from_a_file_and_an_invalid_one_is_named(streamlog, tmp_path):
    settings = tmp_path / "store.properties"
    settings.write_text("object.timeout.ms=5000\nacks=all\n")
    created = streamlog("topic", "create", "t", "--command-config", settings)
    assert created.status == 0
    assert "ignored settings: acks" in created.err
    settings.write_text("object.timeout=5000\n")
    refused = streamlog("topic", "list", "--command-config", settings)
    assert refused.status == 2
    assert "Did you mean object.timeout.ms?" in refused.err


def test_store_settings_are_refused_for_a_directory(streamlog, tmp_path):
    settings = tmp_path / "store.properties"
    settings.write_text("")
    for command in (
        ("topic", "list"),
        ("log", "segments"),
        ("log", "verify"),
        ("log", "maintain"),
        ("log", "dump", "t"),
    ):
        refused = streamlog(*command, "--path", tmp_path / "d", "--command-config", settings, with_path=False)
        assert refused.status == 2
        assert "--command-config needs" in refused.err
