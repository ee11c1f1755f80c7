from uuid import UUID

import pytest

from broker_core.cluster import TopicDescription
from broker_core.log_directory.topic_catalog import is_same_topic, topic_of
from broker_core.model.exceptions import UnknownPartitionError, UnknownTopicError
from broker_core.model.identifiers import TopicPartition


class ListCatalog:
    """A catalog whose refreshes bring one state after the other."""

    def __init__(self, *states):
        self._states = [dict(state) for state in states]

    def refresh(self, *, is_thorough=False):
        if len(self._states) > 1:
            self._states.pop(0)

    def topic(self, name):
        return self._states[0].get(name)

    def topics(self):
        return self._states[0]

    def close(self):
        pass


def a_topic(topic_id=1, partition_count=2):
    return TopicDescription(name="t", topic_id=UUID(int=topic_id), partition_count=partition_count)


def test_a_known_partition_needs_no_refresh():
    assert topic_of(ListCatalog({"t": a_topic()}, {}), TopicPartition("t", 1)) == a_topic()


def test_a_topic_just_created_by_another_process_is_found():
    assert topic_of(ListCatalog({}, {"t": a_topic()}), TopicPartition("t", 0)) == a_topic()


def test_a_partition_just_added_by_another_process_is_found():
    catalog = ListCatalog({"t": a_topic()}, {"t": a_topic(partition_count=3)})
    assert topic_of(catalog, TopicPartition("t", 2)).partition_count == 3


def test_an_unknown_topic_is_refused():
    with pytest.raises(UnknownTopicError, match=r"Topic 't' does not exist\."):
        topic_of(ListCatalog({}), TopicPartition("t", 0))


@pytest.mark.parametrize("number", [-1, 2])
def test_an_unknown_partition_is_refused_with_the_existing_ones(number):
    with pytest.raises(UnknownPartitionError, match=rf"Topic 't' has partitions 0 to 1, not {number}\."):
        topic_of(ListCatalog({"t": a_topic()}), TopicPartition("t", number))


def test_a_recreated_topic_is_another_topic():
    assert is_same_topic(ListCatalog({"t": a_topic()}), a_topic())
    assert is_same_topic(ListCatalog({}, {"t": a_topic(partition_count=9)}), a_topic())
    assert not is_same_topic(ListCatalog({"t": a_topic()}, {"t": a_topic(2)}), a_topic())
    assert not is_same_topic(ListCatalog({"t": a_topic()}, {}), a_topic())
