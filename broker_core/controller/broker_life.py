"""The life of a registered broker: its state, what its heartbeat wants, and what becomes of it, as a table.

```
              caught up and wants to run                wants to stop, leads partitions
  FENCED ──────────────────────────────► UNFENCED ──────────────────────────────────────► CONTROLLED_SHUTDOWN
    ▲  │                                  │  │ │                                             │    │ leads none, and all
    │  │ wants to stop                    │  │ └─ wants to stop, leads none ──┐              │    │ live brokers know
    │  └──────────────────────────────────┼──┼──────────────────────────────► SHUTDOWN_NOW ◄─┼────┘
    └───────── wants to be fenced, silent ┘  └── wants to be fenced and to stop ──▲          │
    └───────────────────────────────────────────── silent ───────────────────────────────────┘
```

A broker in controlled shutdown is told to exit as soon as it is not needed, whatever its heartbeats say. The states
FENCED and SHUTDOWN_NOW are both fenced in the log; the answer to the heartbeat tells the second one to exit.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker_core.metadata.metadata_records import RegisterBrokerRecord


class BrokerState(enum.Enum):
    FENCED = enum.auto()
    """Registered; leads nothing, is in no ISR."""
    UNFENCED = enum.auto()
    CONTROLLED_SHUTDOWN = enum.auto()
    """Leads nothing if others can; still serves until they know."""
    SHUTDOWN_NOW = enum.auto()
    """Fenced, and told to exit."""


class BrokerWish(enum.Enum):
    """What a heartbeat says, or that there is none."""

    RUN = enum.auto()
    FENCE = enum.auto()
    STOP = enum.auto()
    FENCE_AND_STOP = enum.auto()
    SILENT = enum.auto()
    """The session is over."""


class Guard(enum.Enum):
    """What else has to be so."""

    ALWAYS = enum.auto()
    CAUGHT_UP = enum.auto()
    """It has replayed the record of its own registration, and did not begin to stop."""
    LEADS = enum.auto()
    SHUTDOWN_IS_KNOWN = enum.auto()
    """All other live brokers have replayed the records that moved its partitions."""


_F, _U, _C, _S = BrokerState
_LET_GO: Final = ((Guard.LEADS, _C), (Guard.SHUTDOWN_IS_KNOWN, _S), (Guard.ALWAYS, _C))

TRANSITIONS: Final[Mapping[BrokerState, Mapping[BrokerWish, tuple[tuple[Guard, BrokerState], ...]]]] = {
    BrokerState.FENCED: {
        BrokerWish.RUN: ((Guard.CAUGHT_UP, _U), (Guard.ALWAYS, _F)),
        BrokerWish.FENCE: ((Guard.ALWAYS, _F),),
        BrokerWish.STOP: ((Guard.ALWAYS, _S),),
        BrokerWish.FENCE_AND_STOP: ((Guard.ALWAYS, _S),),
        BrokerWish.SILENT: ((Guard.ALWAYS, _F),),
    },
    BrokerState.UNFENCED: {
        BrokerWish.RUN: ((Guard.ALWAYS, _U),),
        BrokerWish.FENCE: ((Guard.ALWAYS, _F),),
        BrokerWish.STOP: ((Guard.LEADS, _C), (Guard.ALWAYS, _S)),
        BrokerWish.FENCE_AND_STOP: ((Guard.ALWAYS, _S),),
        BrokerWish.SILENT: ((Guard.ALWAYS, _F),),
    },
    BrokerState.CONTROLLED_SHUTDOWN: {
        BrokerWish.RUN: _LET_GO,
        BrokerWish.FENCE: _LET_GO,
        BrokerWish.STOP: _LET_GO,
        BrokerWish.FENCE_AND_STOP: _LET_GO,
        BrokerWish.SILENT: ((Guard.ALWAYS, _F),),
    },
}
"""The first guard that holds decides. SHUTDOWN_NOW is only an outcome: in the log such a broker is fenced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSituation:
    """What the guards ask for."""

    is_caught_up: bool = False
    leads: bool = False
    is_shutdown_known: bool = False

    def holds(self, guard: Guard) -> bool:
        match guard:
            case Guard.CAUGHT_UP:
                return self.is_caught_up
            case Guard.LEADS:
                return self.leads
            case Guard.SHUTDOWN_IS_KNOWN:
                return self.is_shutdown_known
            case _:
                return True


def state_of(registration: RegisterBrokerRecord) -> BrokerState:
    if registration.fenced:
        return BrokerState.FENCED
    return BrokerState.CONTROLLED_SHUTDOWN if registration.in_controlled_shutdown else BrokerState.UNFENCED


def wish_of(*, want_fence: bool, want_stop: bool) -> BrokerWish:
    if want_stop:
        return BrokerWish.FENCE_AND_STOP if want_fence else BrokerWish.STOP
    return BrokerWish.FENCE if want_fence else BrokerWish.RUN


def next_state(state: BrokerState, wish: BrokerWish, situation: BrokerSituation) -> BrokerState:
    return next(after for guard, after in TRANSITIONS[state][wish] if situation.holds(guard))
