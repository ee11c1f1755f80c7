"""Keys of the timers of classic groups: `<kind>:<characters of the group id>:<group id>:<member id>`.

The count makes the key unambiguous for any ids, also with colons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SESSION: Final = "classic-session"
"""Deadline of a member's next heartbeat; its `member_id` is set."""

JOIN: Final = "classic-join"
"""Deadline for members to join; also the end of a first rebalance's delay."""

SYNC: Final = "classic-sync"
"""Deadline for members of the new generation to ask for their assignment."""

ADOPTED: Final = "classic-adopted"
"""Fires at once: a group was downgraded from KIP-848; starts its members' sessions and a rebalance."""

_KINDS: Final = (SESSION, JOIN, SYNC, ADOPTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicTimer:
    kind: str
    group_id: str
    member_id: str = ""

    @property
    def key(self) -> str:
        return f"{self.kind}:{len(self.group_id)}:{self.group_id}:{self.member_id}"


def classic_timer(key: str) -> ClassicTimer | None:
    """None for a key of another kind."""
    kind, _, rest = key.partition(":")
    if kind not in _KINDS:
        return None
    count, _, ids = rest.partition(":")
    length = int(count)
    return ClassicTimer(kind=kind, group_id=ids[:length], member_id=ids[length + 1 :])
