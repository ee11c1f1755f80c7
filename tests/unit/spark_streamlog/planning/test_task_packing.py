import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_streamlog.planning.task_packing import TASK_BYTES, pack, task_count


@pytest.mark.parametrize(
    ("sizes", "count", "expected"),
    [
        ([], 3, []),
        ([5, 5], 3, [[0], [1]]),
        ([0, 0, 0], 3, [[0], [1], [2]]),
        ([9000, 3000, 3000, 3000], 2, [[0], [1, 2, 3]]),
        ([3000, 9000, 3000, 3000], 2, [[0, 2, 3], [1]]),
        ([0] * 6, 2, [[0, 2, 4], [1, 3, 5]]),
        ([7], 1, [[0]]),
    ],
)
def test_small_ranges_share_tasks(sizes, count, expected):
    assert pack(sizes, count) == expected


@given(st.lists(st.integers(0, 2**40), max_size=60), st.integers(1, 20))
def test_each_range_is_in_one_task_in_order_and_tasks_are_balanced(sizes, count):
    tasks = pack(sizes, count)
    assert sorted(place for task in tasks for place in task) == list(range(len(sizes)))
    assert all(task == sorted(task) and task for task in tasks)
    assert len(tasks) == min(count, len(sizes))
    weights = [max(size, 1024) for size in sizes]
    if len(sizes) > count:
        heaviest = max(sum(weights[place] for place in task) for task in tasks)
        # Graham's bound for the lightest task first: the mean and one item more.
        assert heaviest <= sum(weights) / count + max(weights)


@pytest.mark.parametrize(
    ("total", "at_least", "expected"),
    [(0, 8, 8), (TASK_BYTES * 8, 8, 8), (TASK_BYTES * 8 + 1, 8, 9), (TASK_BYTES * 1000, 8, 1000)],
)
def test_the_task_count_follows_from_the_bytes(total, at_least, expected):
    assert task_count(total, at_least=at_least) == expected
