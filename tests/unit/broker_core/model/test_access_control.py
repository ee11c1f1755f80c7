import pytest

from broker_core.model.access_control import (
    SUPPORTED_OPERATIONS,
    AccessRule,
    AccessRuleFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    operations_bit_field,
)


def a_rule(name="orders", pattern=PatternType.LITERAL, *, resource_type=ResourceType.TOPIC, principal="User:a"):
    return AccessRule(
        resource_type=resource_type,
        resource_name=name,
        pattern_type=pattern,
        principal=principal,
        host="*",
        operation=Operation.READ,
        permission=Permission.ALLOW,
    )


@pytest.mark.parametrize("kind", [ResourceType, PatternType, Operation, Permission])
def test_an_enum_number_of_a_newer_kafka_is_unknown(kind):
    assert kind(99) is kind.UNKNOWN
    assert kind(-1) is kind.UNKNOWN
    with pytest.raises(ValueError, match="not a valid"):
        kind("READ")


def test_the_operations_bit_field_matches_kafka():
    assert operations_bit_field([Operation.READ, Operation.DESCRIBE, Operation.READ]) == 264  # Utils.to32BitField
    assert operations_bit_field([]) == 0
    topic = operations_bit_field(SUPPORTED_OPERATIONS[ResourceType.TOPIC])
    assert topic == 3576  # what Kafka answers in topic_authorized_operations without an authorizer


def test_an_open_filter_matches_every_rule():
    assert AccessRuleFilter().matches(a_rule())
    assert AccessRuleFilter().matches(a_rule("o", PatternType.PREFIXED))


@pytest.mark.parametrize(
    ("pattern", "name", "matched"),
    [
        (PatternType.ANY, "orders", {"orders", "orders…"}),
        (PatternType.LITERAL, "orders", {"orders"}),
        (PatternType.PREFIXED, "orders", {"orders…"}),
        (PatternType.PREFIXED, "ord", {"ord…"}),
        (PatternType.MATCH, "orders", {"orders", "orders…", "ord…", "*"}),
        (PatternType.MATCH, "ord", {"ord…", "*"}),
        (PatternType.MATCH, "*", {"*", "*…"}),
        (PatternType.LITERAL, "*", {"*"}),
        (PatternType.MATCH, None, {"orders", "orders…", "ord…", "*", "*…"}),
        (PatternType.LITERAL, None, {"orders", "*"}),
        (PatternType.ANY, "", set()),
    ],
)
def test_a_filter_matches_names_by_its_pattern_type(pattern, name, matched):
    rules = {
        "orders": a_rule(),
        "orders…": a_rule("orders", PatternType.PREFIXED),
        "ord…": a_rule("ord", PatternType.PREFIXED),
        "*": a_rule("*"),
        "*…": a_rule("*", PatternType.PREFIXED),
    }
    wanted = AccessRuleFilter(resource_name=name, pattern_type=pattern)
    assert {label for label, rule in rules.items() if wanted.matches(rule)} == matched


@pytest.mark.parametrize(
    "part",
    [
        {"resource_type": ResourceType.GROUP}, {"principal": "User:b"}, {"host": "10.0.0.1"},
        {"operation": Operation.ALL}, {"permission": Permission.DENY},
    ],
)  # fmt: skip
def test_each_other_part_of_a_filter_must_be_equal(part):
    assert not AccessRuleFilter(**part).matches(a_rule())


def test_a_filter_with_unknown_values_is_recognized():
    assert AccessRuleFilter(operation=Operation(99)).is_unknown
    assert AccessRuleFilter(pattern_type=PatternType(99)).is_unknown
    assert not AccessRuleFilter().is_unknown
