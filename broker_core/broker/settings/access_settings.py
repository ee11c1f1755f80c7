"""Who may do what, at brokers and controllers: authorizer.class.name, super.users, allow.everyone.if.no.acl.found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker_core.metadata.authorizer import AccessSettings, parse_super_users
from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.setting_parsers import boolean

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_CLASS: Final = "authorizer.class.name"
_OPEN: Final = "allow.everyone.if.no.acl.found"


def access_settings(given: Mapping[str, str], complaints: list[str]) -> AccessSettings:
    """Mistakes are added to `complaints`."""
    name = given.get(_CLASS, "").strip()
    if name not in ("", STANDARD_AUTHORIZER):
        complaints.append(f"{_CLASS}={name} is not supported; it can be {STANDARD_AUTHORIZER} or empty")
    super_users: frozenset[str] = frozenset()
    is_open = False
    try:
        super_users = parse_super_users(given.get("super.users", ""))
        is_open = bool(boolean(_OPEN, given.get(_OPEN, "false")))
    except InvalidConfigError as error:
        complaints.append(error.message)
    return AccessSettings(is_enforced=name == STANDARD_AUTHORIZER, super_users=super_users, allow_if_no_rules=is_open)
