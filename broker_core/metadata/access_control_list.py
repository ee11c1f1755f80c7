"""The access control list as stored in the metadata log: only replay changes it, every request reads it.

Rules are indexed by resource type and pattern, then by principal, so a lookup reads only the rules that can match. For
prefixed patterns it probes each prefix length in use, not each prefix.

    literal    topic, name    ──► principal ──► rules       "orders" probes "orders" and "*",
    prefixed   topic, prefix  ──► principal ──► rules       and "ord" and "o" if prefixes of these lengths exist
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from uuid import UUID

from broker_core.metadata.metadata_records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from broker_core.model.access_control import (
    WILDCARD,
    AccessRule,
    AccessRuleFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

RulesByPrincipal = dict[str, list[AccessRule]]
"""The rules of one pattern."""


class AccessControlList:
    """The fold over its records. A rule is stored once, however often it was created."""

    def __init__(self) -> None:
        self._rules: dict[UUID, AccessRule] = {}
        self._counts: Counter[AccessRule] = Counter()
        self._patterns: dict[tuple[ResourceType, PatternType, str], RulesByPrincipal] = {}
        self._prefix_lengths: dict[ResourceType, Counter[int]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccessControlList) and self._rules == other._rules

    __hash__ = None  # type: ignore[assignment]  # it changes

    @property
    def rules(self) -> Mapping[UUID, AccessRule]:
        """By id, oldest first."""
        return MappingProxyType(self._rules)

    def __contains__(self, rule: AccessRule) -> bool:
        return rule in self._counts

    def matching(self, wanted: AccessRuleFilter) -> list[AccessRule]:
        """Each rule once, oldest first."""
        return list(dict.fromkeys(rule for rule in self._rules.values() if wanted.matches(rule)))

    def of_type(self, resource_type: ResourceType) -> Iterator[AccessRule]:
        """All rules for resources of that type."""
        for (each_type, _, _), by_principal in self._patterns.items():
            if each_type == resource_type:
                for rules in by_principal.values():
                    yield from rules

    def patterns_for(self, resource_type: ResourceType, name: str) -> Iterator[RulesByPrincipal]:
        """The rules of each pattern that matches the name: the name itself, `*`, and each of its prefixes."""
        literal = PatternType.LITERAL
        keys = [(resource_type, literal, name)]
        if name != WILDCARD:
            keys.append((resource_type, literal, WILDCARD))
        keys += (
            (resource_type, PatternType.PREFIXED, name[:length])
            for length in self._prefix_lengths.get(resource_type, ())
            if length <= len(name)
        )
        for key in keys:
            found = self._patterns.get(key)
            if found is not None:
                yield found

    def copy(self) -> AccessControlList:
        other = AccessControlList()
        other._rules = self._rules.copy()
        for rule in other._rules.values():
            other._add(rule)
        return other

    def replay(self, record: AccessControlEntryRecord | RemoveAccessControlEntryRecord) -> None:
        """Removes the rule; an unknown id changes nothing."""
        gone = self._rules.pop(record.id, None)
        if gone is not None:
            self._forget(gone)
        if isinstance(record, AccessControlEntryRecord):
            rule = rule_of(record)
            self._rules[record.id] = rule
            self._add(rule)

    def _add(self, rule: AccessRule) -> None:
        self._counts[rule] += 1
        if self._counts[rule] > 1:
            return
        by_principal = self._patterns.setdefault(_pattern_of(rule), {})
        if not by_principal and rule.pattern_type == PatternType.PREFIXED:
            self._prefix_lengths.setdefault(rule.resource_type, Counter())[len(rule.resource_name)] += 1
        by_principal.setdefault(rule.principal, []).append(rule)

    def _forget(self, rule: AccessRule) -> None:
        self._counts[rule] -= 1
        if self._counts[rule]:
            return
        del self._counts[rule]
        by_principal = self._patterns[_pattern_of(rule)]
        by_principal[rule.principal].remove(rule)
        if by_principal[rule.principal]:
            return
        del by_principal[rule.principal]
        if by_principal:
            return
        del self._patterns[_pattern_of(rule)]
        if rule.pattern_type == PatternType.PREFIXED:
            lengths = self._prefix_lengths[rule.resource_type]
            lengths[len(rule.resource_name)] -= 1
            if not lengths[len(rule.resource_name)]:
                del lengths[len(rule.resource_name)]


def rule_record(rule_id: UUID, rule: AccessRule) -> AccessControlEntryRecord:
    """The record that creates the rule."""
    return AccessControlEntryRecord(
        id=rule_id,
        resource_type=rule.resource_type,
        resource_name=rule.resource_name,
        pattern_type=rule.pattern_type,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission,
    )


def rule_of(record: AccessControlEntryRecord) -> AccessRule:
    """Numbers that are unknown here become UNKNOWN, as in Kafka."""
    return AccessRule(
        resource_type=ResourceType(record.resource_type),
        resource_name=record.resource_name,
        pattern_type=PatternType(record.pattern_type),
        principal=record.principal,
        host=record.host,
        operation=Operation(record.operation),
        permission=Permission(record.permission_type),
    )


def _pattern_of(rule: AccessRule) -> tuple[ResourceType, PatternType, str]:
    return rule.resource_type, rule.pattern_type, rule.resource_name
