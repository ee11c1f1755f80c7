"""kafka-get-offsets.sh, kafka-delete-records.sh and kafka-log-dirs.sh."""

import json

import pytest
from support.clients.confluent_clients import a_producer, make_topic, send, values_of

DAY_MS = 86_400_000
BEGIN_MS = 1_700_000_000_000


@pytest.fixture
def topic(broker):
    """Two partitions with three batches of one record, a day apart, the newest in the middle."""
    name = make_topic(broker, 2)
    producer = a_producer(broker)
    for number, days in ((0, (1, 3, 2)), (1, (10, 11, 12, 13))):
        for day in days:
            value = f"{number}/{day}".encode()
            send(producer, name, [{"value": value, "partition": number, "timestamp": BEGIN_MS + day * DAY_MS}])
    return name


def offsets(tools, *arguments):
    """Partition to offset."""
    lines = tools.run("GetOffsetShell", *arguments).lines
    return {int(line.split(":")[1]): int(line.split(":")[2]) for line in lines}


def delete(tools, tmp_path, topic, before, **given):
    file = tmp_path / "before.json"
    partitions = [{"topic": topic, "partition": number, "offset": offset} for number, offset in before.items()]
    file.write_text(json.dumps({"partitions": partitions, "version": 1}))
    return tools.run("DeleteRecordsCommand", "--offset-json-file", file, **given)


def test_offsets_are_listed_by_time(tools, topic):
    for time, expected in (
        ("latest", {0: 3, 1: 4}),
        (-1, {0: 3, 1: 4}),
        ("earliest", {0: 0, 1: 0}),
        (-2, {0: 0, 1: 0}),
        ("max-timestamp", {0: 1, 1: 3}),
        (-3, {0: 1, 1: 3}),
        ("earliest-local", {0: 0, 1: 0}),
        # Nothing is tiered.
        ("latest-tiered", {}),
        ("earliest-pending-upload", {}),
        (0, {0: 0, 1: 0}),
        (BEGIN_MS + DAY_MS, {0: 0, 1: 0}),
        (BEGIN_MS + DAY_MS + 1, {0: 1, 1: 0}),
        (BEGIN_MS + 3 * DAY_MS, {0: 1, 1: 0}),
        # One partition has no record that late.
        (BEGIN_MS + 12 * DAY_MS, {1: 2}),
        (BEGIN_MS + 14 * DAY_MS, {}),
    ):
        assert offsets(tools, "--topic", topic, "--time", time) == expected, time
    assert offsets(tools, "--topic-partitions", f"{topic}:1") == {1: 4}
    assert offsets(tools, "--topic", topic, "--partitions", "0") == {0: 3}
    assert "Could not match any topic-partitions" in tools.refused("GetOffsetShell", "--topic", "no-such")


def test_deleted_records_are_not_readable(tools, broker, topic, tmp_path):
    said = delete(tools, tmp_path, topic, {0: 2, 1: -1}).lines
    assert sorted(said[2:]) == [f"partition: {topic}-0\tlow_watermark: 2", f"partition: {topic}-1\tlow_watermark: 4"]
    assert offsets(tools, "--topic", topic, "--time", "earliest") == {0: 2, 1: 4}
    assert offsets(tools, "--topic", topic, "--time", "latest") == {0: 3, 1: 4}
    assert values_of(broker, topic) == [b"0/2"]
    # A lower offset changes nothing; one above the end is refused.
    assert f"partition: {topic}-0\tlow_watermark: 2" in delete(tools, tmp_path, topic, {0: 1}).out
    beyond = delete(tools, tmp_path, topic, {0: 4}, status=None)
    assert "OFFSET_OUT_OF_RANGE" in beyond.out + beyond.err
    assert offsets(tools, "--topic", topic, "--time", "earliest") == {0: 2, 1: 4}


def test_log_directories_are_described_with_the_sizes_on_disk(tools, broker, topic):
    ended = tools.run("LogDirsCommand", "--describe", "--topic-list", topic)
    (described,) = json.loads(ended.lines[-1])["brokers"]
    (directory,) = described["logDirs"]
    folder = broker.folder / "data"
    assert (described["broker"], directory["error"], directory["logDir"]) == (1, None, str(folder))
    found = {each["partition"]: each["size"] for each in directory["partitions"]}
    assert found == {
        f"{topic}-{number}": sum(path.stat().st_size for path in (folder / f"{topic}-{number}").glob("*.log"))
        for number in range(2)
    }
    assert {(each["offsetLag"], each["isFuture"]) for each in directory["partitions"]} == {(0, False)}
    assert "do not exist from --broker-list: 2" in tools.refused("LogDirsCommand", "--describe", "--broker-list", "1,2")
