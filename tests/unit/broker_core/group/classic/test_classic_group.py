import pytest

from broker_core.group.classic.classic_group import MAX_GENERATION, ClassicGroup
from broker_core.group.classic.classic_group_records import StoredGroup, StoredMember
from broker_core.group.classic.classic_member import ClassicMember
from broker_core.group.classic.classic_messages import JoinProtocol, JoinRequest
from broker_core.group.classic.classic_states import ClassicState


def protocols(names):
    return tuple(JoinProtocol(name=name, metadata=name.encode()) for name in names.split())


def a_member(member_id, names="range", *, instance_id=None):
    request = JoinRequest(
        group_id="g",
        group_instance_id=instance_id,
        session_timeout_ms=1,
        rebalance_timeout_ms=1,
        protocol_type="consumer",
        protocols=protocols(names),
    )
    return ClassicMember.joining(member_id, request, 1)


def a_group(*members):
    group = ClassicGroup("g")
    for member in members:
        group.add(member, "consumer")
    return group


@pytest.mark.parametrize(
    ("liked", "chosen"),
    [
        (["range"], "range"),
        (["range sticky", "sticky range", "sticky range"], "sticky"),
        (["range sticky", "sticky range"], "range"),
        (["a b", "b"], "b"),
        (["a b c", "c b", "c b"], "c"),
    ],
)
def test_the_chosen_protocol_is_the_most_preferred_that_all_members_support(liked, chosen):
    assert a_group(*(a_member(str(n), names) for n, names in enumerate(liked))).select_protocol() == chosen


def test_a_group_supports_a_member_that_shares_a_protocol_with_all():
    group = a_group(a_member("1", "a b"), a_member("2", "b c"))
    group.state = ClassicState.STABLE
    assert group.supports("consumer", protocols("x b"))
    assert not group.supports("consumer", protocols("a c"))
    assert not group.supports("connect", protocols("b"))
    group.remove("2")
    assert group.supports("consumer", protocols("a"))


def test_an_empty_group_supports_any_member_with_a_type_and_a_protocol():
    group = ClassicGroup("g")
    assert group.supports("any", protocols("x"))
    assert not group.supports("", protocols("x"))
    assert not group.supports("any", ())


def test_a_protocol_listed_twice_by_a_member_counts_once():
    group = a_group(a_member("1", "a a"), a_member("2", "b"))
    group.state = ClassicState.STABLE
    assert not group.supports("consumer", protocols("a"))


def test_the_first_member_is_the_leader_and_is_succeeded_by_the_next():
    group = a_group(a_member("1"), a_member("2"), a_member("3"))
    assert group.leader_id == "1"
    group.remove("1")
    assert group.leader_id == "2"
    group.remove("2"), group.remove("3")
    assert group.leader_id is None


def test_a_leader_that_did_not_join_loses_the_lead_to_one_that_did():
    group = a_group(a_member("1"), a_member("2"))
    group.members["1"].join_ticket = None
    assert group.maybe_elect_joined_leader()
    assert group.leader_id == "2"
    group.members["2"].join_ticket = None
    assert not group.maybe_elect_joined_leader()
    assert group.leader_id == "2"


def test_a_static_member_keeps_its_place_under_a_new_id():
    group = a_group(a_member("1", instance_id="i"), a_member("2"))
    group.replace_static("1", "1b")
    assert (group.leader_id, group.static_member_id("i")) == ("1b", "1b")
    assert set(group.members) == {"1b", "2"}
    assert group.refusal_of("1", "i").name == "fenced_instance_id"
    assert group.refusal_of("1b", "i").name == "none"
    assert group.refusal_of("2", "j").name == "unknown_member_id"


def test_generation_ids_wrap_around():
    group = a_group(a_member("1"))
    group.state = ClassicState.PREPARING_REBALANCE
    group.generation_id = MAX_GENERATION
    group.begin_generation(0)
    assert group.generation_id == 1


STORED = StoredGroup(
    protocol_type="consumer",
    generation_id=5,
    protocol="range",
    leader="1",
    state_timestamp_ms=77,
    members=(
        StoredMember(member_id="1", rebalance_timeout_ms=1, session_timeout_ms=1, subscription=b"range"),
        StoredMember(member_id="9", group_instance_id="i", rebalance_timeout_ms=1, session_timeout_ms=1),
    ),
)


def test_a_replayed_group_matches_the_stored_one():
    group = ClassicGroup("g")
    group.replay(STORED)
    assert group.as_stored() == STORED
    assert (group.state, group.static_member_id("i")) == (ClassicState.STABLE, "9")


def test_a_known_member_keeps_fields_that_the_record_lacks():
    group = a_group(a_member("1", "range sticky"))
    group.replay(STORED)
    assert [protocol.name for protocol in group.members["1"].protocols] == ["range", "sticky"]
    assert group.as_stored() == STORED


def test_a_record_without_members_ends_a_generation_but_not_a_rebalance():
    group = ClassicGroup("g")
    group.replay(STORED)
    group.replay(StoredGroup(protocol_type="consumer", generation_id=6))
    assert (group.state, group.generation_id, group.members) == (ClassicState.EMPTY, 6, {})
    joining = a_group(a_member("1"))
    joining.state = ClassicState.PREPARING_REBALANCE
    joining.replay(StoredGroup())
    assert list(joining.members) == ["1"]
