import pytest
from support.nodes.group_runner import ORDERS, ORDERS_SUBSCRIPTION, GroupRunner

from broker_core.model.identifiers import TopicPartition

OTHER = TopicPartition("other", 0)


@pytest.fixture
def runner():
    return GroupRunner()


def test_a_stable_group_is_described_with_metadata_and_assignments(runner):
    (leader,) = runner.stable_group()
    described = runner.coordinator.describe("g")
    assert (described.state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    (member,) = described.members
    assert (member.member_id, member.client_id, member.client_host) == (leader, "c", "/127.0.0.1")
    assert (member.metadata, member.assignment) == (ORDERS_SUBSCRIPTION, leader.upper().encode())


def test_a_rebalancing_group_is_described_with_its_members_only(runner):
    member_id, _ = runner.new_member()
    described = runner.coordinator.describe("g")
    assert (described.state, described.protocol_data) == ("PreparingRebalance", "")
    assert [(member.member_id, member.metadata) for member in described.members] == [(member_id, b"")]


def test_a_missing_group_is_dead(runner):
    described = runner.coordinator.describe("none")
    assert (described.error_code.name, described.error_message) == ("group_id_not_found", "Group none not found.")
    assert described.state == "Dead"


def test_groups_are_filtered_by_state_and_type_case_insensitively(runner):
    runner.stable_group()
    runner.commit("simple")
    runner.join("h", requires_known_member_id=False)

    def listed(**filters):
        return {group.group_id for group in runner.coordinator.list_groups(**filters)}

    assert listed() == {"g", "simple", "h"}
    assert listed(states=["STABLE"]) == {"g"}
    assert listed(states=["empty", " PreparingRebalance "]) == {"simple", "h"}
    assert listed(types=["Classic"], states=["stable"]) == {"g"}
    assert listed(types=["consumer"]) == listed(types=["nonsense"]) == listed(states=["nonsense"]) == set()
    (group,) = runner.coordinator.list_groups(states=["stable"])
    assert (group.protocol_type, group.state, group.group_type.value) == ("consumer", "Stable", "classic")


def test_an_empty_group_is_deleted_with_its_offsets(runner):
    (leader,) = runner.stable_group()
    runner.commit("g", 1, leader, offsets={ORDERS: 1, OTHER: 2})
    assert runner.delete_group("g") == "non_empty_group"
    runner.leave("g", leader)
    runner.commit("g", offsets={ORDERS: 3}, producer_id=7)
    assert runner.delete_group("g") == "none"
    assert runner.delete_group("g") == "group_id_not_found"
    runner.mark(7)
    assert (runner.fetch().offsets, runner.coordinator.list_groups()) == ({}, ())
    assert runner.replayed().list_groups() == ()


def test_a_group_without_offsets_can_be_deleted(runner):
    runner.join()
    assert runner.delete_group("g") == "none"
    assert runner.group() is None


def test_a_deleted_topic_has_no_offsets(runner):
    runner.commit(offsets={ORDERS: 1, OTHER: 1})
    runner.run(runner.coordinator.forget_topic("orders"))
    assert list(runner.fetch().offsets) == [OTHER]


def test_an_unknown_timer_does_nothing(runner):
    assert runner.coordinator.on_timer("consumer-session:1:g:m", 5).reply.timers == ()
