"""The answer of a coordinator to one request, from its plan until everything that the plan saw is durable."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from broker_core.broker.callback_errors import OnError
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import TopicPartition

Record = TypeVar("Record")
Reply = TypeVar("Reply")

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAnswer:
    """An answer that waits for the disk. `deliver` sends the reply, or the error that the plan raised."""

    deliver: Callable[[], None]
    refuse: OnError


def planned(
    partition: TopicPartition,
    plan: Callable[[], CoordinatorResult[Record, Reply]],
    on_reply: Callable[[Reply], None],
    on_error: OnError,
) -> tuple[tuple[Record, ...], HeldAnswer]:
    """Runs the plan: its records, and its reply or its error as an answer."""
    try:
        result = plan()
    except StreamlogError as refusal:
        return (), refused(refusal, on_error)
    except Exception as fault:
        _log.exception("partition=%s: a coordinator operation failed", partition)
        return (), refused(StreamlogError(f"{partition}: {fault!r}"), on_error)
    return result.records, HeldAnswer(deliver=lambda: on_reply(result.reply), refuse=on_error)


def refused(refusal: StreamlogError, on_error: OnError) -> HeldAnswer:
    return HeldAnswer(deliver=lambda: on_error(refusal), refuse=on_error)
