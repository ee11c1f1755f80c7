"""States of a coordinator's runtime, and which may follow which.

LOADING ── the topic is there, its log was read ──────────► DURABLE ◄──────────────┐
   │ ▲                                                       │   ▲                 │
   │ │ the log could not be read: again in a while           │   │ appended        │
   │ │                                                       ▼   │                 │
   │ └───────────── the append failed ────────────────── APPENDING                 │
   │ ▲                                                                             │
   │ └───────────── the topic cannot be made ──────────── MAKING_TOPIC ── made ────┘
   │                                                       ▲
   └── there is no topic ──► WITHOUT_TOPIC ── a record ────┘

any ──► LOADING: the owner wants the log read again
"""

from __future__ import annotations

import enum
from typing import Final


class RuntimeState(enum.Enum):
    LOADING = "loading"
    """The state is being built from the log, or will be tried again. Everything is refused: ask again."""

    WITHOUT_TOPIC = "without topic"
    """The internal topic was not made yet. The coordinator knows nothing, and answers at once."""

    MAKING_TOPIC = "making topic"
    """The first record is to be written. Changes wait until the topic is made, and are planned in their order."""

    DURABLE = "durable"
    """All that the coordinator knows is on the device. Answers go out at once."""

    APPENDING = "appending"
    """One append is under way. The coordinator knows more than the device; answers wait for the last append that they
    have seen."""


VALID_PREDECESSORS: Final[dict[RuntimeState, frozenset[RuntimeState]]] = {
    RuntimeState.LOADING: frozenset(RuntimeState),
    RuntimeState.WITHOUT_TOPIC: frozenset({RuntimeState.LOADING}),
    RuntimeState.MAKING_TOPIC: frozenset({RuntimeState.WITHOUT_TOPIC}),
    RuntimeState.DURABLE: frozenset({RuntimeState.LOADING, RuntimeState.MAKING_TOPIC, RuntimeState.APPENDING}),
    RuntimeState.APPENDING: frozenset({RuntimeState.DURABLE}),
}


def assert_may_follow(target: RuntimeState, state: RuntimeState, partition: object) -> None:
    """Asserts that the table has the transition."""
    assert state in VALID_PREDECESSORS[target], f"partition={partition}: {target.value} cannot follow {state.value}"
