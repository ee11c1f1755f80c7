from broker_core.broker.coordination.coordinator_appends import CoordinatorAppends
from broker_core.broker.coordination.held_answer import HeldAnswer
from broker_core.model.identifiers import ProducerIdAndEpoch

NOBODY = ProducerIdAndEpoch(producer_id=-1, producer_epoch=-1)


class GivenAnswers(list):
    def answer(self, name):
        return HeldAnswer(deliver=lambda: self.append(name), refuse=lambda _: self.append(f"no {name}"))


def test_records_added_during_an_append_join_the_next_one_with_known_offsets():
    appends, told = CoordinatorAppends(next_offset=7), GivenAnswers()
    appends.add(bytearray(b"a"), 2, told.answer("a"), NOBODY)
    first = appends.take_next()
    appends.add(bytearray(b"b"), 1, told.answer("b"), NOBODY)
    appends.add(bytearray(b"c"), 3, told.answer("c"), NOBODY)
    assert (first.base_offset, bytes(first.batches), appends.under_way) == (7, b"a", first)
    appends.end_append()
    second = appends.take_next()
    assert (second.base_offset, bytes(second.batches), appends.next_offset) == (9, b"bc", 13)
    appends.end_append()
    assert appends.take_next() is None


def test_more_than_half_a_mebibyte_starts_another_append():
    appends, told = CoordinatorAppends(next_offset=0), GivenAnswers()
    for size in (512 * 1024, 1):
        appends.add(bytearray(size), 1, told.answer(size), NOBODY)
    sizes = []
    while (append := appends.take_next()) is not None:
        sizes.append(len(append.batches))
        appends.end_append()
    assert sizes == [512 * 1024, 1]


def test_a_reply_waits_for_the_last_append_that_it_depends_on():
    appends, told = CoordinatorAppends(next_offset=0), GivenAnswers()
    appends.hold(told.answer("at once"))
    assert told == ["at once"]
    appends.add(bytearray(b"a"), 1, told.answer("a"), NOBODY)
    appends.take_next()
    appends.hold(told.answer("behind a"))
    appends.add(bytearray(b"b"), 1, told.answer("b"), NOBODY)
    appends.hold(told.answer("behind b"))
    assert told == ["at once"]
    assert len(appends.under_way.held) == 2
    for held in appends.all_held():
        held.deliver()
    assert told[1:] == ["a", "behind a", "b", "behind b"]


def test_a_producers_epoch_is_kept_until_its_records_are_durable():
    appends, told = CoordinatorAppends(next_offset=0), GivenAnswers()
    appends.add(bytearray(b"a"), 1, told.answer("a"), ProducerIdAndEpoch(producer_id=5, producer_epoch=3))
    appends.take_next()
    appends.add(bytearray(b"b"), 1, told.answer("b"), NOBODY)
    appends.end_append()
    assert (appends.epoch_of(5), appends.epoch_of(6)) == (3, -1)
    appends.take_next()
    appends.end_append()
    assert appends.epoch_of(5) == -1
