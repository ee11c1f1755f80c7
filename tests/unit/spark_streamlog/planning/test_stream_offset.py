import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.model.identifiers import TopicPartition
from spark_streamlog.errors import ConditionError
from spark_streamlog.planning.stream_offset import from_checkpoint, to_checkpoint

partitions = st.builds(TopicPartition, st.text(min_size=1, max_size=5), st.integers(0, 20))


def test_the_json_equals_that_of_sparks_kafka_connector():
    offsets = {TopicPartition("b", 0): 7, TopicPartition("a", 10): 2, TopicPartition("a", 2): 23}
    text = json.dumps(to_checkpoint(offsets), separators=(",", ":"))
    assert text == '{"a":{"2":23,"10":2},"b":{"0":7}}'


@given(st.dictionaries(partitions, st.integers(0, 2**63 - 1)))
def test_offsets_round_trip_through_the_checkpoint(offsets):
    assert from_checkpoint(json.loads(json.dumps(to_checkpoint(offsets)))) == offsets


@given(st.dictionaries(partitions, st.integers(0, 100)), st.randoms())
def test_the_same_offsets_give_the_same_text(offsets, random):
    shuffled = list(offsets.items())
    random.shuffle(shuffled)
    assert json.dumps(to_checkpoint(offsets)) == json.dumps(to_checkpoint(dict(shuffled)))


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "not a JSON object"),
        (None, "not a JSON object"),
        ({"t": 5}, "not an object of partitions"),
        ({"t": {"x": 5}}, "'x' under 't' is not a partition number"),
        ({"t": {"-1": 5}}, "not a partition number"),
        ({"t": {"²": 5}}, "not a partition number"),
        ({"t": {"0": 1, "00": 2}}, "'00' under 't' is not a partition number"),
        ({"t": {"9" * 5000: 5}}, "not a partition number"),
        ({"t": {"2147483648": 5}}, "not a partition number"),
        ({"t": {"0": 2**63}}, "The offset of t-0 is 9223372036854775808"),
        ({"t": {"0": -1}}, "The offset of t-0 is -1"),
        ({"t": {"0": "5"}}, "The offset of t-0 is '5'"),
        ({"t": {"0": True}}, "The offset of t-0 is True"),
        ({"t": {"0": 1.5}}, "The offset of t-0 is 1.5"),
    ],
)
def test_an_offset_of_another_source_is_refused(document, said):
    with pytest.raises(ConditionError, match="STREAMLOG_INVALID_CHECKPOINT_OFFSET") as refusal:
        from_checkpoint(document)
    assert said in str(refusal.value)
