"""Which partition each row goes to."""

import pyarrow as pa
import pytest

from broker_core.model.exceptions import InvalidRecordError, InvalidRequestError
from broker_core.record import active_kernel
from broker_core.record.partitioner import partition_for_key
from broker_core.record.row_partitioning import group_rows, partition_rows

KERNELS = [k for k in (active_kernel.NATIVE_KERNEL, active_kernel.PURE_KERNEL) if k is not None]


@pytest.fixture(params=KERNELS, ids=lambda kernel: kernel.KERNEL_NAME)
def kernel(request):
    return request.param


KEYS = [b"21", None, b"", b"foobar"]


def test_keys_are_hashed_and_null_keys_use_the_sticky_partition(kernel):
    found = partition_rows(4, partition_count=5, sticky=3, key=pa.array(KEYS, pa.binary()), kernel=kernel)
    assert found.to_pylist() == [
        partition_for_key(b"21", 5),
        3,
        partition_for_key(b"", 5),
        partition_for_key(b"foobar", 5),
    ]


def test_a_non_null_explicit_partition_takes_precedence(kernel):
    explicit = pa.array([0, 4, None, None], pa.int64())
    found = partition_rows(
        4, partition_count=5, sticky=3, key=pa.array(KEYS, pa.binary()), explicit=explicit, kernel=kernel
    )
    assert found.to_pylist() == [0, 4, partition_for_key(b"", 5), partition_for_key(b"foobar", 5)]


def test_without_key_and_partition_all_rows_use_the_sticky_partition(kernel):
    assert partition_rows(3, partition_count=5, sticky=2, kernel=kernel).to_pylist() == [2, 2, 2]


def test_sliced_columns_start_at_their_slice(kernel):
    keys = pa.array([b"x", *KEYS], pa.binary()).slice(1)
    explicit = pa.array([1, None, 2, None, None], pa.int32()).slice(1)
    found = partition_rows(4, partition_count=9, sticky=0, key=keys, explicit=explicit, kernel=kernel)
    assert found.to_pylist() == [
        partition_for_key(b"21", 9),
        2,
        partition_for_key(b"", 9),
        partition_for_key(b"foobar", 9),
    ]


@pytest.mark.parametrize("partition", [-1, 5, 2**31 - 1])
def test_a_partition_that_does_not_exist_is_refused(kernel, partition):
    with pytest.raises(InvalidRecordError, match=f"partition {partition} does not exist; the topic has 5"):
        partition_rows(1, partition_count=5, sticky=0, explicit=pa.array([partition], pa.int32()), kernel=kernel)


def test_a_partition_column_of_another_type_is_refused():
    with pytest.raises(InvalidRequestError, match="must be int32"):
        partition_rows(1, partition_count=5, sticky=0, explicit=pa.array(["1"]))
    with pytest.raises(InvalidRequestError, match="an invalid partition"):
        partition_rows(1, partition_count=5, sticky=0, explicit=pa.array([2**40]))


def test_grouping_keeps_the_order_of_rows(kernel):
    groups = group_rows(pa.array([9, 2, 0, 2, 2, 0], pa.int32()).slice(1), 4, kernel=kernel)
    assert [group.to_pylist() for group in groups] == [[1, 4], [], [0, 2, 3], []]


def test_zero_rows_give_empty_groups(kernel):
    assert [len(group) for group in group_rows(pa.array([], pa.int32()), 3, kernel=kernel)] == [0, 0, 0]


def test_grouping_refuses_an_unknown_partition(kernel):
    with pytest.raises(InvalidRecordError):
        group_rows(pa.array([4], pa.int32()), 4, kernel=kernel)
