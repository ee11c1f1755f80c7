"""AlterConfigs (33), versions 0 to 2: the settings of a topic or a group become those of the request; what is not in it
goes back to its default. Superseded by IncrementalAlterConfigs, and still what old clients send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker_core.handlers.call import Call
from broker_core.handlers.config_changes import alter_each, require_value
from broker_core.handlers.config_owners import Changes, ConfigOwner
from broker_core.model.exceptions import InvalidRequestError


def handle(call: Call) -> None:
    alter_each(call, _planned)


def _planned(owner: ConfigOwner, current: Mapping[str, str], resource: Any) -> Changes:
    if len({config.name for config in resource.configs}) < len(resource.configs):
        raise InvalidRequestError("Error due to duplicate config keys")
    given = {config.name: require_value(config.name, config.value) for config in resource.configs}
    return {**dict.fromkeys(current), **given}
