import threading

import pytest

from broker_core.log_directory.producer_ids import NoIdHeldError, ProducerIds
from broker_core.metadata.controller import ProducerIdBlock


def blocks_of(count, *first_ids):
    taken = iter(first_ids)
    return lambda: ProducerIdBlock(first_id=next(taken), id_count=count)


def test_ids_come_from_one_block_until_it_is_used_up():
    ids = ProducerIds(blocks_of(3, 0, 30))
    assert [ids.next_id() for _ in range(5)] == [0, 1, 2, 30, 31]


def test_threads_never_get_the_same_id():
    ids = ProducerIds(blocks_of(7, *range(0, 7000, 7)))
    taken = []
    threads = [threading.Thread(target=lambda: taken.extend(ids.next_id() for _ in range(200))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == len(set(taken)) == 800


def test_without_waiting_an_empty_pool_asks_for_a_block():
    ids = ProducerIds(blocks_of(2, 0, 10))
    with pytest.raises(NoIdHeldError):
        ids.held_id()
    ids.fetch()
    ids.fetch()
    assert [ids.held_id(), ids.held_id()] == [0, 1]
    with pytest.raises(NoIdHeldError):
        ids.held_id()


def test_a_thread_that_waits_for_a_block_does_not_block_others():
    asked, go_on = threading.Event(), threading.Event()

    def take_block():
        asked.set()
        assert go_on.wait(10)
        return ProducerIdBlock(first_id=5, id_count=1)

    ids = ProducerIds(take_block)
    waiting = threading.Thread(target=ids.fetch)
    waiting.start()
    assert asked.wait(10)
    with pytest.raises(NoIdHeldError):
        ids.held_id()
    go_on.set()
    waiting.join()
    assert ids.held_id() == 5
