"""Fairness by a small model of its own: a store that decides races, and writers that commit all the time."""

import heapq
import random

import pytest

from broker_core.object_log.write_turns import LISTEN_INTERVAL_COUNT, WriteTurns

ROUND_TRIP_MS = 30.0
DURATION_MS = 60_000.0


class AtOnce(WriteTurns):
    """Everybody tries again at once."""

    def wait_before_next_ms(self, now_ms, dice):
        return 0.0


class Writer:
    def __init__(self, turns):
        self.turns = turns
        self.known = 0
        self.began_ms = 0.0
        self.sent_ms = 0.0
        self.has_won = False


def waits_of(kind, writer_count, seed=1):
    """How long each commit took, in ms, of writers that begin the next one as soon as one is made."""
    dice = random.Random(seed)
    writers = [Writer(kind()) for _ in range(writer_count)]
    events = [(dice.random() * ROUND_TRIP_MS, slot, "begin") for slot in range(writer_count)]
    heapq.heapify(events)
    made, waits = 0, []
    while events and events[0][0] < DURATION_MS:
        now_ms, slot, event = heapq.heappop(events)
        writer = writers[slot]
        half_trip = ROUND_TRIP_MS * (0.8 + 0.4 * dice.random()) / 2
        if event == "begin":
            writer.began_ms = now_ms
            following = (now_ms + writer.turns.wait_before_next_ms(now_ms, dice.random()), slot, "send")
        elif event == "send":
            writer.sent_ms = now_ms
            following = (now_ms + half_trip, slot, "arrive")
        elif event == "arrive":
            writer.has_won = writer.known == made
            made += writer.has_won
            following = (now_ms + half_trip, slot, "answer")
        elif event == "answer" and writer.has_won:
            writer.known += 1
            writer.turns.on_round_trip(now_ms - writer.sent_ms)
            writer.turns.on_committed(writer.known, now_ms)
            waits.append(now_ms - writer.began_ms)
            following = (now_ms, slot, "begin")
        elif event == "answer":
            following = (now_ms + half_trip, slot, "read")
        else:
            writer.known = made
            following = (now_ms + half_trip, slot, "send")
        heapq.heappush(events, following)
    # Who still waits at the end has waited too.
    return waits + [DURATION_MS - writer.began_ms for writer in writers]


def test_a_single_writer_waits_only_to_look_for_others_now_and_then():
    waits = waits_of(WriteTurns, 1)
    assert sorted(waits)[len(waits) // 2] < 1.2 * ROUND_TRIP_MS
    assert len(waits) > 0.8 * DURATION_MS / ROUND_TRIP_MS


@pytest.mark.parametrize(("writer_count", "factor"), [(2, 4), (4, 2), (16, 2.5)])
def test_the_slowest_commit_waits_a_fraction_of_what_it_would_without_turns(writer_count, factor):
    slowest = max(max(waits_of(WriteTurns, writer_count, seed)) for seed in range(5))
    slowest_at_once = max(max(waits_of(AtOnce, writer_count, seed)) for seed in range(5))
    assert slowest < slowest_at_once / factor, (slowest, slowest_at_once)


@pytest.mark.parametrize("writer_count", [2, 16])
def test_together_they_still_commit_most_of_what_is_possible(writer_count):
    assert len(waits_of(WriteTurns, writer_count)) > 0.65 * DURATION_MS / ROUND_TRIP_MS


def test_a_writer_that_commits_seldom_does_not_wait_for_busy_ones():
    turns = WriteTurns()
    turns.on_round_trip(ROUND_TRIP_MS)
    for minute in range(1, 10):
        turns.on_committed(minute * 1000, minute * 60_000.0)
    assert turns.wait_before_next_ms(10 * 60_000.0, 1.0) == 0.0


def commits_alone(turns, count, *, pause_ms=ROUND_TRIP_MS, first_number=1):
    """Whether a writer that commits so often, and sees no other writer, must look for others before its next commit."""
    turns.on_round_trip(ROUND_TRIP_MS)
    now_ms = 1000.0
    for number in range(first_number, first_number + count):
        now_ms += pause_ms
        turns.on_committed(number, now_ms)
    return turns.wait_before_next_ms(now_ms, 0.5) > 0


def test_a_single_writer_looks_for_others_after_sixteen_commits_in_a_row_and_not_before():
    # The first of them follows nothing.
    assert not commits_alone(WriteTurns(), LISTEN_INTERVAL_COUNT)
    assert commits_alone(WriteTurns(), LISTEN_INTERVAL_COUNT + 1)


def test_after_looking_for_others_the_count_restarts():
    turns = WriteTurns()
    assert commits_alone(turns, LISTEN_INTERVAL_COUNT + 1)
    assert turns.wait_before_next_ms(10_000.0, 0.5) == 0.0


@pytest.mark.parametrize(("rounds", "listens"), [(3, True), (4, False), (5, False)])
def test_commits_with_pauses_need_no_look_for_others(rounds, listens):
    assert commits_alone(WriteTurns(), 2 * LISTEN_INTERVAL_COUNT, pause_ms=rounds * ROUND_TRIP_MS) is listens


def test_a_commit_of_another_writer_restarts_the_count():
    turns = WriteTurns()
    turns.on_round_trip(ROUND_TRIP_MS)
    numbers = [*range(1, LISTEN_INTERVAL_COUNT + 1), LISTEN_INTERVAL_COUNT + 2]
    for step, number in enumerate(numbers):
        turns.on_committed(number, 1000.0 + step * ROUND_TRIP_MS)
    # Another's commit came between the last two: so this is no listening, and one other is too few for a turn.
    assert turns.wait_before_next_ms(1000.0 + len(numbers) * ROUND_TRIP_MS, 0.5) == 0.0
