"""Whether a topic is still the one that a caller knows, by its id (KIP-516)."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.client.broker_router import BrokerRouter
from broker_core.client.deadline import Deadline
from broker_core.model.exceptions import TopicRecreatedError

NO_TOPIC_ID: Final = UUID(int=0)
"""The topic id in a cluster without topic ids."""
OTHER_TOPIC: Final = (ErrorCode.unknown_topic_id, ErrorCode.inconsistent_topic_id)
"""The answers to a request with the id of a topic that was deleted, or that the broker does not know yet."""


def require_topic(router: BrokerRouter, name: str, topic_id: UUID, deadline: Deadline) -> None:
    """Asks the cluster. Raises UnknownTopicError, TopicRecreatedError."""
    router.refresh([name], deadline)
    if router.topic(name, deadline).topic_id != topic_id:
        raise TopicRecreatedError.of(name, topic_id)
