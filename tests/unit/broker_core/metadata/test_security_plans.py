"""Expected outcomes are those of Kafka 4.3.1, asked over a socket."""

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from support.builders.counting_entropy import CountingEntropy

from broker_core.metadata.access_control_list import AccessControlList, rule_of, rule_record
from broker_core.metadata.metadata_records import (
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from broker_core.metadata.scram_credentials import ScramCredentials
from broker_core.metadata.security_plans import (
    ScramDeletion,
    ScramUpsertion,
    plan_alter_scram,
    plan_create_acls,
    plan_delete_acls,
)
from broker_core.model.access_control import (
    AccessRule,
    AccessRuleFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from broker_core.model.exceptions import PolicyViolationError
from broker_core.model.limits import MAX_ACCESS_RECORD_COUNT

TWICE = "A user credential cannot be altered twice in the same request"


def up(username="bob", mechanism=1, iterations=4096, salt=b"saltsaltsalt", salted_password=b"x" * 32):
    return ScramUpsertion(
        username=username, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted_password
    )


def down(username="bob", mechanism=1):
    return ScramDeletion(username=username, mechanism=mechanism)


def alter(*, deletions=(), upsertions=(), credentials=None):
    return plan_alter_scram(credentials or ScramCredentials(), deletions=deletions, upsertions=upsertions)


def told(result):
    return {
        outcome.username: None
        if outcome.refusal is None
        else (outcome.refusal.error_code.name, outcome.refusal.message)
        for outcome in result.reply
    }


def with_bob():
    credentials = ScramCredentials()
    for record in alter(upsertions=[up()]).records:
        credentials.replay(record)
    return credentials


def test_an_upsertion_writes_kafkas_record():
    result = alter(upsertions=[up(iterations=16384)])
    assert told(result) == {"bob": None}
    assert result.records == (
        UserScramCredentialRecord(
            name="bob",
            mechanism=1,
            salt=b"saltsaltsalt",
            stored_key=bytes.fromhex("f4695af4c64263f1e68abd850edb59b206bded8ce10d6fdd8b8af9a1db8007fd"),
            server_key=bytes.fromhex("ef1ec68ad1add5f3f8fd010997d9bf074025de4bbfb9a818d835d310a0f86469"),
            iterations=16384,
        ),
    )


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (up(iterations=4095), "unacceptable_credential", "Too few iterations"),
        (up(iterations=16385), "unacceptable_credential", "Too many iterations"),
        (up(username=""), "unacceptable_credential", "Username must not be empty"),
        (up(mechanism=0), "unsupported_sasl_mechanism", "Unknown SCRAM mechanism"),
        (up(mechanism=3), "unsupported_sasl_mechanism", "Unknown SCRAM mechanism"),
        (up(salted_password=b""), "unacceptable_credential", "Salted password must not be empty"),
        (down(), "resource_not_found", "Attempt to delete a user credential that does not exist"),
        (down(username=""), "unacceptable_credential", "Username must not be empty"),
        (down(mechanism=7), "unsupported_sasl_mechanism", "Unknown SCRAM mechanism"),
    ],
)
def test_an_invalid_change_is_refused_and_a_valid_one_is_applied(change, code, message):
    is_deletion = isinstance(change, ScramDeletion)
    result = alter(deletions=[change] if is_deletion else [], upsertions=[up("ok"), *([] if is_deletion else [change])])
    assert told(result) == {"ok": None, change.username: (code, message)}
    assert [record.name for record in result.records] == ["ok"]


@pytest.mark.parametrize("salt", [b"", b"a"])
def test_a_short_salt_is_accepted(salt):
    assert told(alter(upsertions=[up(salt=salt)])) == {"bob": None}


def test_an_existing_credential_is_deleted():
    result = alter(deletions=[down()], credentials=with_bob())
    assert result.records == (RemoveUserScramCredentialRecord(name="bob", mechanism=1),)
    assert told(result) == {"bob": None}
    other = alter(deletions=[down(mechanism=2)], credentials=with_bob())
    assert told(other)["bob"][0] == "resource_not_found"


@pytest.mark.parametrize(
    "changes",
    [
        {"upsertions": [up(mechanism=2), up(mechanism=1)]},
        {"deletions": [down()], "upsertions": [up(mechanism=2)]},
        {"deletions": [down(), down()]},
        {"deletions": [down(), down()], "upsertions": [up()]},
    ],
)
def test_a_user_listed_twice_is_not_changed(changes):
    result = alter(**changes, credentials=with_bob())
    assert told(result) == {"bob": ("duplicate_resource", TWICE)}
    assert not result.records


def test_the_first_refusal_of_a_user_is_reported():
    result = alter(deletions=[down("zz")], upsertions=[up("zz"), up("zz")])
    assert told(result)["zz"][0] == "resource_not_found"


def test_no_changes_give_no_results():
    assert told(alter()) == {}


