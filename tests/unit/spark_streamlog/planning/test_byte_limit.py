import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.model.identifiers import TopicPartition
from spark_streamlog.planning.byte_limit import limit_bytes


class BatchesOfBytes:
    """Per partition the weights of its batches; each batch has ten offsets."""

    def __init__(self, *weights):
        self.weights = {TopicPartition("t", number): list(batches) for number, batches in enumerate(weights)}

    @property
    def ends(self):
        return {tp: 10 * len(batches) for tp, batches in self.weights.items()}

    def bytes_between(self, partition, from_offset, until_offset):
        return sum(self.weights[partition][from_offset // 10 : -(-until_offset // 10)])

    def find_offset_within_bytes(self, partition, from_offset, until_offset, max_bytes):
        end = from_offset
        while end < until_offset:
            following = min(end // 10 * 10 + 10, until_offset)
            if end > from_offset and self.bytes_between(partition, from_offset, following) > max_bytes:
                break
            end = following
        return end

    def next_batch_bytes(self, partition, offset):
        return self.weights[partition][offset // 10]


def batches_taken(log, max_bytes, begin, overdue=()):
    """(per partition the count of batches taken, what the next call gets)."""
    shares = limit_bytes(max_bytes, begin, log.ends, log, overdue)
    return [(shares.ends[tp] - begin[tp]) // 10 for tp in sorted(begin)], shares


def at_zero(log):
    return dict.fromkeys(log.ends, 0)


@pytest.mark.parametrize(
    ("max_bytes", "weights", "expected"),
    [
        (1000, [[100] * 5], [5]),
        (500, [[100] * 5], [5]),
        (499, [[100] * 5], [4]),
        (100, [[100] * 5], [1]),
        (99, [[100] * 5], [1]),
        (1, [[100] * 5, [100] * 5], [1, 0]),
        (2**63 - 1, [[100] * 5, [7]], [5, 1]),
        (400, [[100] * 6, [100] * 2], [3, 1]),
        (400, [[100] * 9, [100]], [3, 1]),
        (1000, [[900] * 10, [90] * 10], [1, 1]),
        (500, [[1] * 10, [600]], [10, 0]),
        (500, [[300, 300], [300, 300]], [1, 0]),
        (900, [[300, 300], [300, 300], [300, 300]], [1, 1, 1]),
        (700, [[300] * 4, [100] * 4], [2, 1]),
        (250, [[], [100] * 4], [0, 2]),
        (100, [[100] * 4, [0, 0]], [1, 2]),
    ],
)
def test_whole_batches_are_shared_in_proportion_to_bytes(max_bytes, weights, expected):
    log = BatchesOfBytes(*weights)
    assert batches_taken(log, max_bytes, at_zero(log))[0] == expected


def test_a_range_that_begins_inside_a_batch_counts_the_whole_batch():
    log = BatchesOfBytes([100, 100, 100])
    begin = {TopicPartition("t", 0): 15}
    assert limit_bytes(199, begin, log.ends, log).ends == {TopicPartition("t", 0): 20}
    assert limit_bytes(200, begin, log.ends, log).ends == {TopicPartition("t", 0): 30}


def test_partitions_without_a_begin_or_new_records_keep_their_latest():
    log = BatchesOfBytes([100] * 5, [100], [100])
    latest = log.ends
    begin = {TopicPartition("t", 0): 0, TopicPartition("t", 1): 50}
    assert limit_bytes(100, begin, latest, log).ends == latest | {TopicPartition("t", 0): 10}


def test_a_small_partition_beside_a_large_one_comes_first_in_the_next_batch():
    log = BatchesOfBytes([100] * 1000, [100])
    small = TopicPartition("t", 1)
    taken, shares = batches_taken(log, 1, at_zero(log))
    assert (taken, shares.overdue) == ([1, 0], (small,))
    assert batches_taken(log, 1, shares.ends, shares.overdue)[0] == [0, 1]


def test_overdue_partitions_get_half_of_the_maximum_first():
    log = BatchesOfBytes([100] * 1000, *([100] for _ in range(20)))
    small = tuple(TopicPartition("t", number) for number in range(1, 21))
    taken, shares = batches_taken(log, 1000, at_zero(log), small)
    assert taken == [5, *[1] * 5, *[0] * 15]
    assert shares.overdue == small[5:]


def test_an_overdue_partition_without_new_records_is_forgotten():
    log = BatchesOfBytes([100] * 5, [100])
    gone = TopicPartition("u", 7)
    _, shares = batches_taken(log, 100, at_zero(log), (gone,))
    assert gone not in shares.overdue


LOGS = st.lists(st.lists(st.integers(1, 1000), max_size=8), min_size=1, max_size=6)


@given(weights=LOGS, max_bytes=st.integers(1, 3000))
def test_every_batch_is_read_once_within_the_maximum_and_no_partition_starves(weights, max_bytes):
    log = BatchesOfBytes(*weights)
    begin, overdue = at_zero(log), ()
    waited = dict.fromkeys(begin, 0)
    while begin != log.ends:
        shares = limit_bytes(max_bytes, begin, log.ends, log, overdue)
        moved = {tp for tp in begin if shares.ends[tp] > begin[tp]}
        taken_bytes = sum(log.bytes_between(tp, begin[tp], shares.ends[tp]) for tp in begin)
        assert moved
        one_batch = len(moved) == 1 and sum(shares.ends[tp] - begin[tp] for tp in moved) == 10
        assert taken_bytes <= max_bytes or one_batch
        left = [tp for tp in begin if shares.ends[tp] < log.ends[tp]]
        assert all(taken_bytes + log.next_batch_bytes(tp, shares.ends[tp]) > max_bytes for tp in left)
        for tp in begin:
            waited[tp] = 0 if tp in moved or begin[tp] == log.ends[tp] else waited[tp] + 1
            assert waited[tp] < len(begin), "each trigger serves the one that waits longest"
        begin, overdue = shares.ends, shares.overdue
