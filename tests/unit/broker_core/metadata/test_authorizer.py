import logging
import time
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.brokers.access_decisions import BY_TYPE, recorded_worlds

from broker_core.metadata.access_control_list import AccessControlList, rule_record
from broker_core.metadata.authorizer import Authorizer, parse_super_users
from broker_core.model.access_control import AccessRule, Operation, PatternType, Permission, ResourceType
from broker_core.model.exceptions import InvalidConfigError

TOPIC, HOST = ResourceType.TOPIC, "127.0.0.1"


def rule_of(resource_type, name, pattern_type, principal, host, operation, permission):
    return AccessRule(
        resource_type=ResourceType[resource_type],
        resource_name=name,
        pattern_type=PatternType[pattern_type],
        principal=principal,
        host=host,
        operation=Operation[operation],
        permission=Permission[permission],
    )


def a_list(rules):
    found = AccessControlList()
    for number, rule in enumerate(rules, 1):
        found.replay(rule_record(UUID(int=number), rule))
    return found


def an_authorizer(rules=(), **settings):
    found = a_list(rules)
    return Authorizer(lambda: found, **settings)


def decide(authorizer, question):
    principal, host, operation, resource_type, name = question
    asked = principal, host, Operation[operation], ResourceType[resource_type]
    return authorizer.authorize_by_resource_type(*asked) if name == BY_TYPE else authorizer.authorize(*asked, name)


@pytest.mark.parametrize("world", recorded_worlds(), ids=lambda world: world.name)
def test_decisions_match_kafkas_authorizer(world):
    authorizer = an_authorizer(
        [rule_of(*rule) for rule in world.rules],
        super_users=parse_super_users(world.super_users),
        allow_if_no_rules=world.open == "true",
    )
    assert [decide(authorizer, question) for question in world.questions] == world.allowed


def naive(rules, super_users, allow_if_no_rules, principal, host, operation, resource_type, name):
    """By the words of KIP-11 and KIP-290, over all rules, with no index."""
    if principal in super_users:
        return True

    def stands_for_it(rule):
        if rule.resource_type != resource_type:
            return False
        if rule.pattern_type == PatternType.PREFIXED:
            return name.startswith(rule.resource_name)
        return rule.resource_name in ("*", name)

    about = [rule for rule in rules if stands_for_it(rule)]
    if not about:
        return allow_if_no_rules
    fitting = [r for r in about if r.principal in (principal, "User:*") and r.host in (host, "*")]
    if any(r.permission == Permission.DENY and r.operation in (operation, Operation.ALL) for r in fitting):
        return False
    implied = {
        Operation.DESCRIBE: {"READ", "WRITE", "DELETE", "ALTER"}, Operation.DESCRIBE_CONFIGS: {"ALTER_CONFIGS"},
    }.get(operation, set())  # fmt: skip
    return any(
        r.permission == Permission.ALLOW and (r.operation in (operation, Operation.ALL) or r.operation.name in implied)
        for r in fitting
    )


names = st.text("ab*", min_size=1, max_size=4)
users = st.sampled_from(["User:a", "User:b", "User:*", "Group:a"])
hosts = st.sampled_from(["10.0.0.1", "10.0.0.2"])
kinds = st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP])
operations = st.sampled_from([Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS,
                              Operation.ALTER_CONFIGS, Operation.CREATE])  # fmt: skip
rules_drawn = st.builds(
    AccessRule, resource_type=kinds, resource_name=st.just("*") | names,
    pattern_type=st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]), principal=users,
    host=st.just("*") | hosts, operation=st.just(Operation.ALL) | operations,
    permission=st.sampled_from([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
)  # fmt: skip


@given(
    st.lists(rules_drawn, max_size=12),
    st.sets(users, max_size=1),
    st.booleans(),
    st.tuples(users, hosts, operations, kinds, names),
)
def test_decisions_match_an_independent_implementation(rules, super_users, allow_if_no_rules, question):
    authorizer = an_authorizer(rules, super_users=super_users, allow_if_no_rules=allow_if_no_rules)
    assert authorizer.authorize(*question) == naive(rules, super_users, allow_if_no_rules, *question)


@given(st.lists(rules_drawn, max_size=12), st.booleans(), st.tuples(users, hosts, operations, kinds))
def test_without_an_allowed_name_any_resource_is_refused(rules, allow_if_no_rules, question):
    """Names are tried out: those of the rules, each of them with something behind it, and one that no rule has."""
    authorizer = an_authorizer(rules, allow_if_no_rules=allow_if_no_rules)
    tried = {"hardcode", *(rule.resource_name for rule in rules), *(f"{rule.resource_name}~" for rule in rules)}
    if not any(authorizer.authorize(*question, name) for name in tried):
        assert not authorizer.authorize_by_resource_type(*question)


def test_a_change_of_the_rules_applies_immediately():
    rules = AccessControlList()
    authorizer = Authorizer(lambda: rules)
    assert not authorizer.authorize("User:a", HOST, Operation.READ, TOPIC, "t")
    rule = rule_of("TOPIC", "t", "LITERAL", "User:a", "*", "READ", "ALLOW")
    rules.replay(rule_record(UUID(int=1), rule))
    assert authorizer.authorize("User:a", HOST, Operation.READ, TOPIC, "t")


def test_authorized_operations_are_a_bit_field_of_allowed_ones():
    authorizer = an_authorizer([rule_of("TOPIC", "t", "LITERAL", "User:a", "*", "READ", "ALLOW")])
    assert authorizer.authorized_operations("User:a", HOST, TOPIC, "t") == 1 << 3 | 1 << 8
    assert authorizer.authorized_operations("User:b", HOST, TOPIC, "t") == 0


def test_refusals_are_logged_and_queries_are_not(caplog):
    authorizer = an_authorizer()
    with caplog.at_level(logging.INFO):
        authorizer.authorize("User:a", HOST, Operation.READ, TOPIC, "t", log_if_denied=False)
        authorizer.authorized_operations("User:a", HOST, TOPIC, "t")
        assert not caplog.records
        authorizer.authorize("User:a\n", HOST, Operation.READ, TOPIC, "t")
    assert [record.getMessage() for record in caplog.records] == [
        "principal='User:a\\n' address=127.0.0.1 is not authorized to READ TOPIC 't'"
    ]


@pytest.mark.parametrize(
    ("text", "users"),
    [
        ("", set()), ("User:a", {"User:a"}), (" User:a ; User:b;", {"User:a", "User:b"}),
        ("User:CN=ann,O=Acme", {"User:CN=ann,O=Acme"}), ("User:a:b", {"User:a:b"}),
    ],
)  # fmt: skip
def test_super_users_are_separated_by_semicolons(text, users):
    assert parse_super_users(text) == users


@pytest.mark.parametrize("text", ["ann", "User:", ":ann", "User:a;bob"])
def test_a_super_user_must_be_a_principal(text):
    with pytest.raises(InvalidConfigError, match=r"super\.users"):
        parse_super_users(text)


def test_decisions_are_fast_with_many_rules():
    """Ten thousand rules of as many users and prefixes; two hundred scans of them would take over a second."""
    rules = [
        rule_of("TOPIC", name, pattern, f"User:{number}", "*", "READ", "ALLOW")
        for number in range(5_000)
        for name, pattern in (("*", "LITERAL"), (f"team{number:05}-", "PREFIXED"))
    ]
    authorizer = an_authorizer(rules)
    begun = time.process_time()
    assert all(authorizer.authorize("User:77", HOST, Operation.READ, TOPIC, "team04711-x") for _ in range(200))
    assert time.process_time() - begun < 0.5
