from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from support.runs.examples import examples

from broker_core.group.consumer.consumer_assignors import MemberSpec, assign

T, U, V = (UUID(int=number) for number in (1, 2, 3))


def everything(topics, counts):
    return {(topic, partition) for topic in topics for partition in range(counts[topic])}


def pairs(assignment):
    return [
        (member, topic, partition)
        for member, partitions in assignment.items()
        for topic, numbers in partitions.items()
        for partition in numbers
    ]


@st.composite
def group_histories(draw):
    """Counts of topics, and who is a member, round after round."""
    counts = {topic: draw(st.integers(1, 9)) for topic in (T, U, V)}
    members = st.sets(st.sampled_from("abcdefgh"), min_size=1)
    return counts, draw(st.lists(members, min_size=1, max_size=5))


@given(group_histories())
@examples(50)
def test_uniform_balances_and_moves_as_little_as_possible(history):
    counts, rounds = history
    target = {}
    for members in rounds:
        specs = {name: MemberSpec(topics=frozenset(counts), target=target.get(name, {})) for name in members}
        found = assign("uniform", specs, counts)
        owned = pairs(found)
        assert sorted((topic, partition) for _, topic, partition in owned) == sorted(everything(counts, counts))
        sizes = [sum(member == name for member, _, _ in owned) for name in members]
        assert max(sizes) - min(sizes) <= 1
        share, extra = divmod(sum(counts.values()), len(members))
        held = [len(pairs({name: target.get(name, {})})) for name in members]
        most_that_can_stay = sum(min(size, share) for size in held) + min(extra, sum(size > share for size in held))
        assert len(set(owned) & set(pairs(target))) == most_that_can_stay
        target = found


@given(st.integers(1, 12), st.integers(1, 6))
@examples(40)
def test_range_assigns_contiguous_partitions_and_co_partitions_equal_topics(count, members):
    names = [f"m{number}" for number in range(members)]
    specs = {name: MemberSpec(topics=frozenset({T, U})) for name in names}
    found = assign("range", specs, {T: count, U: count})
    assert sorted((topic, partition) for _, topic, partition in pairs(found)) == sorted(
        everything((T, U), {T: count, U: count})
    )
    at = 0
    for name in names:
        numbers = sorted(found[name].get(T, ()))
        assert numbers == sorted(found[name].get(U, ()))
        assert numbers == list(range(at, at + len(numbers)))
        at += len(numbers)


def test_range_orders_static_members_first_by_instance_id():
    specs = {
        "a": MemberSpec(topics=frozenset({T})),
        "z": MemberSpec(topics=frozenset({T}), instance_id="i1"),
        "y": MemberSpec(topics=frozenset({T}), instance_id="i2"),
    }
    found = assign("range", specs, {T: 3})
    assert {name: sorted(partitions[T]) for name, partitions in found.items()} == {"z": [0], "y": [1], "a": [2]}


def test_range_assigns_a_topic_only_to_its_subscribers():
    specs = {"a": MemberSpec(topics=frozenset({T, U})), "b": MemberSpec(topics=frozenset({U}))}
    assert assign("range", specs, {T: 2, U: 3}) == {
        "a": {T: frozenset({0, 1}), U: frozenset({0, 1})},
        "b": {U: frozenset({2})},
    }


def test_with_more_members_than_partitions_some_members_get_none():
    specs = {name: MemberSpec(topics=frozenset({T})) for name in "abc"}
    for assignor in ("uniform", "range"):
        assert len(pairs(assign(assignor, specs, {T: 2}))) == 2


def test_empty_groups_and_empty_topics_have_empty_assignments():
    assert assign("uniform", {}, {}) == {}
    assert pairs(assign("uniform", {"a": MemberSpec(topics=frozenset())}, {})) == []


def test_members_get_only_topics_of_their_subscriptions():
    specs = {"a": MemberSpec(topics=frozenset({T})), "b": MemberSpec(topics=frozenset({T, U}))}
    found = assign("uniform", specs, {T: 2, U: 2})
    assert found == {"a": {T: frozenset({0, 1})}, "b": {U: frozenset({0, 1})}}
