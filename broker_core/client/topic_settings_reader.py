"""Reads the settings of topics from a broker: those that differ from the defaults.

They are cached for a few seconds: a stream reads its topics at each trigger, and settings rarely change.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from broker_core.client.broker_errors import broker_error
from broker_core.client.broker_router import BrokerRouter
from broker_core.client.deadline import Deadline
from broker_core.model.topic_settings import SETTINGS

REMEMBERED_SECONDS: Final = 5.0

_TOPIC_RESOURCE: Final = 2
_TOPICS_OWN_SOURCE, _DEFAULT_SOURCE = 1, 5
_WITHOUT_SETTINGS: Final = frozenset(
    {
        # It was deleted in between, or this broker does not know it yet.
        ErrorCode.unknown_topic_or_partition,
        # A user that may read a topic may lack the right to see its settings.
        ErrorCode.topic_authorization_failed,
        ErrorCode.cluster_authorization_failed,
    }
)


class TopicSettingsReader:
    """Thread-safe; concurrent calls may send the same request twice."""

    def __init__(self, router: BrokerRouter) -> None:
        self._router = router
        self._remembered: dict[str, tuple[float, Mapping[str, str]]] = {}

    def of(self, names: Collection[str], deadline: Deadline) -> dict[str, Mapping[str, str]]:
        """By name, for every name; empty if the broker does not return any."""
        now = time.monotonic()
        remembered = {name: self._remembered.get(name, (float("-inf"), {})) for name in names}
        found = {name: configs for name, (at, configs) in remembered.items() if now - at < REMEMBERED_SECONDS}
        missing = sorted(set(names) - found.keys())
        if missing:
            asked = self._ask(missing, deadline)
            self._remembered.update({name: (now, configs) for name, configs in asked.items()})
            found |= asked
        return found

    def forget(self, name: str) -> None:
        self._remembered.pop(name, None)

    def _ask(self, names: Collection[str], deadline: Deadline) -> dict[str, Mapping[str, str]]:
        from kio.schema.describe_configs.v4 import request as schema

        request = schema.DescribeConfigsRequest(
            resources=tuple(
                schema.DescribeConfigsResource(
                    resource_type=i8(_TOPIC_RESOURCE), resource_name=name, configuration_keys=None
                )
                for name in names
            )
        )
        found: dict[str, Mapping[str, str]] = {name: {} for name in names}
        for result in self._router.ask_any(request, deadline).results:
            if result.error_code in _WITHOUT_SETTINGS:
                continue
            if result.error_code != ErrorCode.none:
                what = f"the settings of topic {result.resource_name!r}"
                raise broker_error(result.error_code, what, result.error_message)
            found[result.resource_name] = {
                entry.name: entry.value for entry in result.configs if entry.value is not None and _is_set(entry)
            }
        return found


def _is_set(entry: Any) -> bool:
    """Whether the topic sets it, or the broker sets it for all topics to something other than Kafka's default. Kafka
    also calls a broker setting in another unit (log.roll.hours) a default."""
    if entry.config_source == _TOPICS_OWN_SOURCE:
        return True
    if entry.name not in SETTINGS:
        return bool(entry.config_source != _DEFAULT_SOURCE)
    return bool(SETTINGS[entry.name].default != entry.value)
