from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders.counting_entropy import CountingEntropy

from broker_core.metadata.controller import MetadataController, decode_id, encode_id, random_id
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_records import ConfigRecord, FeatureLevelRecord, PartitionRecord, TopicRecord
from broker_core.model.exceptions import (
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidRequestError,
    InvalidTopicNameError,
    StreamlogError,
    TopicExistsError,
    UnknownTopicError,
)
from broker_core.model.limits import MAX_PARTITION_COUNT

DIRECTORY_ID = UUID(int=77)


class ListedEntropy:
    def __init__(self, *answers):
        self._answers = list(answers)

    def random_bytes(self, count):
        return self._answers.pop(0)


class ControllerRunner:
    """What runs a controller: plans, then replays the plan's records."""

    def __init__(self):
        self.image = MetadataImage()
        self.controller = MetadataController(self.image, broker_id=1, directory_id=DIRECTORY_ID)
        self.entropy = CountingEntropy()
        self.log = []

    def run(self, result):
        for record in result.records:
            self.image.replay(record)
            self.log.append(record)
        return result.reply

    def create(self, name="t", partition_count=1, configs=None):
        return self.run(
            self.controller.plan_create_topic(
                name, partition_count=partition_count, configs=configs or {}, entropy=self.entropy
            )
        )

    def alter(self, name, **changes):
        changes = {setting.replace("_", "."): value for setting, value in changes.items()}
        return self.run(self.controller.plan_alter_topic_configs(name, changes))


@pytest.fixture
def runner():
    return ControllerRunner()


def test_a_plan_changes_nothing(runner):
    before = runner.image.copy()
    runner.controller.plan_create_topic("t", partition_count=1, configs={}, entropy=runner.entropy)
    runner.controller.plan_allocate_producer_ids()
    runner.controller.plan_bootstrap()
    assert runner.image == before


def test_a_new_log_begins_with_its_metadata_version_level(runner):
    result = runner.controller.plan_bootstrap()
    assert result.records == (FeatureLevelRecord(name="metadata.version", feature_level=30),)
    runner.run(result)
    assert runner.controller.plan_bootstrap().records == ()


def test_creating_a_topic_writes_kafkas_records(runner):
    topic = runner.create("t", 2, {"retention.ms": "5"})
    assert [type(record).__name__ for record in runner.log] == [
        "TopicRecord", "ConfigRecord", "PartitionRecord", "PartitionRecord",
    ]  # fmt: skip
    partition = runner.log[-1]
    assert (partition.replicas, partition.isr, partition.leader) == ((1,), (1,), 1)
    assert (partition.leader_epoch, partition.partition_epoch, partition.directories) == (0, 0, (DIRECTORY_ID,))
    assert topic == runner.image.topics["t"]
    assert topic.topic_id.version == 4


def test_an_existing_topic_cannot_be_created(runner):
    runner.create("t")
    with pytest.raises(TopicExistsError, match=r"Topic 't' already exists\."):
        runner.create("t")


def test_colliding_names_are_refused_but_not_names_that_differ_in_case(runner):
    runner.create("a.b")
    with pytest.raises(InvalidTopicNameError, match=r"Topic 'a_b' collides with existing topic: a\.b"):
        runner.create("a_b")
    runner.create("A.B")
    assert set(runner.image.topics) == {"a.b", "A.B"}


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (InvalidTopicNameError, {"name": ".."}, "is not allowed"),
        (InvalidRequestError, {"name": "__cluster_metadata"}, "internal topic __cluster_metadata is prohibited"),
        (InvalidPartitionsError, {"partition_count": 0}, "larger than 0, not 0"),
        (InvalidPartitionsError, {"partition_count": -1}, "larger than 0, not -1"),
        (InvalidPartitionsError, {"partition_count": MAX_PARTITION_COUNT + 1}, "at most 10000, not 10001"),
        (InvalidConfigError, {"configs": {"retention.ms": "-2"}}, "Invalid value -2"),
        (InvalidConfigError, {"configs": {"retention.mss": "2"}}, r"Did you mean retention\.ms"),
    ],
)
def test_invalid_creations_are_refused_with_the_reason(runner, kind, arguments, message):
    with pytest.raises(kind, match=message):
        runner.create(**arguments)
    assert not runner.log


def test_the_largest_number_of_partitions_can_be_created(runner):
    assert runner.create(partition_count=MAX_PARTITION_COUNT).partition_count == MAX_PARTITION_COUNT


def test_internal_topics_that_clients_use_can_be_created(runner):
    assert runner.create("__consumer_offsets").is_internal


def test_a_recreated_topic_gets_another_id(runner):
    first = runner.create("t")
    assert runner.run(runner.controller.plan_delete_topic("t")) == first
    assert runner.create("t").topic_id != first.topic_id
    assert runner.image.was_removed(first.topic_id)


def test_an_unknown_topic_cannot_be_changed(runner):
    for plan in (
        lambda: runner.controller.plan_delete_topic("t"),
        lambda: runner.controller.plan_create_partitions("t", 2),
        lambda: runner.controller.plan_alter_topic_configs("t", {}),
    ):
        with pytest.raises(UnknownTopicError, match=r"Topic 't' does not exist\."):
            plan()


