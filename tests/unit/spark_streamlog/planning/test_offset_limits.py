import pytest

from broker_core.model.identifiers import TopicPartition
from spark_streamlog.errors import ConditionError
from spark_streamlog.planning.offset_limits import (
    EARLIEST,
    LATEST,
    BeforeEnd,
    BeforeNow,
    CommittedByGroup,
    Earliest,
    GlobalTimestamp,
    Latest,
    TimestampsByPartition,
    check_start_against_end,
    moves_with_time,
    places_of,
    resolve_committed,
    resolve_counts_below_end,
    resolve_timestamps,
)
from spark_streamlog.planning.partition_json import offsets_from_json, timestamps_from_json

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def offsets(text):
    return offsets_from_json(text, option="startingOffsets")


def timestamps(text):
    return timestamps_from_json(text, option="startingOffsetsByTimestamp")


def places(limit, *assigned, is_start=True):
    return places_of(limit, set(assigned), is_start=is_start, now_ms=1_000_000)


def test_earliest_and_latest_apply_to_every_partition():
    assert places(Earliest(), A0, B0).offsets == {A0: EARLIEST, B0: EARLIEST}
    assert places(Latest(), A0, B0).offsets == {A0: LATEST, B0: LATEST}


def test_one_timestamp_applies_to_every_partition():
    found = places(GlobalTimestamp(option="startingTimestamp", timestamp_ms=5), A0, B0)
    assert (found.offsets, found.timestamps) == ({}, {A0: 5, B0: 5})


def test_offsets_by_partition_and_by_topic_can_be_combined():
    assert places(offsets('{"a":{"0":3,"1":-2},"b":"latest"}'), A0, A1, B0).offsets == {A0: 3, A1: EARLIEST, B0: LATEST}


@pytest.mark.parametrize(
    "text",
    ['{"a":{"0":3}}', '{"a":{"0":3,"1":3,"2":3}}', '{"b":"latest"}', '{"a":"latest","c":"latest"}', "{}"],
)
def test_offsets_must_name_exactly_the_assigned_partitions(text):
    with pytest.raises(ConditionError, match="KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED") as refusal:
        places(offsets(text), A0, A1)
    assert "Assigned: a-0, a-1" in str(refusal.value)


def test_a_mismatch_of_the_end_has_its_own_condition():
    with pytest.raises(ConditionError, match="KAFKA_END_OFFSET_DOES_NOT_MATCH_ASSIGNED"):
        places(offsets('{"a":{"0":3}}'), A0, A1, is_start=False)


def test_timestamps_must_name_exactly_the_assigned_partitions():
    assert places(timestamps('{"a":{"0":3,"1":4}}'), A0, A1).timestamps == {A0: 3, A1: 4}
    with pytest.raises(ConditionError, match="KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED") as refusal:
        places(timestamps('{"a":{"0":3}}'), A0, A1)
    assert "the start of the range" in str(refusal.value)


def test_a_timestamp_without_a_record_is_an_error_or_the_end():
    limit = TimestampsByPartition(option="startingOffsetsByTimestamp", by_partition={A0: 10, A1: 20})
    found = {A0: 7, A1: None}
    assert resolve_timestamps(limit, limit.by_partition, found, latest_if_none=True) == {A0: 7, A1: LATEST}
    with pytest.raises(ConditionError, match="STREAMLOG_NO_OFFSET_FOR_TIMESTAMP") as refusal:
        resolve_timestamps(limit, limit.by_partition, found, latest_if_none=False)
    assert "No record of a-1 has a timestamp at or after 20" in str(refusal.value)


@pytest.mark.parametrize(
    ("start", "end", "condition"),
    [
        ('{"a":{"0":3}}', '{"a":{"1":3}}', "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET"),
        ('{"a":{"0":3}}', '{"a":{"0":2}}', "UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET"),
    ],
)
def test_a_start_above_its_end_is_refused_before_any_request(start, end, condition):
    with pytest.raises(ConditionError, match=condition):
        check_start_against_end(offsets(start), offsets(end))