def test_the_repr_has_no_secrets():
    assert repr(up()) == "ScramUpsertion(username='bob', mechanism=1, iterations=4096)"


def a_rule(name="t", pattern=PatternType.LITERAL, **parts):
    return AccessRule(
        **{
            "resource_type": ResourceType.TOPIC, "resource_name": name, "pattern_type": pattern,
            "principal": "User:bob", "host": "*", "operation": Operation.READ, "permission": Permission.ALLOW,
        } | parts
    )  # fmt: skip


def a_list(*rules):
    found = AccessControlList()
    for number, rule in enumerate(rules, 1):
        found.replay(rule_record(UUID(int=number), rule))
    return found


def create(*wanted, rules=None):
    return plan_create_acls(rules or a_list(), wanted, entropy=CountingEntropy(first=1001))


GOOD_RULES = {
    "the cluster": a_rule("kafka-cluster", resource_type=ResourceType.CLUSTER),
    "a prefix of the cluster": a_rule("kafka-cluster", PatternType.PREFIXED, resource_type=ResourceType.CLUSTER),
    "no host": a_rule(host=""), "a host that is no address": a_rule(host="not-an-ip"),
    "an operation that topics do not have": a_rule(operation=Operation.DESCRIBE_TOKENS),
    "a name that topics cannot have": a_rule("we ird"), "a long name": a_rule("a" * 300),
    "a principal without a name": a_rule(principal="User:"), "one without a kind": a_rule(principal=":x"),
}  # fmt: skip


@pytest.mark.parametrize("rule", GOOD_RULES.values(), ids=GOOD_RULES)
def test_unusual_rules_that_kafka_accepts_are_accepted(rule):
    result = create(rule)
    assert result.reply == (None,)
    assert [rule_of(record) for record in result.records] == [rule]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (a_rule(""), "Invalid empty resource name"),
        (
            a_rule("x", resource_type=ResourceType.CLUSTER),
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        (
            a_rule(principal="nocolon"),
            "Could not parse principal from `nocolon` (no colon is present separating the principal type from the "
            "principal name)",
        ),
        (a_rule(resource_type=ResourceType.ANY), "Invalid resourceType ANY"),
        (a_rule(resource_type=ResourceType(99)), "Invalid resourceType UNKNOWN"),
        (a_rule(pattern=PatternType.MATCH), "Invalid patternType MATCH"),
        (a_rule(operation=Operation.ANY), "Invalid operation ANY"),
        (a_rule(permission=Permission.ANY), "Invalid permissionType ANY"),
    ],
)
def test_an_invalid_rule_is_refused_and_a_valid_one_is_created(rule, message):
    result = create(a_rule("good"), rule)
    good, bad = result.reply
    assert good is None
    assert (bad.error_code, bad.message) == (ErrorCode.invalid_request, message)
    assert [record.resource_name for record in result.records] == ["good"]


def test_an_existing_rule_is_not_written_again():
    result = create(a_rule(), a_rule("new"), a_rule("new"), rules=a_list(a_rule()))
    assert result.reply == (None, None, None)
    assert [record.resource_name for record in result.records] == ["new"]


def test_each_rule_has_its_own_id():
    result = create(a_rule("a"), a_rule("b"))
    assert len({record.id for record in result.records}) == 2


def test_filters_delete_matching_rules():
    rules = a_list(a_rule("orders"), a_rule("ord", PatternType.PREFIXED), a_rule("other"))
    result = plan_delete_acls(
        rules,
        [
            AccessRuleFilter(resource_name="orders", pattern_type=PatternType.MATCH),
            AccessRuleFilter(resource_name="orders", pattern_type=PatternType.LITERAL),
            AccessRuleFilter(resource_name="nothing"),
        ],
    )
    assert [[rule.resource_name for rule in reply.rules] for reply in result.reply] == [
        ["orders", "ord"],
        ["orders"],
        [],
    ]
    assert result.records == tuple(RemoveAccessControlEntryRecord(id=UUID(int=number)) for number in (1, 2))


def test_a_filter_of_a_newer_version_deletes_nothing():
    filters = [AccessRuleFilter(operation=Operation(99)), AccessRuleFilter(pattern_type=PatternType(99))]
    result = plan_delete_acls(a_list(a_rule()), filters)
    assert [reply.refusal.message for reply in result.reply] == ["Unknown entryFilter.", "Unknown patternFilter."]
    assert not result.records


def test_the_records_of_one_request_are_bounded():
    at_the_bound = [a_rule(f"t{number}") for number in range(MAX_ACCESS_RECORD_COUNT)]
    assert len(create(*at_the_bound).records) == MAX_ACCESS_RECORD_COUNT
    with pytest.raises(PolicyViolationError, match="excessively large batch"):
        create(*at_the_bound, a_rule("one more"))
    with pytest.raises(PolicyViolationError, match="excessively large batch"):
        plan_delete_acls(a_list(*at_the_bound, a_rule("one more")), [AccessRuleFilter()])
