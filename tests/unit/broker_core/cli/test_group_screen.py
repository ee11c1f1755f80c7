"""A group as a table, over the in-memory twin of a cluster; members are made up here."""

from dataclasses import replace

import pytest
from support.brokers.in_memory_cluster import InMemoryCluster

from broker_core.cli.group_screen import group_json, rows_of_group, show_group
from broker_core.cli.printable import printable
from broker_core.cluster import GroupDescription, GroupMember, GroupOffset
from broker_core.group_lag import PartitionLag
from broker_core.model.exceptions import InvalidTopicNameError
from broker_core.model.group_state import GroupState
from broker_core.model.identifiers import TopicPartition

T0, T1, T2, GONE = (TopicPartition("t", number) for number in (0, 1, 2, 7))
READER = GroupMember(member_id="reader-1", client_id="app", host="/10.0.0.1", partitions=(T0, T1))
IDLE = GroupMember(member_id="idle-1", client_id="spare", host="/10.0.0.2")


@pytest.fixture
def cluster():
    made = InMemoryCluster()
    made.create_topic("t", partition_count=3)
    return made


def a_lag(partition, offset=2, *, commit_time_ms=-1, lost_offsets=0):
    return PartitionLag(
        partition=partition,
        committed=GroupOffset(offset=offset, commit_time_ms=commit_time_ms),
        log_start_offset=0,
        log_end_offset=5,
        behind_offsets=3,
        behind_bytes=90,
        behind_ms=1500,
        lost_offsets=lost_offsets,
    )


def a_group(*members, state=GroupState.STABLE):
    return GroupDescription(group_id="g", state=state, assignor="range", members=members)


def shown(capsys, cluster, group, *lags):
    show_group(group, rows_of_group(cluster, group, lags))
    captured = capsys.readouterr()
    return [line.split() for line in captured.out.splitlines() if line], captured.err


def test_every_partition_is_shown_with_its_member(capsys, cluster):
    [headline, *_, first, second], said = shown(capsys, cluster, a_group(READER), a_lag(T0), a_lag(T1, offset=5))
    assert " ".join(headline) == "group g: Stable, 1 member, assignor range"
    assert first == ["t-0", "2", "5", "3", "90", "1.5", "s", "reader-1", "/10.0.0.1", "app"]
    assert second[:2] == ["t-1", "5"]
    assert said == ""


def test_partitions_without_offsets_and_members_without_partitions_are_shown_and_explained(capsys, cluster):
    [_, *_, uncommitted, idle], said = shown(capsys, cluster, a_group(READER, IDLE), a_lag(T0))
    assert uncommitted == ["t-1", "-", "0", "-", "-", "-", "reader-1", "/10.0.0.1", "app"]
    assert idle == ["-", "-", "-", "-", "-", "-", "idle-1", "/10.0.0.2", "spare"]
    assert said == "current offset -: the group has committed no offset for this partition\n"


def test_an_unassigned_partition_is_shown_without_a_member(capsys, cluster):
    [*_, last], _ = shown(capsys, cluster, a_group(READER), a_lag(T0), a_lag(T1), a_lag(T2))
    assert last == ["t-2", "2", "5", "3", "90", "1.5", "s", "-", "-", "-"]


def test_members_with_the_same_partition_get_one_row_each(capsys, cluster):
    # The last one won, and the others were in no row.
    other = GroupMember(member_id="other-1", client_id="app", host="/10.0.0.3", partitions=(T0,))
    group = a_group(READER, other)
    [*_, first, second, third], said = shown(capsys, cluster, group, a_lag(T0, lost_offsets=2), a_lag(T1))
    assert [(row[0], row[7]) for row in (first, second, third)] == [
        ("t-0", "reader-1"),
        ("t-0", "other-1"),
        ("t-1", "reader-1"),
    ]
    assert said.count("warning") == 1
    told = group_json(group, rows_of_group(cluster, group, [a_lag(T0), a_lag(T1)]))
    assert [one["member_id"] for one in told["partitions"]] == ["reader-1", "other-1", "reader-1"]


