import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.log.leader_epochs import EpochEnd, EpochEntry, LeaderEpochs
from broker_core.model.exceptions import CorruptDataError


def epochs(*pairs: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochEntry(leader_epoch=epoch, start_offset=start) for epoch, start in pairs)


def pairs(table: LeaderEpochs) -> list[tuple[int, int]]:
    return [(entry.leader_epoch, entry.start_offset) for entry in table.entries]


def test_the_checkpoint_has_kafkas_format():
    assert epochs((0, 17)).encode() == "0\n1\n0 17\n"
    assert LeaderEpochs().encode() == "0\n0\n"
    assert pairs(LeaderEpochs.decode("0\n2\n0 0\n3 40\n")) == [(0, 0), (3, 40)]


@pytest.mark.parametrize(
    "text", ["", "0", "1\n0\n", "0\n2\n0 0\n", "0\n1\n0 x\n", "0\n1\n0 -5\n", "0\n2\n3 0\n2 9\n", "0\n2\n3 9\n4 9\n"]
)
def test_a_malformed_checkpoint_is_refused(text):
    with pytest.raises(CorruptDataError):
        LeaderEpochs.decode(text)


def test_a_new_epoch_is_recorded_once():
    table = epochs((0, 0))
    assert table.assign(2, 10)
    assert not table.assign(2, 20)
    assert pairs(table) == [(0, 0), (2, 10)]


def test_entries_that_contradict_a_new_one_are_removed():
    table = epochs((0, 0), (2, 10), (4, 30))
    assert table.assign(3, 20)
    assert pairs(table) == [(0, 0), (2, 10), (3, 20)]
    assert table.assign(5, 10)
    assert pairs(table) == [(0, 0), (5, 10)]


def test_an_offset_belongs_to_the_last_epoch_that_started_before_it():
    table = epochs((1, 5), (3, 40))
    assert [table.epoch_of(offset) for offset in (4, 5, 39, 40, 99)] == [-1, 1, 1, 3, 3]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (5, (5, 100)),  # the latest one ends at the log's end
        (3, (3, 50)),
        (4, (3, 50)),  # not known: the one below it (KIP-279)
        (2, (2, 40)),
        (1, (1, 20)),  # before the first: its start is all that can be said
        (6, (-1, -1)),
        (-1, (-1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_one_starts(asked, answer):
    table = epochs((2, 20), (3, 40), (5, 50))
    end = table.end_of(asked, log_end_offset=100)
    assert end == EpochEnd(leader_epoch=answer[0], end_offset=answer[1])


def test_truncation_from_the_end_drops_epochs_that_start_there_or_later():
    table = epochs((2, 20), (3, 40), (5, 50))
    assert not table.truncate_from_end(51)
    assert table.truncate_from_end(40)
    assert pairs(table) == [(2, 20)]


def test_truncation_from_the_start_keeps_the_epoch_of_the_new_start():
    table = epochs((2, 20), (3, 40), (5, 50))
    assert not table.truncate_from_start(10)
    assert not table.truncate_from_start(20)
    assert table.truncate_from_start(45)
    assert pairs(table) == [(3, 45), (5, 50)]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 50))))
def test_after_any_assignment_the_table_ascends_and_round_trips(assignments):
    table = LeaderEpochs()
    for epoch, start in assignments:
        table.assign(epoch, start)
    held = pairs(table)
    assert held == sorted(held) and len({start for _, start in held}) == len(held)
    assert pairs(LeaderEpochs.decode(table.encode())) == held
