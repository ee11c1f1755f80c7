import threading
from uuid import UUID

import pytest

from broker_core.cluster import TopicDescription
from broker_core.log_directory.open_partitions import OpenPartitions
from broker_core.model.exceptions import CorruptBatchError, UnknownPartitionError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_defaults import KAFKAS_DEFAULTS, TopicDefaults


def a_topic(topic_id=1, **configs):
    return TopicDescription(name="t", topic_id=UUID(int=topic_id), partition_count=9, configs=configs)


class Shelf:
    """Opens numbered things and remembers which were closed."""

    def __init__(self, max_count=2):
        self.opened, self.closed = [], []
        self.defaults = KAFKAS_DEFAULTS
        self.partitions = OpenPartitions(
            open_partition=self._open,
            close_partition=self.closed.append,
            max_count=max_count,
            defaults_now=lambda: self.defaults,
        )

    def _open(self, partition, topic):
        self.opened.append(partition.partition)
        return len(self.opened)

    def use(self, number=0, topic=None):
        return self.partitions.use(TopicPartition("t", number), topic or a_topic())


def test_a_partition_is_opened_once():
    shelf = Shelf()
    for _ in range(3):
        with shelf.use() as opened:
            assert opened == 1
    assert (shelf.opened, shelf.closed) == ([0], [])


def test_the_least_recently_used_partition_is_closed_first():
    shelf = Shelf(max_count=2)
    for number in (0, 1, 0, 2):
        with shelf.use(number):
            pass
    assert len(shelf.partitions) == 2
    assert shelf.closed == [2]  # the second that was opened: partition 1


def test_a_partition_in_use_is_not_closed():
    shelf = Shelf(max_count=1)
    with shelf.use(0), shelf.use(1), shelf.use(2):
        assert shelf.closed == []
        assert len(shelf.partitions) == 3
    with shelf.use(3):
        pass
    assert shelf.closed == [1, 2, 3]
    assert len(shelf.partitions) == 1


@pytest.mark.parametrize("other", [a_topic(2), a_topic(**{"retention.ms": "1"})])
def test_a_recreated_or_reconfigured_topic_is_reopened(other):
    shelf = Shelf()
    with shelf.use():
        pass
    with shelf.use(topic=other) as opened:
        assert opened == 2
    assert shelf.closed == [1]


def test_an_error_of_the_caller_keeps_the_partition_open():
    shelf = Shelf()
    with pytest.raises(UnknownPartitionError), shelf.use():
        raise UnknownPartitionError("no")
    with shelf.use() as opened:
        assert opened == 1


@pytest.mark.parametrize("error", [OSError("disk"), CorruptBatchError("bits"), KeyboardInterrupt()])
def test_a_partition_is_reopened_after_an_error(error):
    shelf = Shelf()
    with pytest.raises(type(error)), shelf.use():
        raise error
    with shelf.use() as opened:
        assert opened == 2