def test_added_partitions_follow_the_existing_ones(runner):
    runner.create("t", 2)
    runner.log.clear()
    assert runner.run(runner.controller.plan_create_partitions("t", 4)).partition_count == 4
    assert [record.partition_id for record in runner.log] == [2, 3]


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (3, r"already has 3 partition\(s\)"),
        (2, r"currently has 3 partition\(s\); 2 would not be an increase"),
        (0, "larger than 0"),
        (MAX_PARTITION_COUNT + 1, "at most 10000"),
    ],
)
def test_the_partition_count_only_grows(runner, count, message):
    runner.create("t", 3)
    with pytest.raises(InvalidPartitionsError, match=message):
        runner.controller.plan_create_partitions("t", count)


def test_settings_are_set_changed_and_reset(runner):
    runner.create("t", configs={"retention.ms": "5"})
    topic = runner.alter("t", retention_ms=None, segment_ms="9")
    assert topic.configs == runner.image.topics["t"].configs == {"segment.ms": "9"}


def test_an_unchanged_setting_writes_no_record(runner):
    runner.create("t", configs={"retention.ms": "5"})
    result = runner.controller.plan_alter_topic_configs("t", {"retention.ms": "5", "segment.ms": None})
    assert result.records == ()


@pytest.mark.parametrize("value", ["1", None])
def test_an_unknown_setting_can_be_neither_set_nor_reset(runner, value):
    runner.create("t")
    with pytest.raises(InvalidConfigError, match=r"Unknown topic config name: foo\.bar"):
        runner.alter("t", foo_bar=value)


def test_a_setting_of_a_newer_version_is_kept_by_other_changes_and_can_be_reset(runner):
    runner.create("t")
    runner.image.replay(ConfigRecord(resource_type=2, resource_name="t", name="foo.bar", value="1"))
    runner.alter("t", retention_ms="5")
    assert runner.image.topics["t"].configs == {"foo.bar": "1", "retention.ms": "5"}
    with pytest.raises(InvalidConfigError, match=r"Unknown topic config name: foo\.bar"):
        runner.alter("t", foo_bar="2")
    runner.alter("t", foo_bar=None)
    assert runner.image.topics["t"].configs == {"retention.ms": "5"}


def test_a_change_is_validated_together_with_existing_settings(runner):
    runner.create("t", configs={"min.compaction.lag.ms": "10"})
    with pytest.raises(InvalidConfigError, match="conflict"):
        runner.alter("t", max_compaction_lag_ms="5")
    runner.alter("t", max_compaction_lag_ms="5", min_compaction_lag_ms=None)


def test_each_block_of_producer_ids_follows_the_previous_one(runner):
    blocks = [runner.run(runner.controller.plan_allocate_producer_ids()) for _ in range(3)]
    assert [(block.first_id, block.id_count) for block in blocks] == [(0, 1000), (1000, 1000), (2000, 1000)]


def test_an_id_never_begins_with_a_dash_in_base64():
    dash = bytes([0xF8]) + bytes(15)
    assert encode_id(UUID(bytes=dash, version=4)).startswith("-")
    good = bytes(range(16))
    assert random_id(ListedEntropy(dash, dash, good)) == UUID(bytes=good, version=4)


@given(st.uuids())
def test_ids_round_trip_through_base64(uuid):
    assert len(encode_id(uuid)) == 22
    assert decode_id(encode_id(uuid)) == uuid


@pytest.mark.parametrize("text", ["", "abc", "é" * 22, "*" * 22])
def test_an_invalid_id_is_refused(text):
    with pytest.raises(ValueError):
        decode_id(text)


names = st.sampled_from(["a", "a.b", "a_b", "A"])
steps = st.one_of(
    st.tuples(st.just("create"), names, st.integers(0, 3)),
    st.tuples(st.just("delete"), names, st.just(0)),
    st.tuples(st.just("grow"), names, st.integers(0, 5)),
    st.tuples(st.just("alter"), names, st.sampled_from(["1", "2", None, "x"])),
    st.tuples(st.just("ids"), st.just(""), st.just(0)),
)


@given(st.lists(steps, max_size=30))
def test_after_any_history_the_image_matches_a_replay_from_the_start(history):
    runner = ControllerRunner()
    for step, name, value in history:
        try:
            match step:
                case "create":
                    runner.create(name, value)
                case "delete":
                    runner.run(runner.controller.plan_delete_topic(name))
                case "grow":
                    runner.run(runner.controller.plan_create_partitions(name, value))
                case "alter":
                    runner.alter(name, retention_ms=value)
                case "ids":
                    runner.run(runner.controller.plan_allocate_producer_ids())
        except StreamlogError:
            continue
    replayed = MetadataImage()
    for record in runner.log:
        replayed.replay(record)
    assert replayed.__dict__ == runner.image.__dict__
    assert len({record.topic_id for record in runner.log if isinstance(record, TopicRecord)}) == sum(
        isinstance(record, TopicRecord) for record in runner.log
    )
    for topic in replayed.topics.values():
        made = {r.partition_id for r in runner.log if isinstance(r, PartitionRecord) and r.topic_id == topic.topic_id}
        assert made == set(range(topic.partition_count))