@pytest.mark.parametrize("topic", ["a/b", "", "x" * 300, "two\nlines"])
def test_an_assignment_of_an_unknown_topic_is_a_dash_with_an_explanation(capsys, cluster, monkeypatch, topic):
    # A group's leader may write what it likes: the whole command failed.
    foreign = TopicPartition(topic, 0)
    ask = cluster.bounds

    def bounds(partition):
        if partition == foreign:
            raise InvalidTopicNameError(f"topic {topic!r}: the broker answers INVALID_TOPIC_EXCEPTION")
        return ask(partition)

    monkeypatch.setattr(cluster, "bounds", bounds)
    member = GroupMember(member_id="m", client_id="c", host="h", partitions=(foreign, T0))
    group = a_group(member)
    rows, said = shown(capsys, cluster, group, a_lag(T0))
    assert len(rows) == 6
    by_name = {row[0]: row for row in rows if row[-1] == "c"}
    assert by_name["t-0"][1] == "2"
    assert by_name[printable(f"{topic}-0")][1:3] == ["-", "-"]
    # Nor is "has committed nothing" said: it may have, and a user who may not see the topic must not learn it.
    assert said.startswith(f"current offset, log end offset - of {printable(str(foreign))}: topic")
    assert said.count("\n") == 1
    errors = [one["error"] for one in group_json(group, rows_of_group(cluster, group, [a_lag(T0)]))["partitions"]]
    assert sorted(error is None for error in errors) == [False, True]


def test_an_unknown_lag_is_a_dash_with_an_explanation(capsys, cluster):
    unread = replace(a_lag(T0), behind_bytes=None, behind_ms=None, error="you may not read")
    not_found = replace(a_lag(T1), behind_ms=None)
    [*_, first, second], said = shown(capsys, cluster, a_group(READER), unread, not_found)
    assert (first[1:6], second[1:6]) == (["2", "5", "3", "-", "-"], ["2", "5", "3", "90", "-"])
    assert said == (
        "lag - of t-0: you may not read\n"
        "lag time - of t-1: the first unread record was not found within the search limit\n"
    )


def test_client_ids_are_escaped_on_a_terminal(capsys, cluster):
    # It reached the terminal raw.
    rude = GroupMember(member_id="m\x1b[2J", client_id="two\nlines", host="\r\t\x9b1m", partitions=(T0,))
    group = replace(a_group(rude), assignor="\x1b]0;title\a")
    show_group(group, rows_of_group(cluster, group, [a_lag(T0)]))
    out = capsys.readouterr().out
    assert all(line.isprintable() for line in out.splitlines())
    for shown_text in (r"m\x1b[2J", r"two\nlines", r"\r\t\x9b1m", r"\x1b]0;title\x07"):
        assert shown_text in out


def test_columns_without_values_are_omitted(capsys, cluster):
    [_, _, heading, *_], _ = shown(capsys, cluster, a_group(state=GroupState.EMPTY), a_lag(T0))
    assert heading == ["partition", "offset", "offset", "lag", "bytes", "time"]
    at_a_directory = a_lag(T0, commit_time_ms=1_700_000_000_000)
    [_, _, heading, _, row], _ = shown(capsys, cluster, a_group(state=GroupState.EMPTY), at_a_directory)
    assert (heading[-1], row[-1]) == ("committed", "2023-11-14T22:13:20.000Z")


def test_a_deleted_partition_is_shown_with_an_explanation(capsys, cluster):
    member = GroupMember(member_id="m", client_id="c", host="h", partitions=(GONE,))
    lag = PartitionLag(partition=T0, committed=GroupOffset(offset=2))
    [*_, first, second], said = shown(capsys, cluster, a_group(member), lag)
    assert first[:3] == ["t-0", "2", "-"]
    assert second[:3] == ["t-7", "-", "-"]
    assert "log end offset -: this partition no longer exists\n" in said


def test_lost_offsets_give_a_warning(capsys, cluster):
    _, said = shown(capsys, cluster, a_group(READER), a_lag(T0, lost_offsets=2), a_lag(T1))
    assert said == "warning: 2 offsets of t-0 were removed before the group read them\n"


@pytest.mark.parametrize(
    ("state", "words"), [(GroupState.EMPTY, "group g: Empty, no members"), (GroupState.UNKNOWN, "group g: Unknown")]
)
def test_a_group_with_unknown_members_is_not_shown_as_empty(capsys, cluster, state, words):
    [headline, *_], _ = shown(capsys, cluster, a_group(state=state))
    assert " ".join(headline) == words


def test_json_has_members_and_the_owner_of_each_partition(cluster):
    group = a_group(READER, IDLE)
    told = group_json(group, rows_of_group(cluster, group, [a_lag(T0)]))
    assert (told["group"], told["state"], told["assignor"]) == ("g", "Stable", "range")
    assert [(member["member_id"], len(member["partitions"])) for member in told["members"]] == [
        ("reader-1", 2),
        ("idle-1", 0),
    ]
    assert [
        (one["partition"], one["offset"], one["log_end_offset"], one["member_id"]) for one in told["partitions"]
    ] == [
        (0, 2, 5, "reader-1"),
        (1, None, 0, "reader-1"),
    ]
