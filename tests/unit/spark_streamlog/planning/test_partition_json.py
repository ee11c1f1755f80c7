import pytest

from broker_core.model.identifiers import TopicPartition
from spark_streamlog.planning.partition_json import offsets_from_json, partitions_from_json, timestamps_from_json


def test_assigned_partitions_are_parsed():
    assert partitions_from_json('{"a":[0,2],"B":[1]}') == {
        TopicPartition("a", 0),
        TopicPartition("a", 2),
        TopicPartition("B", 1),
    }


def test_offsets_by_partition_and_by_topic_are_parsed():
    limit = offsets_from_json('{"a":{"0":23,"1":-1},"b":"Earliest","c":"latest"}', option="startingOffsets")
    assert limit.by_partition == {TopicPartition("a", 0): 23, TopicPartition("a", 1): -1}
    assert limit.by_topic == {"b": -2, "c": -1}


def test_timestamps_by_partition_are_parsed():
    limit = timestamps_from_json('{"a":{"0":0,"1":9223372036854775807}}', option="o")
    assert limit.by_partition == {TopicPartition("a", 0): 0, TopicPartition("a", 1): 2**63 - 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is not JSON"),
        ("{", "it is not JSON"),
        ("[1]", "it is not a JSON object"),
        ('{"a":{"0":1,"0":2}}', "'0' appears twice"),
        ('{"a":{"0":1},"a":{"1":2}}', "'a' appears twice"),
        ('{"a":{"0":1,"00":2}}', "'00' under 'a' is not a partition number"),
        ("[" * 100_000, "it is nested too deeply"),
        ('{"a":[0]}', "'a' must have an object of partitions"),
        ('{"a":{}}', "'a' must have an object of partitions"),
        ('{"a":"newest"}', "'newest', which is not earliest or latest"),
        ('{"a":{"x":1}}', "'x' under 'a' is not a partition number"),
        ('{"a":{"2147483648":1}}', "is not a partition number"),
        ('{"a":{"0":-3}}', "the offset of a-0 is -3"),
        ('{"a":{"0":true}}', "the offset of a-0 is True"),
        ('{"a":{"0":1.0}}', "the offset of a-0 is 1.0"),
        ('{"a":{"0":9223372036854775808}}', "the offset of a-0 is 9223372036854775808"),
    ],
)
def test_a_malformed_value_is_refused_with_the_wrong_part(text, said):
    with pytest.raises(ValueError) as refusal:
        offsets_from_json(text, option="startingOffsets")
    assert said in str(refusal.value)


@pytest.mark.parametrize("text", ['{"a":{"0":-1}}', '{"a":{"0":"now"}}', '{"a":"latest"}', "123"])
def test_a_malformed_timestamp_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="1700000000000"):
        timestamps_from_json(text, option="o")


@pytest.mark.parametrize("text", ["{}", '{"a":[]}', '{"a":0}', '{"a":[-1]}', '{"a":["0"]}', '{"a":[true]}'])
def test_malformed_partitions_are_refused(text):
    with pytest.raises(ValueError, match="topicA"):
        partitions_from_json(text)
