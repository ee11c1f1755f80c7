import json

import pytest

from broker_core.cli.error_sentence import UsageError
from broker_core.cli.reassignment_file import read_reassignments
from broker_core.model.identifiers import TopicPartition

GOOD = {"topic": "t", "partition": 0, "replicas": [1, 2]}


@pytest.fixture
def read(tmp_path):
    def call(content):
        path = tmp_path / "moves.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return read_reassignments(path)

    return call


def test_partitions_have_the_replicas_of_the_file(read):
    other = {"topic": "t", "partition": 1, "replicas": [2], "log_dirs": ["any"]}
    assert read({"version": 1, "partitions": [GOOD, other]}) == {
        TopicPartition("t", 0): (1, 2),
        TopicPartition("t", 1): (2,),
    }


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "is not JSON: Expecting property name"),
        ([], 'has no list "partitions"'),
        ({"partitions": {}}, 'has no list "partitions"'),
        ({"partitions": []}, "names no partition"),
        ({"version": 2, "partitions": [GOOD]}, "has version 2; supported is 1"),
        ({"partitions": ["t-0"]}, r"partitions\[0\] is not an object"),
        ({"partitions": [GOOD, GOOD]}, r"partitions\[1\]: t-0 is there twice"),
        ({"partitions": [{**GOOD, "topic": 7}]}, r'partitions\[0\]: "topic" is not a name'),
        ({"partitions": [{**GOOD, "partition": "0"}]}, r'partitions\[0\]: "partition" is not a number'),
        ({"partitions": [{**GOOD, "partition": True}]}, r'partitions\[0\]: "partition" is not a number'),
        ({"partitions": [{**GOOD, "replicas": 1}]}, '"replicas" is not a list of broker ids'),
        ({"partitions": [{**GOOD, "replicas": [-1]}]}, '"replicas" is not a list of broker ids'),
        ({"partitions": [{**GOOD, "replicas": []}]}, r"partitions\[0\]: no replicas are given"),
        ({"partitions": [{**GOOD, "replicas": [1, 1]}]}, r"partitions\[0\]: broker 1 is there twice"),
        ({"partitions": [{**GOOD, "log_dirs": ["/data", "any"]}]}, '"log_dirs" may only say "any"'),
        ({"partitions": [{**GOOD, "replica": [1]}]}, "has unknown fields: replica"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(read, content, reason):
    with pytest.raises(UsageError, match=reason):
        read(content)
