import pytest

from broker_core.model.exceptions import InvalidTopicNameError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.limits import MAX_TOPIC_NAME_CHARACTERS
from broker_core.model.topic_name import (
    deleted_folder,
    folded_name,
    is_deleted_folder,
    is_internal_topic,
    parse_partition_folder,
    partition_folder,
    stray_folder,
    validate_topic_name,
)

HEX = "0123456789abcdef" * 2


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "-", "x" * MAX_TOPIC_NAME_CHARACTERS, "__consumer_offsets"])
def test_valid_names_are_accepted(name):
    validate_topic_name(name)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("", "the empty string is not allowed"),
        (".", r"'\.' is not allowed"),
        ("..", r"'\.\.' is not allowed"),
        ("x" * (MAX_TOPIC_NAME_CHARACTERS + 1), "longer than the max allowed length 249"),
        ("a b", "other than ASCII alphanumerics"),
        ("é", "other than ASCII alphanumerics"),
        ("a/b", "other than ASCII alphanumerics"),
        ("a\n", "other than ASCII alphanumerics"),
        ("a\0", "other than ASCII alphanumerics"),
    ],
)
def test_an_invalid_name_is_refused_with_the_violated_rule(name, rule):
    with pytest.raises(InvalidTopicNameError, match=rule):
        validate_topic_name(name)


def test_names_that_differ_only_in_dots_and_underscores_collide():
    assert folded_name("a.b_c") == folded_name("a_b.c")
    assert folded_name("a.b") != folded_name("A.b")


def test_internal_topic_names_are_recognized():
    assert is_internal_topic("__consumer_offsets")
    assert is_internal_topic("__transaction_state")
    assert is_internal_topic("__cluster_metadata")
    assert not is_internal_topic("__mine")


@pytest.mark.parametrize("topic", ["t", "a-1", "a.b_c-", "x" * MAX_TOPIC_NAME_CHARACTERS])
@pytest.mark.parametrize("number", [0, 7, 2147483647])
def test_a_folder_name_identifies_its_partition(topic, number):
    partition = TopicPartition(topic, number)
    assert parse_partition_folder(partition_folder(partition)) == partition


@pytest.mark.parametrize(
    "name", ["", "t", "t-", "-0", "t-x", "t-00", "t-1x", "t 1-0", ".-0", "..-0", "meta.properties"]
)
def test_other_folder_names_are_not_partitions(name):
    assert parse_partition_folder(name) is None


@pytest.mark.parametrize("topic", ["t", "x" * MAX_TOPIC_NAME_CHARACTERS])
def test_the_folder_name_of_a_deleted_partition_has_kafkas_format_and_fits_a_file_name(topic):
    name = deleted_folder(TopicPartition(topic, 2147483647), HEX)
    assert name.endswith(f"-2147483647.{HEX}-delete")
    assert len(name) <= 255
    assert is_deleted_folder(name)
    assert parse_partition_folder(name) is None


def test_a_stray_folder_is_neither_a_partition_nor_deleted():
    name = stray_folder(TopicPartition("t", 0), HEX)
    assert name == f"t-0.{HEX}-stray"
    assert parse_partition_folder(name) is None
    assert not is_deleted_folder(name)


def test_a_deleted_folder_is_not_taken_for_a_topic():
    topic = deleted_folder(TopicPartition("t", 0), HEX)
    folder = partition_folder(TopicPartition(topic, 0))
    assert not is_deleted_folder(folder)
    assert parse_partition_folder(folder) == TopicPartition(topic, 0)
