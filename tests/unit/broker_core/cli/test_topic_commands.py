"""`streamlog topic …`."""

import shutil

from golden_data import unpack


def test_a_topic_is_created_listed_described_altered_and_deleted(streamlog):
    assert streamlog("topic", "create", "t", "--partitions", 3, "--config", "retention.ms=1000").status == 0
    listed = streamlog("topic", "list", "--json").json
    assert [(t["name"], t["partition_count"], t["configs"]) for t in listed] == [("t", 3, {"retention.ms": "1000"})]
    assert streamlog("topic", "alter", "t", "--partitions", 5, "--config", "cleanup.policy=compact").status == 0
    described = streamlog("topic", "describe", "t", "--json").json
    assert described["configs"] == {"cleanup.policy": "compact", "retention.ms": "1000"}
    assert [p["partition"] for p in described["partitions"]] == [0, 1, 2, 3, 4]
    assert streamlog("topic", "alter", "t", "--delete-config", "retention.ms").status == 0
    assert streamlog("topic", "describe", "t", "--json").json["configs"] == {"cleanup.policy": "compact"}
    assert streamlog("topic", "delete", "t", "--yes").status == 0
    assert streamlog("topic", "list", "--json").json == []


def test_tables_show_the_same_values(streamlog):
    streamlog("topic", "create", "orders", "--partitions", 2, "--config", "retention.ms=1000")
    streamlog("produce", "orders", "--partition", 1, stdin=b"a\nb\n")
    listed = streamlog("topic", "list").out.decode()
    assert "orders" in listed
    assert "retention.ms=1000" in listed
    described = streamlog("topic", "describe", "orders").out.decode()
    assert ["1", "0", "2", "2", "2"] in [line.split() for line in described.splitlines()]


def test_without_a_name_all_topics_are_described(streamlog):
    streamlog("topic", "create", "orders", "--partitions", 2)
    streamlog("topic", "create", "users")
    described = streamlog("topic", "describe", "--json").json
    assert [(topic["name"], len(topic["partitions"])) for topic in described] == [("orders", 2), ("users", 1)]
    assert described[0] == streamlog("topic", "describe", "orders", "--json").json
    shown = streamlog("topic", "describe").out.decode()
    assert "orders" in shown
    assert "users" in shown


def test_describing_a_log_without_topics_prints_one_sentence(streamlog):
    streamlog("topic", "create", "t")
    streamlog("topic", "delete", "t", "--yes")
    described = streamlog("topic", "describe")
    assert (described.status, described.out, described.err) == (0, b"", "there are no topics\n")


def test_adding_partitions_to_a_topic_with_records_gives_a_warning(streamlog):
    streamlog("topic", "create", "t")
    assert "warning" not in streamlog("topic", "alter", "t", "--partitions", 2).err
    streamlog("produce", "t", stdin=b"a\n")
    altered = streamlog("topic", "alter", "t", "--partitions", 3, "--json")
    assert altered.status == 0
    assert altered.json["partition_count"] == 3
    assert altered.err.count("\n") == 1
    assert altered.err.startswith("warning: the topic has records, and more partitions change where keys go")
    assert "warning" not in streamlog("topic", "alter", "t", "--config", "retention.ms=-1").err
    assert "warning" not in streamlog("topic", "alter", "t", "--partitions", 2).err


def test_an_existing_topic_is_refused_without_if_not_exists(streamlog):
    streamlog("topic", "create", "t", "--partitions", 2)
    refused = streamlog("topic", "create", "t")
    assert refused.status == 1
    assert "t" in refused.err
    assert streamlog("topic", "create", "t", "--if-not-exists").status == 0


def test_an_invalid_setting_or_name_is_refused_with_the_reason(streamlog):
    assert "segment.bytes" in streamlog("topic", "create", "t", "--config", "segment.bytes=3").err
    assert "Did you mean retention.ms" in streamlog("topic", "create", "t", "--config", "retention.msx=3").err
    assert streamlog("topic", "create", "a/b").status == 1
    assert streamlog("topic", "list", "--json").status == 1  # nothing was made, not even the directory


def test_a_setting_without_an_equals_sign_is_a_usage_error(streamlog):
    refused = streamlog("topic", "create", "t", "--config", "retention.ms")
    assert refused.status == 2
    assert "NAME=VALUE" in refused.err


def test_an_empty_alteration_and_a_contradiction_are_usage_errors(streamlog):
    streamlog("topic", "create", "t")
    assert streamlog("topic", "alter", "t").status == 2
    both = streamlog("topic", "alter", "t", "--config", "retention.ms=1", "--delete-config", "retention.ms")
    assert both.status == 2


def test_a_missing_topic_is_an_error(streamlog):
    streamlog("topic", "create", "t")
    for command in ("describe", "delete", "alter --partitions 2"):
        refused = streamlog("topic", *command.split(), "nothing")
        assert refused.status == 1
        assert "'nothing' does not exist" in refused.err


def test_a_directory_with_some_partitions_of_a_topic_is_listed_and_described(streamlog, log_path):
    # One folder that was not there, and no topic of the directory could be listed.
    shutil.move(unpack(log_path.parent) / "log", log_path)
    shutil.rmtree(log_path / "keyed-1")
    listed = streamlog("topic", "list", "--json")
    assert listed.status == 0
    assert "keyed-1" in listed.err
    assert {"keyed", "codecs"} <= {topic["name"] for topic in listed.json}
    described = streamlog("topic", "describe", "keyed", "--json").json
    assert described["partition_count"] == 5
    assert [found["partition"] for found in described["partitions"]] == [0, 2, 3, 4]
