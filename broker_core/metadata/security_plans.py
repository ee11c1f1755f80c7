"""Checks requests about users and access rules against the image and plans metadata records.

Checks, their order and their messages are those of Kafka's ScramControlManager and AclControlManager. Like every plan
these change nothing (see `coordinator.contract`); the reply has an outcome for each requested change and is valid once
the records are durable. A refused change does not affect the others. A request that would write more than
MAX_ACCESS_RECORD_COUNT records is refused as a whole, with PolicyViolationError.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.access_control_list import AccessControlList, rule_record
from broker_core.metadata.controller import random_id
from broker_core.metadata.metadata_records import (
    MetadataRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from broker_core.metadata.scram_credentials import ScramCredentials
from broker_core.model.access_control import (
    CLUSTER_NAME,
    AccessRule,
    AccessRuleFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from broker_core.model.exceptions import PolicyViolationError
from broker_core.model.limits import (
    MAX_ACCESS_RECORD_COUNT,
    MAX_STORED_SCRAM_ITERATION_COUNT,
    MIN_SCRAM_ITERATION_COUNT,
)
from broker_core.model.scram import ScramCredential, ScramMechanism
from broker_core.ports import Entropy


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why one thing of a request was not done."""

    error_code: ErrorCode
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramDeletion:
    """`mechanism` is Kafka's number, as it came."""

    username: str
    mechanism: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUpsertion:
    """A credential to create or replace. The client computes PBKDF2: the broker never sees the password."""

    username: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramOutcome:
    """The outcome of one user's change."""

    username: str
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRules:
    """The rules that one filter removed, or its error."""

    rules: tuple[AccessRule, ...] = ()
    refusal: Refusal | None = None


_TWICE: Final = Refusal(
    error_code=ErrorCode.duplicate_resource, message="A user credential cannot be altered twice in the same request"
)


def plan_alter_scram(
    credentials: ScramCredentials, *, deletions: Sequence[ScramDeletion], upsertions: Sequence[ScramUpsertion]
) -> CoordinatorResult[MetadataRecord, tuple[ScramOutcome, ...]]:
    """One outcome for each user, in order of first mention. A user that is named twice, for any mechanisms, is not
    changed."""
    planned: dict[str, MetadataRecord | Refusal] = {}
    changes: list[ScramDeletion | ScramUpsertion] = [*deletions, *upsertions]
    for change in changes:
        before = planned.get(change.username)
        if before is None:
            planned[change.username] = _planned_change(credentials, change)
        elif not isinstance(before, Refusal):
            planned[change.username] = _TWICE
    records = tuple(one for one in planned.values() if not isinstance(one, Refusal))
    _refuse_excess(len(records))
    outcomes = (
        ScramOutcome(username=username, refusal=one if isinstance(one, Refusal) else None)
        for username, one in planned.items()
    )
    return CoordinatorResult(records=records, reply=tuple(outcomes))


def plan_create_acls(
    rules: AccessControlList, wanted: Sequence[AccessRule], *, entropy: Entropy
) -> CoordinatorResult[MetadataRecord, tuple[Refusal | None, ...]]:
    """One reply for each rule, None for success. An existing rule is not written again."""
    replies = tuple(_refusal_of_rule(rule) for rule in wanted)
    good = dict.fromkeys(rule for rule, refusal in zip(wanted, replies, strict=True) if refusal is None)
    fresh = [rule for rule in good if rule not in rules]
    _refuse_excess(len(fresh))
    return CoordinatorResult(records=tuple(rule_record(random_id(entropy), rule) for rule in fresh), reply=replies)


def plan_delete_acls(
    rules: AccessControlList, filters: Iterable[AccessRuleFilter]
) -> CoordinatorResult[MetadataRecord, tuple[DeletedRules, ...]]:
    """One reply for each filter; a rule that several filters match is in each reply and removed once."""
    removed: dict[MetadataRecord, None] = {}
    replies = []
    for wanted in filters:
        refusal = _refusal_of_filter(wanted)
        if refusal is not None:
            replies.append(DeletedRules(refusal=refusal))
            continue
        met = {rule_id: rule for rule_id, rule in rules.rules.items() if wanted.matches(rule)}
        removed.update((RemoveAccessControlEntryRecord(id=rule_id), None) for rule_id in met)
        _refuse_excess(len(removed))
        replies.append(DeletedRules(rules=tuple(dict.fromkeys(met.values()))))
    return CoordinatorResult(records=tuple(removed), reply=tuple(replies))


