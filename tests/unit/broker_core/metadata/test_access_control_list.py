from itertools import chain
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from broker_core.metadata.access_control_list import AccessControlList, rule_of, rule_record
from broker_core.metadata.metadata_records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from broker_core.model.access_control import (
    AccessRule,
    AccessRuleFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def a_rule(
    name="t", pattern=LITERAL, *, principal="User:a", resource_type=ResourceType.TOPIC, operation=Operation.READ
):
    return AccessRule(
        resource_type=resource_type,
        resource_name=name,
        pattern_type=pattern,
        principal=principal,
        host="*",
        operation=operation,
        permission=Permission.ALLOW,
    )


def made(number, rule):
    return rule_record(UUID(int=number), rule)


def gone(number):
    return RemoveAccessControlEntryRecord(id=UUID(int=number))


def a_list(*records):
    rules = AccessControlList()
    for record in records:
        rules.replay(record)
    return rules


def found_for(rules, name, resource_type=ResourceType.TOPIC):
    return [rule for pattern in rules.patterns_for(resource_type, name) for rule in chain(*pattern.values())]


def names_for(rules, name, resource_type=ResourceType.TOPIC):
    return sorted((rule.resource_name, rule.pattern_type) for rule in found_for(rules, name, resource_type))


def test_a_name_is_matched_by_itself_the_wildcard_and_its_prefixes():
    rules = a_list(
        made(1, a_rule("orders")), made(2, a_rule("*")), made(3, a_rule("ord", PREFIXED)),
        made(4, a_rule("orders", PREFIXED)), made(5, a_rule("orders-2", PREFIXED)), made(6, a_rule("ox", PREFIXED)),
        made(7, a_rule("ord")), made(8, a_rule("orders", resource_type=ResourceType.GROUP)),
    )  # fmt: skip
    assert names_for(rules, "orders") == [("*", LITERAL), ("ord", PREFIXED), ("orders", LITERAL), ("orders", PREFIXED)]
    assert names_for(rules, "orders", ResourceType.GROUP) == [("orders", LITERAL)]
    assert names_for(rules, "*") == [("*", LITERAL)]


def test_a_rule_created_twice_exists_until_both_are_deleted():
    rules = a_list(made(1, a_rule()), made(2, a_rule()))
    assert len(rules.matching(AccessRuleFilter())) == 1
    rules.replay(gone(1))
    assert a_rule() in rules
    assert names_for(rules, "t") == [("t", LITERAL)]
    rules.replay(gone(2))
    assert a_rule() not in rules
    assert names_for(rules, "t") == []


def test_deleting_a_rule_keeps_others_of_its_principal_and_pattern():
    rules = a_list(made(1, a_rule()), made(2, a_rule(operation=Operation.WRITE)), made(3, a_rule(principal="User:b")))
    rules.replay(gone(1))
    left = [(rule.principal, rule.operation) for rule in found_for(rules, "t")]
    assert sorted(left) == [("User:a", Operation.WRITE), ("User:b", Operation.READ)]


def test_an_id_that_is_recreated_has_the_new_rule():
    rules = a_list(made(1, a_rule("old")), made(1, a_rule("new")))
    assert list(rules.rules.values()) == [a_rule("new")]
    assert names_for(rules, "old") == []


def test_removing_an_unknown_id_changes_nothing():
    assert not a_list(gone(1)).rules


rules_drawn = st.builds(
    a_rule, st.sampled_from(["a", "ab", "abc", "*"]), st.sampled_from([LITERAL, PREFIXED]),
    principal=st.sampled_from(["User:a", "User:b"]), operation=st.sampled_from([Operation.READ, Operation.WRITE]),
    resource_type=st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
)  # fmt: skip
numbers = st.integers(1, 6)
histories = st.lists(st.one_of(st.builds(made, numbers, rules_drawn), st.builds(gone, numbers)), max_size=25)


@given(histories, st.sampled_from(["a", "abc", "abcd", "b", "*"]))
def test_after_any_history_the_index_matches_the_rules(history, name):
    rules = a_list(*history)
    left = {}
    for record in history:
        left.pop(record.id, None)
        if isinstance(record, AccessControlEntryRecord):
            left[record.id] = rule_of(record)
    assert dict(rules.rules) == left
    wanted = AccessRuleFilter(resource_type=ResourceType.TOPIC, resource_name=name, pattern_type=PatternType.MATCH)
    found = found_for(rules, name)
    assert set(found) == {rule for rule in left.values() if wanted.matches(rule)}
    assert len(found) == len(set(found))
    of_type = {rule for rule in left.values() if rule.resource_type == ResourceType.TOPIC}
    assert set(rules.of_type(ResourceType.TOPIC)) == of_type
