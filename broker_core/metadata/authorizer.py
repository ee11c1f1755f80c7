"""Decides whether a principal may perform an operation: Kafka's StandardAuthorizer over the access control list.

    1. A super user may do everything.
    2. A matching DENY rule denies, whatever other rules allow.
    3. A matching ALLOW rule allows.
    4. If no pattern matches the resource: `allow.everyone.if.no.acl.found`. Otherwise the operation is denied.

A rule matches if its pattern matches the resource's name, its principal is the client's or `User:*`, its host is
the client's address or `*`, and its operation is the one in question or ALL. Where it allows, READ, WRITE, DELETE and
ALTER are also DESCRIBE, and ALTER_CONFIGS is also DESCRIBE_CONFIGS; where it denies, each is only itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from broker_core.metadata.access_control_list import AccessControlList, RulesByPrincipal
from broker_core.model.access_control import (
    ANY_USER,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    AccessRule,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    operations_bit_field,
)
from broker_core.model.exceptions import InvalidConfigError

_log: Final = logging.getLogger(__name__)

_ALLOWED_BY: Final = {
    Operation.DESCRIBE: frozenset(
        {
            Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.ALL,
        }
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL}),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings:
    """Whether there is an authorizer, and its settings."""

    is_enforced: bool = False
    super_users: frozenset[str] = frozenset()
    allow_if_no_rules: bool = False

    def authorizer(self, rules: Callable[[], AccessControlList]) -> Authorizer | None:
        if not self.is_enforced:
            return None
        return Authorizer(rules, super_users=self.super_users, allow_if_no_rules=self.allow_if_no_rules)


class Authorizer:
    """`rules` returns the current list. `principal` is like "User:alice", `host` an address as text."""

    def __init__(
        self,
        rules: Callable[[], AccessControlList],
        *,
        super_users: Iterable[str] = (),
        allow_if_no_rules: bool = False,
    ) -> None:
        self._rules = rules
        self._super_users = frozenset(super_users)
        self._allow_if_no_rules = allow_if_no_rules

    def is_super_user(self, principal: str) -> bool:
        return principal in self._super_users

    def authorize(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        log_if_denied: bool = True,
    ) -> bool:
        """Logs a refusal unless the caller only filters an answer."""
        is_allowed = principal in self._super_users or self._decide(principal, host, operation, resource_type, name)
        if not is_allowed and log_if_denied:
            _log.info(
                "principal=%r address=%s is not authorized to %s %s %r",
                principal, host, operation.name, resource_type.name, name[:300],
            )  # fmt: skip
        return is_allowed

    def authorize_by_resource_type(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether the operation is allowed on any name.

        As in Kafka, implied operations (READ for DESCRIBE) do not count here.
        """
        # Kafka's own probe: super users, and names that no pattern matches.
        if self.authorize(principal, host, operation, resource_type, "hardcode", log_if_denied=False):
            return True
        allowing: set[tuple[PatternType, str]] = set()
        denying: set[tuple[PatternType, str]] = set()
        for rule in self._rules().of_type(resource_type):
            if _is_about(rule, principal, host) and rule.operation in (operation, Operation.ALL):
                patterns = denying if rule.permission == Permission.DENY else allowing
                patterns.add((rule.pattern_type, rule.resource_name))
        if (PatternType.LITERAL, WILDCARD) in denying:
            return False
        return any(not _is_covered(pattern, denying) for pattern in allowing)

    def authorized_operations(self, principal: str, host: str, resource_type: ResourceType, name: str) -> int:
        """The allowed ones of the resource's operations, as a bit field (KIP-430)."""
        return operations_bit_field(
            operation
            for operation in SUPPORTED_OPERATIONS.get(resource_type, frozenset())
            if self.authorize(principal, host, operation, resource_type, name, log_if_denied=False)
        )

    def _decide(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        is_any_pattern = is_allowed = False
        for by_principal in self._rules().patterns_for(resource_type, name):
            is_any_pattern = True
            for rule in _rules_about(by_principal, principal, host):
                if rule.permission == Permission.DENY:
                    if rule.operation in (operation, Operation.ALL):
                        return False
                elif rule.operation in _ALLOWED_BY.get(operation, (operation, Operation.ALL)):
                    is_allowed = True
        return is_allowed or (not is_any_pattern and self._allow_if_no_rules)


def parse_super_users(text: str) -> frozenset[str]:
    """`super.users`: principals like User:alice, separated by semicolons. Raises InvalidConfigError."""
    users = frozenset(one.strip() for one in text.split(";") if one.strip())
    for user in sorted(users):
        kind, colon, name = user.partition(":")
        if not (kind and colon and name):
            raise InvalidConfigError(
                f"super.users: {user!r} is not a principal; write User:name, separated by semicolons"
            )
    return users


def _rules_about(by_principal: RulesByPrincipal, principal: str, host: str) -> list[AccessRule]:
    found = by_principal.get(principal, []) + (by_principal.get(ANY_USER, []) if principal != ANY_USER else [])
    return [rule for rule in found if rule.host in (WILDCARD, host)]


def _is_about(rule: AccessRule, principal: str, host: str) -> bool:
    return rule.principal in (principal, ANY_USER) and rule.host in (host, WILDCARD)


def _is_covered(pattern: tuple[PatternType, str], denying: set[tuple[PatternType, str]]) -> bool:
    """Whether the pattern, or a prefix of it, is denied."""
    pattern_type, name = pattern
    if pattern == (PatternType.LITERAL, WILDCARD):
        return False
    if pattern_type == PatternType.LITERAL and pattern in denying:
        return True
    return any((PatternType.PREFIXED, name[:length]) in denying for length in range(1, len(name) + 1))