def _planned_change(credentials: ScramCredentials, change: ScramDeletion | ScramUpsertion) -> MetadataRecord | Refusal:
    if isinstance(change, ScramDeletion):
        return _planned_deletion(credentials, change)
    return _planned_upsertion(change)


def _planned_deletion(credentials: ScramCredentials, deletion: ScramDeletion) -> MetadataRecord | Refusal:
    mechanism = ScramMechanism(deletion.mechanism)
    refusal = _refusal_of_user(deletion.username, mechanism)
    if refusal is not None:
        return refusal
    if credentials.get(mechanism, deletion.username) is None:
        return Refusal(
            error_code=ErrorCode.resource_not_found,
            message="Attempt to delete a user credential that does not exist",
        )
    return RemoveUserScramCredentialRecord(name=deletion.username, mechanism=mechanism)


def _planned_upsertion(upsertion: ScramUpsertion) -> MetadataRecord | Refusal:
    mechanism = ScramMechanism(upsertion.mechanism)
    refusal = _refusal_of_user(upsertion.username, mechanism)
    if refusal is not None:
        return refusal
    if upsertion.iterations < MIN_SCRAM_ITERATION_COUNT:
        return Refusal(error_code=ErrorCode.unacceptable_credential, message="Too few iterations")
    if upsertion.iterations > MAX_STORED_SCRAM_ITERATION_COUNT:
        return Refusal(error_code=ErrorCode.unacceptable_credential, message="Too many iterations")
    if not upsertion.salted_password:
        return Refusal(error_code=ErrorCode.unacceptable_credential, message="Salted password must not be empty")
    credential = ScramCredential.from_salted_password(
        mechanism, upsertion.salted_password, salt=upsertion.salt, iterations=upsertion.iterations
    )
    return UserScramCredentialRecord(
        name=upsertion.username,
        mechanism=mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def _refusal_of_user(username: str, mechanism: ScramMechanism) -> Refusal | None:
    if not username:
        return Refusal(error_code=ErrorCode.unacceptable_credential, message="Username must not be empty")
    if mechanism == ScramMechanism.UNKNOWN:
        return Refusal(error_code=ErrorCode.unsupported_sasl_mechanism, message="Unknown SCRAM mechanism")
    return None


def _refusal_of_rule(rule: AccessRule) -> Refusal | None:
    if rule.resource_type == ResourceType.CLUSTER and rule.resource_name != CLUSTER_NAME:
        return _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not rule.resource_name:
        return _invalid("Invalid empty resource name")
    if rule.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        return _invalid(f"Invalid resourceType {rule.resource_type.name}")
    if rule.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return _invalid(f"Invalid patternType {rule.pattern_type.name}")
    if rule.operation in (Operation.UNKNOWN, Operation.ANY):
        return _invalid(f"Invalid operation {rule.operation.name}")
    if rule.permission not in (Permission.DENY, Permission.ALLOW):
        return _invalid(f"Invalid permissionType {rule.permission.name}")
    if ":" not in rule.principal:
        return _invalid(
            f"Could not parse principal from `{rule.principal}` (no colon is present separating the principal type "
            "from the principal name)"
        )
    return None


def _refusal_of_filter(wanted: AccessRuleFilter) -> Refusal | None:
    if wanted.resource_type == ResourceType.UNKNOWN or wanted.pattern_type == PatternType.UNKNOWN:
        return _invalid("Unknown patternFilter.")
    if wanted.is_unknown:
        return _invalid("Unknown entryFilter.")
    return None


def _invalid(message: str) -> Refusal:
    return Refusal(error_code=ErrorCode.invalid_request, message=message)


def _refuse_excess(record_count: int) -> None:
    if record_count > MAX_ACCESS_RECORD_COUNT:
        raise PolicyViolationError("Unable to perform excessively large batch operation.")
