"""Access rules as values, by Kafka's names and numbers (KIP-11, KIP-290).

A rule allows or denies a principal, from a host, an operation on the resources that match a pattern. In a filter each
part may be open: ANY for an enum, None for a text.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

WILDCARD: Final = "*"
"""As the name of a literal pattern: every name. As a host: every host."""

ANY_USER: Final = "User:*"
ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of clients on a listener without authentication."""

CLUSTER_NAME: Final = "kafka-cluster"
"""The only name of a CLUSTER resource."""


class _Numbered(enum.IntEnum):
    """As in Kafka a number of a newer version becomes UNKNOWN."""

    @classmethod
    def _missing_(cls, value: object) -> _Numbered | None:
        return cls(0) if isinstance(value, int) else None


class ResourceType(_Numbered):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Numbered):
    """How a rule's name matches resource names. ANY and MATCH are only for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(_Numbered):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(_Numbered):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


SUPPORTED_OPERATIONS: Final[Mapping[ResourceType, frozenset[Operation]]] = MappingProxyType(
    {
        ResourceType.TOPIC: frozenset(
            {
                Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DESCRIBE, Operation.DELETE,
                Operation.ALTER, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
            }
        ),
        ResourceType.GROUP: frozenset(
            {
                Operation.READ, Operation.DESCRIBE, Operation.DELETE, Operation.DESCRIBE_CONFIGS,
                Operation.ALTER_CONFIGS,
            }
        ),
        ResourceType.CLUSTER: frozenset(
            {
                Operation.CREATE, Operation.CLUSTER_ACTION, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
                Operation.IDEMPOTENT_WRITE, Operation.ALTER, Operation.DESCRIBE,
            }
        ),
        ResourceType.TRANSACTIONAL_ID: frozenset(
            {Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT}
        ),
        ResourceType.DELEGATION_TOKEN: frozenset({Operation.DESCRIBE}),
        ResourceType.USER: frozenset({Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS}),
    }
)  # fmt: skip
"""The operations of each resource type: the bits of `…authorized_operations` in answers."""


def operations_bit_field(operations: Iterable[Operation]) -> int:
    """A set of operations as a bit field (KIP-430): one bit for each operation's number."""
    return sum(1 << operation for operation in frozenset(operations))


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRule:
    """One entry of the access control list. `principal` is like "User:alice", `host` an address or `*`."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRuleFilter:
    """A filter for rules. Pattern type ANY matches every rule of that name, and MATCH every rule that applies to a
    resource of that name: the literal one, `*`, and prefixes of it."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    @property
    def is_unknown(self) -> bool:
        """Whether some part has a value of a newer version."""
        return (
            self.resource_type == ResourceType.UNKNOWN
            or self.pattern_type == PatternType.UNKNOWN
            or self.operation == Operation.UNKNOWN
            or self.permission == Permission.UNKNOWN
        )

    def matches(self, rule: AccessRule) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, rule.resource_type)
            and self._matches_name(rule)
            and self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self.operation in (Operation.ANY, rule.operation)
            and self.permission in (Permission.ANY, rule.permission)
        )

    def _matches_name(self, rule: AccessRule) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, rule.pattern_type):
            return False
        if self.resource_name is None or self.resource_name == rule.resource_name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if rule.pattern_type == PatternType.LITERAL:
            return rule.resource_name == WILDCARD
        return self.resource_name.startswith(rule.resource_name)
