import threading

from broker_core.embedded.producer_ids import ProducerIds
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
