import pytest
from kio.schema.errors import ErrorCode
from support.nodes.consumer_group_runner import ConsumerGroupRunner

from broker_core.cluster import GroupOffset
from broker_core.group.offsets.offset_messages import CommitRequest, FetchRequest
from broker_core.model.identifiers import TopicPartition

GROUP = "g"


def commit(runner, member_id, epoch, *partitions, is_transactional=False, **fields):
    offsets = {TopicPartition("t", number): GroupOffset(offset=1) for number in partitions or (0,)}
    request = CommitRequest(group_id=GROUP, member_id=member_id, generation_id=epoch, offsets=offsets, **fields)
    return runner.groups.commit_refusal(request, is_transactional=is_transactional).name


def fetch(runner, member_id, epoch):
    return runner.groups.fetch_refusal(FetchRequest(group_id=GROUP, member_id=member_id, member_epoch=epoch)).name


@pytest.fixture
def runner():
    """Member a has had t-0 and t-1 since epoch 2 and is in epoch 3; b has t-2 and t-3 since epoch 3."""
    runner = ConsumerGroupRunner()
    runner.create("t", 4)
    runner.join(GROUP, "a", "t")
    runner.join(GROUP, "b", "t")
    runner.heartbeat(GROUP, "a", 2)
    runner.heartbeat(GROUP, "a", 2, owned={"t": [0, 1]})
    runner.heartbeat(GROUP, "b", 3)
    assert runner.held(GROUP) == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}
    return runner


def test_a_member_in_its_current_epoch_may_commit_any_partition(runner):
    assert commit(runner, "a", 3, 0, 3) == "none"


def test_in_an_older_epoch_a_member_commits_partitions_that_it_owned_since(runner):
    assert commit(runner, "a", 2, 0, 1) == "none"
    assert commit(runner, "a", 2, 0, 2) == "stale_member_epoch"
    assert commit(runner, "a", 1, 0) == "stale_member_epoch"
    assert commit(runner, "b", 2, 2) == "stale_member_epoch"


def test_a_partition_pending_revocation_may_be_committed(runner):
    for newcomer in ("c", "d"):
        runner.join(GROUP, newcomer, "t")
    runner.heartbeat(GROUP, "a", 3, owned={"t": [0, 1]})
    assert runner.group(GROUP).members["a"].pending_revocation
    assert commit(runner, "a", 2, 0, 1) == "none"


def test_in_a_newer_epoch_a_commit_is_refused(runner):
    assert commit(runner, "a", 4) == "stale_member_epoch"


def test_a_non_member_may_commit_only_to_an_empty_group(runner):
    assert commit(runner, "", -1) == "unknown_member_id"
    assert commit(runner, "x", 3) == "unknown_member_id"
    for member_id in ("a", "b"):
        runner.heartbeat(GROUP, member_id, -1)
    assert commit(runner, "", -1) == "none"
    assert commit(runner, "a", 3) == "unknown_member_id"


def test_versions_without_stale_member_epoch_get_another_error(runner):
    assert commit(runner, "a", 3, knows_missing_groups=False) == "unsupported_version"


def test_within_a_transaction_the_error_is_that_of_the_classic_protocol(runner):
    assert commit(runner, "", -1, is_transactional=True) == "none"
    assert commit(runner, "a", 3, is_transactional=True, knows_missing_groups=False) == "none"
    assert commit(runner, "a", 9, is_transactional=True) == "illegal_generation"


def test_offsets_are_fetched_by_members_in_their_epoch_and_without_a_member(runner):
    assert fetch(runner, None, -1) == "none"
    assert fetch(runner, "a", 3) == "none"
    assert fetch(runner, "a", 2) == "stale_member_epoch"
    assert fetch(runner, "x", 3) == "unknown_member_id"


def test_the_coordinator_validates_a_commit_before_storing(runner):
    request = CommitRequest(
        group_id=GROUP, member_id="a", generation_id=9, offsets={TopicPartition("t", 0): GroupOffset(offset=1)}
    )
    reply = runner.ask(runner.coordinator.on_commit_offsets, request)
    assert reply.errors == {TopicPartition("t", 0): ErrorCode.stale_member_epoch}
