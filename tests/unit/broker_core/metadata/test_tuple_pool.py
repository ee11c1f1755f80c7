import pytest

from broker_core.metadata.tuple_pool import TuplePool


def test_equal_tuples_are_kept_once_until_their_last_user_is_gone():
    pool = TuplePool()
    first, second = pool.acquire((1, 2, 3)), pool.acquire((1, 2, 3))
    assert first == second
    assert (pool[first], len(pool)) == ((1, 2, 3), 2)
    pool.release(first)
    assert pool[second] == (1, 2, 3)
    pool.release(second)
    assert len(pool) == 1


def test_the_number_of_a_dropped_tuple_is_given_again():
    pool = TuplePool()
    number = pool.acquire((1,))
    pool.release(number)
    assert pool.acquire((2,)) == number
    assert pool[number] == (2,)


def test_the_empty_tuple_is_there_for_ever():
    pool = TuplePool()
    assert pool.acquire(()) == 0
    pool.release(0)
    assert pool[0] == ()
    assert pool.acquire((5,)) != 0


def test_releasing_more_often_than_acquiring_is_an_error_of_the_caller():
    pool = TuplePool()
    number = pool.acquire((1,))
    pool.release(number)
    with pytest.raises(AssertionError, match="released more often"):
        pool.release(number)
