from uuid import UUID

import pytest

from broker_core.metadata.metadata_records import PartitionChangeRecord, PartitionRecord
from broker_core.metadata.partition_state import NO_LEADER, changed_state, created_state
from broker_core.model.exceptions import InconsistentMetadataError

A, B, C = UUID(int=101), UUID(int=102), UUID(int=103)
TOPIC = UUID(int=1000)


def created(**fields):
    given = {
        "replicas": (1, 2),
        "isr": (1, 2),
        "leader": 1,
        "leader_epoch": 4,
        "partition_epoch": 9,
        "directories": (A, B),
    }
    return created_state(PartitionRecord(partition_id=0, topic_id=TOPIC, **(given | fields)))


def change(**fields):
    return PartitionChangeRecord(partition_id=0, topic_id=TOPIC, **fields)


def test_every_change_raises_the_partition_epoch():
    assert changed_state(created(), change()).partition_epoch == 10


@pytest.mark.parametrize(("leader", "leader_epoch"), [(-2, 4), (1, 5), (2, 5), (NO_LEADER, 5)])
def test_a_change_that_names_a_leader_raises_the_leader_epoch_even_if_it_is_the_same(leader, leader_epoch):
    assert changed_state(created(), change(leader=leader)).leader_epoch == leader_epoch


@pytest.mark.parametrize("epoch", ["leader_epoch", "partition_epoch"])
def test_the_last_epoch_there_is_can_be_reached_and_not_passed(epoch):
    one_before_the_last, last = created(**{epoch: 2**31 - 2}), created(**{epoch: 2**31 - 1})
    assert getattr(changed_state(one_before_the_last, change(leader=2)), epoch) == 2**31 - 1
    with pytest.raises(InconsistentMetadataError, match="2147483647, the last that there is"):
        changed_state(last, change(leader=2))


def test_an_empty_list_is_a_value_and_a_missing_one_is_no_change():
    state = changed_state(created(eligible_leader_replicas=(2,)), change(isr=()))
    assert (state.isr, state.replicas, state.eligible_leader_replicas) == ((), (1, 2), (2,))


def test_replicas_from_before_directory_ids_have_unknown_directories():
    assert created(directories=()).directories == (UUID(int=0), UUID(int=0))
    grown = changed_state(created(directories=()), change(replicas=(1, 2, 3)))
    assert grown.directories == (UUID(int=0),) * 3


def test_other_replicas_need_their_directories():
    moved = changed_state(created(), change(replicas=(1, 2, 3), directories=(A, B, C)))
    assert moved.directories == (A, B, C)
    with pytest.raises(InconsistentMetadataError, match="3 replicas in 2 directories"):
        changed_state(created(), change(replicas=(1, 2, 3)))


def test_an_unknown_recovery_state_is_refused():
    with pytest.raises(InconsistentMetadataError, match="leader recovery state 2"):
        created(leader_recovery_state=2)
    assert changed_state(created(leader_recovery_state=1), change()).leader_recovery_state == 1
