"""IncrementalAlterConfigs (44), versions 0 and 1: single settings of topics and groups are set (0), reset to their
defaults (1), or, where they are lists, added to (2) and taken from (3) (KIP-339)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from broker_core.handlers.call import Call
from broker_core.handlers.config_changes import alter_each, require_value
from broker_core.handlers.config_owners import Changes, ConfigOwner
from broker_core.model.exceptions import InvalidConfigError, InvalidRequestError, StreamlogError
from broker_core.model.list_changes import appended, subtracted

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


def handle(call: Call) -> None:
    alter_each(call, _planned)


def _planned(owner: ConfigOwner, current: Mapping[str, str], resource: Any) -> Changes:
    changes: dict[str, str | None] = {}
    for config in resource.configs:
        if config.name in changes:
            raise InvalidRequestError("Error due to duplicate config keys")
        if config.config_operation == _DELETE:
            # Kafka allows deleting a setting that it does not know.
            if owner.knows(config.name) or config.name in current:
                changes[config.name] = None
            continue
        value = require_value(config.name, config.value)
        if config.config_operation == _SET:
            changes[config.name] = value
        elif config.config_operation in _LIST_OPERATIONS:
            name, change_list = _LIST_OPERATIONS[config.config_operation]
            now = owner.list_now(config.name, current)
            if now is None:
                raise InvalidConfigError(
                    f"Can't {name} to key {config.name} because its type is not LIST.", setting=config.name
                )
            changes[config.name] = change_list(now, value)
        else:
            # UNKNOWN_SERVER_ERROR, as Kafka answers.
            raise StreamlogError(f"Unknown operation type {config.config_operation} for {config.name}")
    return changes


_LIST_OPERATIONS: Final[dict[int, tuple[str, Callable[[str, str], str]]]] = {
    _APPEND: ("APPEND", appended),
    _SUBTRACT: ("SUBTRACT", subtracted),
}