def test_one_thread_at_a_time_uses_a_partition():
    shelf = Shelf(max_count=1)
    inside, most = [0], [0]

    def work(number):
        for turn in range(100):
            with shelf.use((number + turn) % 3 if number else 0) as opened:
                assert opened not in shelf.closed
                if number == 0:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                    inside[0] -= 1

    threads = [threading.Thread(target=work, args=(number,)) for number in (0, 0, 1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 1
    shelf.partitions.close()
    assert sorted(shelf.closed) == list(range(1, len(shelf.opened) + 1))
    assert len(shelf.partitions) == 0


def test_open_partitions_of_a_deleted_topic_are_closed():
    shelf = Shelf(max_count=9)
    for number in (0, 1):
        with shelf.use(number):
            pass
    shelf.partitions.drop_topic("another")
    assert shelf.closed == []
    shelf.partitions.drop_topic("t")
    assert (shelf.closed, len(shelf.partitions)) == ([1, 2], 0)


def test_an_unused_open_partition_can_be_taken_and_others_wait_for_its_return():
    shelf = Shelf()
    with shelf.use():
        pass
    taken = shelf.partitions.maybe_take(TopicPartition("t", 0), a_topic())
    assert taken.opened == 1
    used = []

    def use():
        with shelf.use() as opened:
            used.append(opened)

    user = threading.Thread(target=use)
    user.start()
    user.join(0.05)
    assert used == []
    # By another thread than the one that took it.
    giver = threading.Thread(target=taken.give_back)
    giver.start()
    for thread in (giver, user):
        thread.join()
    assert used == [1]
    assert (shelf.opened, shelf.closed) == ([0], [])


def test_only_an_open_and_unused_partition_can_be_taken():
    shelf = Shelf()
    partition = TopicPartition("t", 0)
    assert shelf.partitions.maybe_take(partition, a_topic()) is None
    assert shelf.opened == []
    with shelf.use():
        assert shelf.partitions.maybe_take(partition, a_topic()) is None
    taken = shelf.partitions.maybe_take(partition, a_topic())
    assert shelf.partitions.maybe_take(partition, a_topic()) is None
    taken.give_back()
    shelf.partitions.maybe_take(partition, a_topic()).give_back()
    with pytest.raises(OSError, match="disk"), shelf.use():
        raise OSError("disk")
    assert shelf.partitions.maybe_take(partition, a_topic()) is None


@pytest.mark.parametrize("other", [a_topic(2), a_topic(**{"retention.ms": "1"})])
def test_a_partition_of_a_recreated_or_reconfigured_topic_is_neither_taken_nor_closed(other):
    shelf = Shelf()
    with shelf.use():
        pass
    assert shelf.partitions.maybe_take(TopicPartition("t", 0), other) is None
    assert shelf.closed == []
    with shelf.use(topic=other) as opened:
        assert opened == 2
    shelf.partitions.maybe_take(TopicPartition("t", 0), other).give_back()


def test_a_taken_partition_is_not_closed_before_its_return():
    shelf = Shelf(max_count=1)
    with shelf.use(0):
        pass
    taken = shelf.partitions.maybe_take(TopicPartition("t", 0), a_topic())
    with shelf.use(1), shelf.use(2):
        pass
    assert shelf.closed == []
    dropper = threading.Thread(target=shelf.partitions.drop_topic, args=("t",))
    dropper.start()
    dropper.join(0.05)
    assert 1 not in shelf.closed
    assert shelf.partitions.maybe_take(TopicPartition("t", 0), a_topic()) is None
    taken.give_back()
    dropper.join()
    assert sorted(shelf.closed) == [1, 2, 3]


def test_a_taken_partition_is_the_most_recently_used():
    shelf = Shelf(max_count=2)
    for number in (0, 1):
        with shelf.use(number):
            pass
    shelf.partitions.maybe_take(TopicPartition("t", 0), a_topic()).give_back()
    with shelf.use(2):
        pass
    assert shelf.closed == [2]  # the second that was opened: partition 1


def test_a_waiting_thread_is_not_starved_by_repeated_takes():
    shelf = Shelf()
    partition, topic = TopicPartition("t", 0), a_topic()
    with shelf.use():
        pass
    taken = shelf.partitions.maybe_take(partition, topic)
    has_got_it, may_end = threading.Event(), threading.Event()

    def wait_for_it():
        with shelf.use():
            has_got_it.set()
            may_end.wait()

    waiting = threading.Thread(target=wait_for_it)
    waiting.start()
    entry = shelf.partitions._entries[partition]
    while not entry.waiting_count:
        waiting.join(0.001)
    taken.give_back()
    assert shelf.partitions.maybe_take(partition, topic) is None
    has_got_it.wait()
    assert shelf.partitions.maybe_take(partition, topic) is None
    may_end.set()
    waiting.join()
    shelf.partitions.maybe_take(partition, topic).give_back()


def test_changed_topic_defaults_reopen_a_partition():
    shelf = Shelf()
    with shelf.use() as first:
        pass
    taken = shelf.partitions.maybe_take(TopicPartition("t", 0), a_topic())
    taken.give_back()
    shelf.defaults = TopicDefaults(configs={"retention.ms": "7"})
    assert shelf.partitions.maybe_take(TopicPartition("t", 0), a_topic()) is None
    with shelf.use() as second:
        assert (first, second, shelf.closed) == (1, 2, [1])
    assert shelf.partitions.maybe_take(TopicPartition("t", 0), a_topic()) is not None
