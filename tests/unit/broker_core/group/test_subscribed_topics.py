import io
import struct

import pytest
from kio.schema.consumer_protocol_subscription.v0.data import ConsumerProtocolSubscription
from kio.serial import entity_writer

from broker_core.group.subscribed_topics import subscribed_topics


def kios_subscription(*topics):

    buffer = io.BytesIO()
    entity_writer(ConsumerProtocolSubscription)(buffer, ConsumerProtocolSubscription(topics=topics, user_data=None))
    return b"\0\0" + buffer.getvalue()


@pytest.mark.parametrize("topics", [(), ("t",), ("orders", "größen", "t")])
def test_the_topics_of_a_subscription_are_decoded(topics):
    assert subscribed_topics(kios_subscription(*topics)) == frozenset(topics)


def test_a_later_version_is_read_by_its_known_fields():
    content = kios_subscription("t")
    assert subscribed_topics(struct.pack(">h", 3) + content[2:] + b"owned partitions, generation, rack") == {"t"}


@pytest.mark.parametrize(
    "content",
    [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0", b"\0\0\x7f\xff\xff\xff\0\1t", b"\0\0\0\0\0\1\0\1\xff", b"json {}"],
    ids=["empty", "torn version", "negative version", "torn count", "huge count", "not UTF-8", "something else"],
)
def test_invalid_subscription_bytes_have_no_topics(content):
    assert subscribed_topics(content) is None
