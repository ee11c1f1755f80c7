"""Kafka's API keys between the nodes of a quorum."""

from __future__ import annotations

import enum


class QuorumApi(enum.IntEnum):
    """By name, as Kafka's protocol calls them."""

    FETCH = 1
    API_VERSIONS = 18
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    FETCH_SNAPSHOT = 59
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
