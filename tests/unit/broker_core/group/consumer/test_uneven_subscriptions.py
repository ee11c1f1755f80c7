from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from support.runs.examples import examples

from broker_core.group.consumer.uneven_subscriptions import assign_uneven

TOPICS = [UUID(int=number) for number in range(1, 5)]


@st.composite
def groups(draw):
    counts = {topic: draw(st.integers(1, 8)) for topic in TOPICS}
    topics = st.frozensets(st.sampled_from(TOPICS))
    subscriptions = draw(st.dictionaries(st.sampled_from("abcdef"), topics, min_size=1))
    return counts, subscriptions


def loads(assignment):
    return {name: sum(map(len, partitions.values())) for name, partitions in assignment.items()}


def check(assignment, subscriptions, counts):
    wanted = frozenset().union(*subscriptions.values())
    owned = [
        (topic, partition)
        for name, partitions in assignment.items()
        for topic, numbers in partitions.items()
        for partition in numbers
        if topic in subscriptions[name]
    ]
    assert sorted(owned) == sorted((topic, partition) for topic in wanted for partition in range(counts[topic]))
    sizes = loads(assignment)
    for topic in wanted:
        subscribers = [name for name in subscriptions if topic in subscriptions[name]]
        least = min(sizes[name] for name in subscribers)
        assert all(sizes[name] - least <= 1 for name in subscribers if assignment[name].get(topic))


@given(groups(), st.data())
@examples(50)
def test_every_partition_is_assigned_once_and_no_single_move_improves_the_balance(group, data):
    counts, subscriptions = group
    first = assign_uneven(subscriptions, {name: {} for name in subscriptions}, counts)
    check(first, subscriptions, counts)
    leaver = data.draw(st.sampled_from(sorted(subscriptions)))
    rest = {name: topics for name, topics in subscriptions.items() if name != leaver}
    if rest:
        check(assign_uneven(rest, first, counts), rest, counts)


@given(groups())
@examples(30)
def test_a_balanced_assignment_is_unchanged(group):
    counts, subscriptions = group
    first = assign_uneven(subscriptions, {name: {} for name in subscriptions}, counts)
    assert assign_uneven(subscriptions, first, counts) == first


def test_unsubscribed_partitions_move_to_a_subscriber():
    t, u = TOPICS[:2]
    targets = {"a": {t: frozenset({0, 1})}, "b": {}}
    found = assign_uneven({"a": frozenset({u}), "b": frozenset({t, u})}, targets, {t: 2, u: 1})
    assert found == {"a": {u: frozenset({0})}, "b": {t: frozenset({0, 1})}}