def test_timestamps_in_the_wrong_order_are_refused():
    with pytest.raises(ConditionError, match="UNRESOLVED_START_TIMESTAMP_GREATER_THAN_END_TIMESTAMP"):
        check_start_against_end(timestamps('{"a":{"0":3}}'), timestamps('{"a":{"0":2}}'))


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (Earliest(), Latest()),
        (offsets('{"a":{"0":3}}'), offsets('{"a":{"0":-1}}')),
        (offsets('{"a":{"0":-2}}'), offsets('{"a":{"0":0}}')),
        (offsets('{"a":{"0":3}}'), offsets('{"a":{"0":3}}')),
        (offsets('{"a":"earliest"}'), offsets('{"b":{"0":3}}')),
        (timestamps('{"a":{"0":3}}'), offsets('{"b":{"0":2}}')),
    ],
)
def test_limits_that_only_the_log_can_compare_are_accepted(start, end):
    check_start_against_end(start, end)


# -- relative starts --


def test_a_start_before_now_is_one_timestamp_and_never_before_1970():
    assert places(BeforeNow(duration_ms=600), A0, B0).timestamps == {A0: 999_400, B0: 999_400}
    assert places(BeforeNow(duration_ms=2_000_000), A0).timestamps == {A0: 0}


def test_a_start_before_now_without_newer_records_is_the_end():
    found = resolve_timestamps(BeforeNow(duration_ms=600), {A0: 400, A1: 400}, {A0: 7, A1: None}, latest_if_none=False)
    assert found == {A0: 7, A1: LATEST}


def test_a_start_before_the_end_is_a_count_per_partition():
    assert places(BeforeEnd(offset_count=1000), A0, B0).counts_below_end == {A0: 1000, B0: 1000}


@pytest.mark.parametrize(
    ("count", "log_start", "log_end", "offset"),
    [(1000, 0, 5000, 4000), (1000, 0, 1000, 0), (1000, 0, 999, 0), (1000, 300, 999, 300), (1, 5, 5, 5),
     (2**63 - 1, 0, 2**63 - 1, 0)],
)  # fmt: skip
def test_a_count_before_the_end_stays_within_the_log(count, log_start, log_end, offset):
    assert resolve_counts_below_end({A0: count}, {A0: log_start}, {A0: log_end}) == {A0: offset}


def test_a_start_at_a_group_names_the_group():
    found = places(CommittedByGroup(group_id="g"), A0, B0)
    assert (found.group_id, found.offsets, found.timestamps) == ("g", {}, {})
    assert places(Latest(), A0).group_id is None


def test_a_partition_that_the_group_has_no_offset_for_starts_at_earliest():
    committed = {A0: 5, TopicPartition("other", 0): 9}
    assert resolve_committed("g", [A0, A1], committed, is_group_known=True) == {A0: 5, A1: EARLIEST}


@pytest.mark.parametrize(
    ("assigned", "committed", "is_group_known"),
    [([A0], {}, False), ([A0, A1], {B0: 5}, True), ([], {}, False)],
)
def test_a_group_without_committed_offsets_is_refused_by_name(assigned, committed, is_group_known):
    with pytest.raises(ConditionError, match=r"STREAMLOG_GROUP_WITHOUT_OFFSETS.*group:billing"):
        resolve_committed("billing", assigned, committed, is_group_known=is_group_known)


def test_a_known_group_is_accepted_before_a_pattern_finds_its_first_topic():
    assert resolve_committed("g", [], {}, is_group_known=True) == {}


@pytest.mark.parametrize(
    ("limit", "moves"),
    [
        (Earliest(), False), (Latest(), True), (BeforeNow(duration_ms=1), True), (BeforeEnd(offset_count=1), True),
        (CommittedByGroup(group_id="g"), True), (GlobalTimestamp(option="startingTimestamp", timestamp_ms=1), False),
        (offsets('{"a":{"0":3}}'), False), (timestamps('{"a":{"0":3}}'), False),
    ],
)  # fmt: skip
def test_limits_relative_to_now_or_the_end_move_with_time(limit, moves):
    assert moves_with_time(limit) is moves
