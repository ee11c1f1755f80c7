"""A manual replica assignment for a new partition: registered brokers, each once, are valid."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def refusal_of_assignment(registered: Collection[int], broker_ids: Sequence[int]) -> str | None:
    """None: it is valid. The messages and their order are Kafka's."""
    if not broker_ids:
        return "The manual partition assignment includes an empty replica list."
    known: set[int] = set()
    for broker_id in sorted(broker_ids):
        if broker_id in known:
            return f"The manual partition assignment includes the broker {broker_id} more than once."
        if broker_id not in registered:
            return f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
        known.add(broker_id)
    return None
