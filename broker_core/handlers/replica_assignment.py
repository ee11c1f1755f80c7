"""A manual replica assignment for a new partition: only this node, once, is valid."""

from __future__ import annotations

from collections.abc import Sequence


def refusal_of_assignment(node_id: int, broker_ids: Sequence[int]) -> str | None:
    """None: it names only this node. The messages and their order are Kafka's."""
    if not broker_ids:
        return "The manual partition assignment includes an empty replica list."
    known: set[int] = set()
    for broker_id in sorted(broker_ids):
        if broker_id in known:
            return f"The manual partition assignment includes the broker {broker_id} more than once."
        if broker_id != node_id:
            return f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
        known.add(broker_id)
    return None
