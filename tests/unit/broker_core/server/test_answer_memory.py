from broker_core.server.answer_memory import AnswerMemory


def test_waiting_requests_are_notified_in_order_while_memory_is_free():
    memory = AnswerMemory(100)
    told = []
    memory.change(100)
    assert memory.is_full
    memory.wait(lambda: told.append("first"))
    memory.wait(lambda: (told.append("second"), memory.change(100)))
    memory.wait(lambda: told.append("third"))
    memory.change(-1)
    assert told == ["first", "second"]
    memory.change(-100)
    assert told == ["first", "second", "third"]


def test_a_removed_request_is_not_notified():
    memory = AnswerMemory(1)
    memory.change(1)
    told = []

    def gone():
        told.append("gone")

    memory.wait(gone)
    memory.wait(lambda: told.append("there"))
    memory.forget(gone)
    memory.forget(gone)
    memory.change(-1)
    assert told == ["there"]


def test_a_full_node_has_no_free_memory():
    is_full = True
    memory = AnswerMemory(100, is_node_full=lambda: is_full)
    told = []
    memory.wait(lambda: told.append(1))
    memory.look()
    assert not told
    is_full = False
    memory.look()
    assert told == [1]


def test_the_memory_reports_the_free_bytes():
    memory = AnswerMemory(100)
    memory.change(30)
    assert memory.room_bytes == 70
    memory.change(100)
    assert memory.room_bytes == 0
