"""Keys of the timers of classic groups: `<kind>:<characters of the group id>:<group id>:<member id>`.

The count makes the key readable whatever characters, colons included, the ids are made of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SESSION: Final = "classic-session"
"""A member must be heard of before; its `member_id` is set."""

JOIN: Final = "classic-join"
"""The rebalance waits for members until then; the same timer runs for a first rebalance's delay."""

SYNC: Final = "classic-sync"
"""Members that know of the generation must ask for their assignment before."""

ADOPTED: Final = "classic-adopted"
"""At once: a group came over from the protocol of KIP-848, its members are to be heard of, and to join."""

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
    """None for a key that is not of classic groups."""
    kind, _, rest = key.partition(":")
    if kind not in _KINDS:
        return None
    count, _, ids = rest.partition(":")
    length = int(count)
    return ClassicTimer(kind=kind, group_id=ids[:length], member_id=ids[length + 1 :])
