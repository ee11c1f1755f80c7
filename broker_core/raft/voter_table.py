"""What a voter does with a request, by its role and the request's epoch: Kafka 4.3.1's rules as a table.

    own epoch E, request's epoch e

    e below E   any role, any request: FENCE
    e above E   any role: NEWER_EPOCH says, by the request alone
    e = E       SAME_EPOCH says, by role and request

A voted node is an UNATTACHED one that remembers its vote, as in Kafka since 3.9. A reaction that changes what
`quorum-state` holds does only that; the request is judged again once it is on the device. So no answer can leave
before what it depends on.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class Role(enum.Enum):
    """What a node is in its epoch. In `quorum-state` PROSPECTIVE is what it was before, and RESIGNED is LEADER."""

    UNATTACHED = enum.auto()
    PROSPECTIVE = enum.auto()
    CANDIDATE = enum.auto()
    FOLLOWER = enum.auto()
    LEADER = enum.auto()
    RESIGNED = enum.auto()


class RequestKind(enum.Enum):
    """The kinds of requests."""

    PRE_VOTE = enum.auto()
    VOTE = enum.auto()
    BEGIN_EPOCH = enum.auto()
    END_EPOCH = enum.auto()
    FETCH = enum.auto()
    FETCH_SNAPSHOT = enum.auto()
    UPDATE_VOTER = enum.auto()
    ADD_VOTER = enum.auto()
    REMOVE_VOTER = enum.auto()


class Reaction(enum.Enum):
    """What is done with a request."""

    FENCE = enum.auto()
    """FENCED_LEADER_EPOCH."""
    UNKNOWN_EPOCH = enum.auto()
    """UNKNOWN_LEADER_EPOCH: the sender will find its leader."""
    UNATTACH = enum.auto()
    """Durably UNATTACHED in the newer epoch; then judged again."""
    FOLLOW = enum.auto()
    """Durably FOLLOWER of the sender; then judged again."""
    GRANT_IF_UP_TO_DATE = enum.auto()
    """Yes if the candidate's log ends at or behind the own one. Nothing is remembered."""
    GRANT_IF_NEVER_FETCHED = enum.auto()
    """The same, but no while the leader is alive: it answered a fetch within the fetch timeout."""
    GRANT_IF_FREE = enum.auto()
    """Yes again to the candidate that has the vote. Else yes if the epoch has no leader, no vote was given and the
    log is up to date: durably VOTED first, then judged again."""
    REFUSE_VOTE = enum.auto()
    ACKNOWLEDGE = enum.auto()
    """Nothing is new if the sender is the known leader."""
    END_EPOCH = enum.auto()
    """The known leader goes: stands for election after a pause by its place among the preferred ones."""
    TWO_LEADERS = enum.auto()
    """An epoch has one leader: stop."""
    NOT_LEADER = enum.auto()
    """NOT_LEADER_OR_FOLLOWER."""
    SERVE_FETCH = enum.auto()
    SERVE_SNAPSHOT = enum.auto()
    CHANGE_VOTERS = enum.auto()
    """See `voter_changes`."""


NEWER_EPOCH: Final[Mapping[RequestKind, Reaction]] = {
    RequestKind.PRE_VOTE: Reaction.UNATTACH,
    RequestKind.VOTE: Reaction.UNATTACH,
    RequestKind.BEGIN_EPOCH: Reaction.FOLLOW,
    RequestKind.END_EPOCH: Reaction.FOLLOW,
    RequestKind.FETCH: Reaction.UNKNOWN_EPOCH,
    RequestKind.FETCH_SNAPSHOT: Reaction.UNKNOWN_EPOCH,
    RequestKind.UPDATE_VOTER: Reaction.UNKNOWN_EPOCH,
}
"""Requests to add and to remove a voter have no epoch, and are judged as those of the own one."""

_ROWS: Final = {
    #                   pre-vote                  vote             begin epoch    end epoch
    Role.UNATTACHED:  ("GRANT_IF_UP_TO_DATE",    "GRANT_IF_FREE", "FOLLOW",      "FOLLOW"),
    Role.PROSPECTIVE: ("GRANT_IF_UP_TO_DATE",    "GRANT_IF_FREE", "FOLLOW",      "FOLLOW"),
    Role.CANDIDATE:   ("GRANT_IF_UP_TO_DATE",    "REFUSE_VOTE",   "FOLLOW",      "FOLLOW"),
    Role.FOLLOWER:    ("GRANT_IF_NEVER_FETCHED", "REFUSE_VOTE",   "ACKNOWLEDGE", "END_EPOCH"),
    Role.LEADER:      ("REFUSE_VOTE",            "REFUSE_VOTE",   "TWO_LEADERS", "TWO_LEADERS"),
    Role.RESIGNED:    ("GRANT_IF_UP_TO_DATE",    "REFUSE_VOTE",   "TWO_LEADERS", "TWO_LEADERS"),
}  # fmt: skip
_SERVED: Final = ("SERVE_FETCH", "SERVE_SNAPSHOT", "CHANGE_VOTERS", "CHANGE_VOTERS", "CHANGE_VOTERS")
_NOT_SERVED: Final = ("NOT_LEADER",) * len(_SERVED)

SAME_EPOCH: Final[Mapping[Role, Mapping[RequestKind, Reaction]]] = {
    role: dict(
        zip(
            RequestKind,
            (Reaction[name] for name in (*names, *(_SERVED if role is Role.LEADER else _NOT_SERVED))),
            strict=True,
        )
    )
    for role, names in _ROWS.items()
}
"""The last columns: fetches and changes of the voters are served by the leader alone."""


def reaction(role: Role, asked: RequestKind, *, own_epoch: int, epoch: int) -> Reaction:
    """The cell of the table."""
    if epoch < own_epoch:
        return Reaction.FENCE
    return NEWER_EPOCH[asked] if epoch > own_epoch else SAME_EPOCH[role][asked]


VALID_PREDECESSORS: Final[Mapping[Role, frozenset[Role]]] = {
    Role.UNATTACHED: frozenset(Role),  # a newer epoch
    Role.PROSPECTIVE: frozenset({Role.UNATTACHED, Role.FOLLOWER, Role.CANDIDATE, Role.PROSPECTIVE}),
    Role.CANDIDATE: frozenset({Role.PROSPECTIVE}),
    Role.FOLLOWER: frozenset(Role),  # of a newer epoch, for a LEADER and a RESIGNED one
    Role.LEADER: frozenset({Role.CANDIDATE}),
    Role.RESIGNED: frozenset({Role.LEADER}),
}
"""By role, which ones a node can have had before. A start goes to UNATTACHED, CANDIDATE, FOLLOWER or RESIGNED."""
