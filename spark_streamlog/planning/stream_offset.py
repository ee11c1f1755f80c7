"""The offset that Spark stores in a checkpoint: `{"topic":{"0":23,"1":7}}`, per partition the next offset to read.

It is the Kafka connector's own form, so a checkpoint can move between the two sources. Topics and partition numbers are
written in order: Spark compares offsets as text, and the same offsets must give the same text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from broker_core.model.identifiers import TopicPartition
from spark_streamlog.errors import condition_error
from spark_streamlog.planning.partition_json import MAX_OFFSET, MAX_PARTITION, number_of_name

StreamOffset = dict[TopicPartition, int]


def to_checkpoint(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """The offset that a stream reader returns to Spark, which writes it as JSON."""
    document: dict[str, dict[str, int]] = {}
    for tp in sorted(offsets):
        document.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return document


def from_checkpoint(document: Any) -> StreamOffset:
    """The reverse. Raises STREAMLOG_INVALID_CHECKPOINT_OFFSET for other JSON, or if an offset does not fit 64 bits."""
    if not isinstance(document, dict):
        raise _invalid(document, "It is not a JSON object.")
    offsets: StreamOffset = {}
    for topic, partitions in document.items():
        if not isinstance(partitions, dict):
            raise _invalid(document, f"The value of {topic!r} is not an object of partitions.")
        for number, offset in partitions.items():
            partition = number_of_name(number)
            if not isinstance(partition, int) or partition > MAX_PARTITION:
                raise _invalid(document, f"{number!r} under {topic!r} is not a partition number.")
            if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset <= MAX_OFFSET:
                raise _invalid(document, f"The offset of {topic}-{number} is {offset!r}.")
            offsets[TopicPartition(topic, partition)] = offset
    return offsets


def _invalid(document: Any, reason: str) -> Exception:
    return condition_error("STREAMLOG_INVALID_CHECKPOINT_OFFSET", json=json.dumps(document), reason=reason)
