from support.nodes.group_runner import GroupRunner

from broker_core.group.group_descriptions import GroupType, described, listed


def test_a_group_is_listed_with_its_described_state():
    runner = GroupRunner()
    runner.stable_group()
    group = runner.group()
    of_list, of_description = listed(group), described(group)
    assert (of_list.group_id, of_list.state, of_list.group_type) == ("g", "Stable", GroupType.CLASSIC)
    assert (of_description.state, of_description.protocol_type) == (of_list.state, of_list.protocol_type)


def test_group_types_have_kafkas_names():
    assert [kind.value for kind in GroupType] == ["classic", "consumer"]
