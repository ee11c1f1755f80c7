"""`streamlog group …`."""

import pytest

from broker_core.cluster import GroupOffset
from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.identifiers import TopicPartition


@pytest.fixture
def log(streamlog, log_path):
    """Five records in t-0, of which the group `readers` has read two; `streamlog-sink-q` has decided batch 7."""
    streamlog("produce", "t", stdin=b"a\nb\nc\nd\ne\n")
    with open_embedded(log_path) as cluster:
        cluster.commit_offsets("readers", {TopicPartition("t", 0): GroupOffset(offset=2, metadata="note")})
        cluster.commit_offsets("streamlog-sink-q", {TopicPartition("__consumer_offsets", 0): GroupOffset(offset=7)})
    return streamlog


def test_groups_are_listed_one_per_line(log):
    assert log("group", "list", "--all").out.decode().split() == ["readers", "streamlog-sink-q"]
    assert log("group", "list", "--all", "--json").json == ["readers", "streamlog-sink-q"]


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_streamlogs_own_groups_are_not_listed_by_default_and_their_number_is_reported(log, more):
    found = log("group", "list", *more)
    assert (found.json if more else found.out.decode().split()) == ["readers"]
    assert found.err == "1 group of streamlog's own not shown: add --all\n"
    assert log("group", "list", "--all", *more).err == ""


def test_with_only_own_groups_the_list_is_empty_and_says_so(log):
    log("group", "delete", "readers", "--yes")
    found = log("group", "list")
    assert (found.out, found.err) == (b"", "1 group of streamlog's own not shown: add --all\n")


def test_a_group_is_described_with_its_lag_in_offsets_bytes_and_time(log):
    [partition] = log("group", "describe", "readers", "--json").json["partitions"]
    assert (partition["topic"], partition["partition"], partition["offset"]) == ("t", 0, 2)
    assert (partition["log_end_offset"], partition["behind_offsets"], partition["lost_offsets"]) == (5, 3, 0)
    assert partition["behind_bytes"] > 0
    assert 0 <= partition["behind_ms"] < 3_600_000
    assert partition["metadata"] == "note"
    shown = log("group", "describe", "readers").out.decode()
    assert shown.splitlines()[-1].split()[:4] == ["t-0", "2", "5", "3"]


def test_a_group_in_a_directory_is_shown_with_its_commit_times_and_no_members(log):
    described = log("group", "describe", "readers")
    lines = described.out.decode().splitlines()
    assert lines[0] == "group readers: Empty, no members"
    assert "committed" in lines[3].split()
    assert "consumer" not in described.out.decode()
    assert lines[-1].endswith("Z")
    as_json = log("group", "describe", "readers", "--json").json
    assert (as_json["state"], as_json["members"], as_json["partitions"][0]["member_id"]) == ("Empty", [], None)


def test_removed_unread_offsets_give_a_warning(log, log_path):
    with open_embedded(log_path) as cluster:
        cluster.delete_records(TopicPartition("t", 0), 4)
    assert (
        "warning: 2 offsets of t-0 were removed before the group read them" in log("group", "describe", "readers").err
    )


def test_a_sink_group_is_explained(log):
    described = log("group", "describe", "streamlog-sink-q")
    assert described.status == 0
    assert "decisions of a Spark sink" in described.err


def test_a_group_that_committed_for_an_internal_topic_is_not_a_sink_group(log, log_path):
    # It was told that it had decisions of a Spark sink, and nothing committed.
    with open_embedded(log_path) as cluster:
        cluster.commit_offsets("auditor", {TopicPartition("__consumer_offsets", 0): GroupOffset(offset=1)})
    described = log("group", "describe", "auditor")
    assert described.out.decode().splitlines()[-1].split()[:2] == ["__consumer_offsets-0", "1"]
    assert described.err == ""


def test_control_characters_in_group_names_are_escaped_in_the_list(log, log_path):
    with open_embedded(log_path) as cluster:
        cluster.commit_offsets("a\n\x1b[2J", {TopicPartition("t", 0): GroupOffset(offset=1)})
    assert log("group", "list").lines[0] == rb"a\n\x1b[2J"
    assert log("group", "list", "--json").json[0] == "a\n\x1b[2J"


def test_a_deleted_group_is_not_listed_and_an_unknown_one_is_refused(log):
    assert log("group", "delete", "readers", "--yes").status == 0
    assert log("group", "list", "--all", "--json").json == ["streamlog-sink-q"]
    for command in ("delete", "describe"):
        refused = log("group", command, "readers")
        assert refused.status == 1
        assert "readers" in refused.err


def test_listing_without_groups_prints_one_sentence(streamlog):
    streamlog("topic", "create", "t")
    listed = streamlog("group", "list")
    assert (listed.status, listed.out, listed.err) == (0, b"", "there are no groups\n")
