"""What a follower of a partition does with what it hears, by its state: Kafka 4.3.1's rules as a table.

An answer counts only if it is to the fetch from the position where the follower still is: so in every state but
FETCHING an answer is too late, and ignored. A new leader epoch leads from every state but FAILED to FETCHING, after the
write that is under way.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from kio.schema.errors import ErrorCode


class FollowerState(enum.Enum):
    """What a follower does."""

    FETCHING = enum.auto()
    """It is in its leader's next Fetch request."""
    ASKING_BOUNDS = enum.auto()
    """Its log end is out of the leader's range: it asks the leader for its bounds."""
    WRITING = enum.auto()
    """An effect on its log is under way: fetching on would acknowledge it."""
    PAUSED = enum.auto()
    """After an error, for replica.fetch.backoff.ms."""
    FENCED = enum.auto()
    """Its leader has a newer epoch: the metadata log will tell."""
    FAILED = enum.auto()
    """A write failed: what the log holds is not known."""


class Heard(enum.Enum):
    """The kinds of events."""

    RECORDS = enum.auto()
    NOTHING_NEW = enum.auto()
    DIVERGENCE = enum.auto()
    OUT_OF_RANGE = enum.auto()
    NEWER_EPOCH = enum.auto()
    ERROR = enum.auto()
    BOUNDS = enum.auto()
    NO_ANSWER = enum.auto()
    WRITTEN = enum.auto()
    WRITE_FAILED = enum.auto()
    PAUSE_OVER = enum.auto()


class FollowerReaction(enum.Enum):
    """What is done."""

    IGNORE = enum.auto()
    APPEND = enum.auto()
    """Then WRITING; then the leader's high watermark and log start count."""
    ADVANCE = enum.auto()
    """The leader's high watermark and log start count; nothing else changes (KAFKA-15510)."""
    TRUNCATE = enum.auto()
    """To where the logs agree, then WRITING."""
    ASK_BOUNDS = enum.auto()
    """Then ASKING_BOUNDS."""
    JUDGE_BOUNDS = enum.auto()
    """Beyond the leader's end: truncate. Before its start: restart there. Within: pause, then fetch on."""
    FENCE = enum.auto()
    """Then FENCED."""
    PAUSE = enum.auto()
    """Then PAUSED."""
    RESUME = enum.auto()
    """Then FETCHING."""
    FAIL = enum.auto()
    """Then FAILED."""


_NOTHING_AWAITED: Final = {
    Heard.RECORDS: FollowerReaction.IGNORE,
    Heard.NOTHING_NEW: FollowerReaction.IGNORE,
    Heard.DIVERGENCE: FollowerReaction.IGNORE,
    Heard.OUT_OF_RANGE: FollowerReaction.IGNORE,
    Heard.NEWER_EPOCH: FollowerReaction.IGNORE,
    Heard.ERROR: FollowerReaction.IGNORE,
    Heard.BOUNDS: FollowerReaction.IGNORE,
    Heard.NO_ANSWER: FollowerReaction.IGNORE,
    Heard.WRITE_FAILED: FollowerReaction.FAIL,
    Heard.PAUSE_OVER: FollowerReaction.IGNORE,
}

TABLE: Final[Mapping[FollowerState, Mapping[Heard, FollowerReaction]]] = {
    FollowerState.FETCHING: {
        **_NOTHING_AWAITED,
        Heard.RECORDS: FollowerReaction.APPEND,
        Heard.NOTHING_NEW: FollowerReaction.ADVANCE,
        Heard.DIVERGENCE: FollowerReaction.TRUNCATE,
        Heard.OUT_OF_RANGE: FollowerReaction.ASK_BOUNDS,
        Heard.NEWER_EPOCH: FollowerReaction.FENCE,
        Heard.ERROR: FollowerReaction.PAUSE,
        Heard.NO_ANSWER: FollowerReaction.PAUSE,
    },
    FollowerState.ASKING_BOUNDS: {
        **_NOTHING_AWAITED,
        Heard.BOUNDS: FollowerReaction.JUDGE_BOUNDS,
        Heard.NO_ANSWER: FollowerReaction.PAUSE,
    },
    FollowerState.WRITING: {
        **_NOTHING_AWAITED,
        Heard.WRITTEN: FollowerReaction.RESUME,
    },
    FollowerState.PAUSED: {**_NOTHING_AWAITED, Heard.PAUSE_OVER: FollowerReaction.RESUME},
    FollowerState.FENCED: _NOTHING_AWAITED,
    FollowerState.FAILED: _NOTHING_AWAITED,
}
"""WRITTEN answers the one write under way, so it is heard only while WRITING. WRITE_FAILED may also be of what this
broker appended as a leader before."""

_OF_ERRORS: Final = {
    ErrorCode.offset_out_of_range: Heard.OUT_OF_RANGE,
    ErrorCode.fenced_leader_epoch: Heard.NEWER_EPOCH,
}


def heard_error(error: ErrorCode) -> Heard:
    """Of an answer with an error. All others pass: the leader is not ready, or does not lead any more."""
    return _OF_ERRORS.get(error, Heard.ERROR)
