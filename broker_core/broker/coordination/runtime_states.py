"""States of a coordinator's runtime, and their valid transitions.

LOADING ── its log was read ──► AWAITING_COMMIT ──────────► DURABLE ◄──────────────┐
   │ ▲                                                       │   ▲                 │
   │ │ the log could not be read: retried later              │   │ appended        │
   │ │                                                       ▼   │                 │
   │ └───────────── the append failed ────────────────── APPENDING                 │
   │ ▲                                                                             │
   │ └───────────── creating the topic failed ─────────── MAKING_TOPIC ── created ─┘
   │                                                       ▲
   └── there is no topic ──► WITHOUT_TOPIC ── a record ────┘

any ──► LOADING: the owner requests a reload; the topic is about to be deleted, or was deleted
"""

from __future__ import annotations

import enum
from typing import Final


class RuntimeState(enum.Enum):
    LOADING = "loading"
    """The state is being built from the log, or waits for a retry. Every request gets a retriable error."""

    AWAITING_COMMIT = "awaiting commit"
    """The log was read up to its end, which followers may not have yet. Requests wait a moment, unplanned."""

    WITHOUT_TOPIC = "without topic"
    """The internal topic was not created yet. The state is empty, and answers are immediate."""

    MAKING_TOPIC = "making topic"
    """The first record needs the topic. Changes wait until it is created, and are then planned in order."""

    DURABLE = "durable"
    """Everything in the state is durable. Answers without records are immediate."""

    APPENDING = "appending"
    """One append is under way. The state is ahead of the disk; answers wait for the last append that they depend
    on."""


VALID_PREDECESSORS: Final[dict[RuntimeState, frozenset[RuntimeState]]] = {
    RuntimeState.LOADING: frozenset(RuntimeState),
    RuntimeState.AWAITING_COMMIT: frozenset({RuntimeState.LOADING}),
    RuntimeState.WITHOUT_TOPIC: frozenset({RuntimeState.LOADING}),
    RuntimeState.MAKING_TOPIC: frozenset({RuntimeState.WITHOUT_TOPIC}),
    RuntimeState.DURABLE: frozenset({RuntimeState.AWAITING_COMMIT, RuntimeState.MAKING_TOPIC, RuntimeState.APPENDING}),
    RuntimeState.APPENDING: frozenset({RuntimeState.DURABLE}),
}


def assert_may_follow(target: RuntimeState, state: RuntimeState, partition: object) -> None:
    """Asserts that the table has the transition."""
    assert state in VALID_PREDECESSORS[target], f"partition={partition}: {target.value} cannot follow {state.value}"
