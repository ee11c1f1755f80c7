from broker_core.server.answer_memory import AnswerMemory


def test_those_who_wait_are_told_in_their_order_while_there_is_room():
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


def test_who_is_gone_is_not_told():
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


def test_a_full_node_counts_as_no_room():
    is_full = True
    memory = AnswerMemory(100, is_node_full=lambda: is_full)
    told = []
    memory.wait(lambda: told.append(1))
    memory.look()
    assert not told
    is_full = False
    memory.look()
    assert told == [1]


def test_it_says_how_much_answers_may_still_take():
    memory = AnswerMemory(100)
    memory.change(30)
    assert memory.room_bytes == 70
    memory.change(100)
    assert memory.room_bytes == 0
