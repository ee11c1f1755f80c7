"""The JSON values of options that name partitions. Every error is a ValueError that names the invalid part.

assign                      {"topicA":[0,1],"topicB":[0]}
startingOffsets             {"topicA":{"0":23,"1":-2},"topicB":"earliest"}     -2 earliest, -1 latest
startingOffsetsByTimestamp  {"topicA":{"0":1700000000000}}                     milliseconds
"""

from __future__ import annotations

import json
import re
from typing import Any

from broker_core.model.identifiers import TopicPartition
from spark_streamlog.planning.offset_limits import EARLIEST, LATEST, OffsetsByPartition, TimestampsByPartition

MAX_PARTITION = 2**31 - 1
MAX_OFFSET = 2**63 - 1
_WORDS = {"earliest": EARLIEST, "latest": LATEST}


def partitions_from_json(text: str) -> frozenset[TopicPartition]:
    example = 'expected for example {"topicA":[0,1],"topicB":[0,1]}'
    found: set[TopicPartition] = set()
    for topic, numbers in _topics(text, example).items():
        if not isinstance(numbers, list):
            raise ValueError(f"the partitions of {topic!r} must be a list, not {numbers!r}; {example}")
        found.update(TopicPartition(topic, _partition_number(topic, number, example)) for number in numbers)
    if not found:
        raise ValueError(f"it names no partition; {example}")
    return frozenset(found)


def offsets_from_json(text: str, *, option: str) -> OffsetsByPartition:
    example = (
        'expected for example {"topicA":{"0":23,"1":-1},"topicB":"earliest"}, with -2 for earliest and -1 for latest'
    )
    by_partition: dict[TopicPartition, int] = {}
    by_topic: dict[str, int] = {}
    for topic, places in _topics(text, example).items():
        if isinstance(places, str):
            if places.lower() not in _WORDS:
                raise ValueError(f"the offsets of {topic!r} are {places!r}, which is not earliest or latest; {example}")
            by_topic[topic] = _WORDS[places.lower()]
        else:
            by_partition |= _numbers_by_partition(topic, places, "offset", EARLIEST, example)
    return OffsetsByPartition(option=option, by_partition=by_partition, by_topic=by_topic)


def timestamps_from_json(text: str, *, option: str) -> TimestampsByPartition:
    example = 'expected for example {"topicA":{"0":1700000000000,"1":1700000000000}}, in milliseconds'
    by_partition: dict[TopicPartition, int] = {}
    for topic, timestamps in _topics(text, example).items():
        by_partition |= _numbers_by_partition(topic, timestamps, "timestamp", 0, example)
    return TimestampsByPartition(option=option, by_partition=by_partition)


def _topics(text: str, example: str) -> dict[str, Any]:
    try:
        document = json.loads(text, object_pairs_hook=_no_name_twice)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error}); {example}") from None
    except RecursionError:
        raise ValueError(f"it is nested too deeply; {example}") from None
    if not isinstance(document, dict):
        raise ValueError(f"it is not a JSON object; {example}")
    return document


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} appears twice")
    return document


def _numbers_by_partition(
    topic: str, document: Any, what: str, minimum: int, example: str
) -> dict[TopicPartition, int]:
    if not isinstance(document, dict) or not document:
        raise ValueError(f"{topic!r} must have an object of partitions, not {document!r}; {example}")
    numbers: dict[TopicPartition, int] = {}
    for name, value in document.items():
        partition = _partition_number(topic, number_of_name(name), example)
        # bool is an int in Python, but true is not an offset
        if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= MAX_OFFSET:
            raise ValueError(f"the {what} of {topic}-{partition} is {value!r}; {example}")
        numbers[TopicPartition(topic, partition)] = value
    return numbers


def number_of_name(name: str) -> int | str:
    """The partition number of a JSON name. Only one spelling is valid: `00` next to `0` would name it twice."""
    return int(name) if re.fullmatch(r"0|[1-9][0-9]{0,9}", name) else name


def _partition_number(topic: str, number: Any, example: str) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= MAX_PARTITION:
        raise ValueError(f"{number!r} under {topic!r} is not a partition number; {example}")
    return number
