"""What becomes of one partition: each case is one row of states, wishes and the change that follows."""

from dataclasses import replace
from uuid import UUID

import pytest

from broker_core.controller.partition_change import (
    ChangeRules,
    Election,
    PartitionWish,
    plan_partition_change,
)
from broker_core.metadata.metadata_records import PartitionChangeRecord
from broker_core.metadata.partition_state import PartitionState

TOPIC, NEW_DIRECTORY = UUID(int=77), UUID(int=5000)


def a_state(**fields):
    replicas = fields.pop("replicas", (1, 2, 3))
    directories = tuple(UUID(int=1000 + replica) for replica in replicas)
    start = PartitionState(replicas=replicas, directories=directories, isr=(1, 2, 3), leader=1, leader_epoch=4)
    return replace(start, **fields)


def change(state, *, alive=(1, 2, 3), minimum=1, elr=True, level=30, **target):
    """The fields of the change that are not at their default; None if nothing changes."""
    rules = ChangeRules(
        is_acceptable=lambda broker_id: broker_id in alive,
        min_insync_replicas=minimum,
        level=level,
        has_eligible_leaders=elr,
        default_directory=lambda broker_id: NEW_DIRECTORY,
    )
    record = plan_partition_change(TOPIC, 0, state, rules, PartitionWish(**target))
    if record is None:
        return None
    nothing = PartitionChangeRecord(topic_id=TOPIC, partition_id=0, version=record.version)
    return {
        name: getattr(record, name)
        for name in PartitionChangeRecord.__dataclass_fields__
        if getattr(record, name) != getattr(nothing, name)
    }


OFFLINE = a_state(isr=(1,), leader=-1)
ABANDONED = a_state(isr=(), leader=-1, last_known_elr=(2,))
ELIGIBLE = a_state(isr=(), leader=-1, eligible_leader_replicas=(2, 3), last_known_elr=(3,))


@pytest.mark.parametrize(
    ("state", "wish", "expected"),
    [
        (a_state(), {}, None),
        (a_state(), {"isr": (1, 2)}, {"isr": (1, 2)}),
        (a_state(), {"isr": (2, 3), "alive": (2, 3)}, {"isr": (2, 3), "leader": 2}),
        (a_state(), {"isr": (1, 2), "level": 11}, {"isr": (1, 2), "leader": 1}),
        (a_state(isr=(1, 2)), {"isr": (1, 2, 3), "level": 11}, {"isr": (1, 2, 3)}),
        # eligible leader replicas
        (a_state(), {"isr": (1, 2), "minimum": 3}, {"isr": (1, 2), "eligible_leader_replicas": (3,)}),
        (a_state(isr=(1,)), {"isr": (), "alive": (2, 3), "elr": False}, {"leader": -1}),
        (
            a_state(isr=(1,)), {"isr": (), "alive": (2, 3)},
            {"isr": (), "leader": -1, "eligible_leader_replicas": (1,), "last_known_elr": (1,)},
        ),
        (
            a_state(isr=(1,), eligible_leader_replicas=(2,)), {"isr": (), "alive": (2, 3), "minimum": 2},
            {"isr": (2,), "leader": 2, "eligible_leader_replicas": (1,)},
        ),
        (
            a_state(isr=(1,)), {"isr": (), "alive": (2, 3), "unclean_brokers": frozenset({1})},
            {"isr": (), "leader": -1, "last_known_elr": (1,)},
        ),
        (
            a_state(isr=(1,), eligible_leader_replicas=(2,)), {"isr": (1, 2), "minimum": 2},
            {"isr": (1, 2), "eligible_leader_replicas": ()},
        ),
        # nobody is in sync
        (OFFLINE, {"alive": (1,)}, {"leader": 1}),
        (OFFLINE, {"alive": (2,), "elr": False}, None),
        (OFFLINE, {"alive": (2,), "elr": False, "election": Election.UNCLEAN},
         {"leader": 2, "isr": (2,), "leader_recovery_state": 1}),
        (ELIGIBLE, {"alive": (3,), "minimum": 3},
         {"leader": 3, "isr": (3,), "eligible_leader_replicas": (2,), "last_known_elr": ()}),
        (ELIGIBLE, {"alive": (1,), "minimum": 3}, None),
        (ELIGIBLE, {"alive": (1,), "minimum": 3, "election": Election.UNCLEAN},
         {"leader": 1, "isr": (1,), "leader_recovery_state": 1, "eligible_leader_replicas": (), "last_known_elr": ()}),
        (ABANDONED, {"alive": (1, 3), "minimum": 3}, None),
        (ABANDONED, {"alive": (1, 2, 3), "minimum": 3},
         {"leader": 2, "isr": (2,), "leader_recovery_state": 1, "last_known_elr": ()}),
        # preferred elections
        (a_state(leader=2), {"election": Election.PREFERRED}, {"leader": 1}),
        (a_state(leader=2, isr=(2, 3)), {"election": Election.PREFERRED}, None),
        (a_state(leader=2), {"election": Election.PREFERRED, "alive": (2, 3)}, None),
        (a_state(leader=2), {}, None),
        # reassignments
        (
            a_state(), {"replicas": (1, 2, 4), "adding": (4,), "removing": ()},
            {"replicas": (1, 2, 4), "adding_replicas": (4,), "leader": 1,
             "directories": (UUID(int=1001), UUID(int=1002), NEW_DIRECTORY)},
        ),
        (
            a_state(replicas=(1, 2, 3, 4), isr=(1, 2, 3), adding_replicas=(4,), removing_replicas=(1,)),
            {"isr": (1, 2, 3, 4), "alive": (1, 2, 3, 4)},
            {"replicas": (2, 3, 4), "adding_replicas": (), "removing_replicas": (), "isr": (2, 3, 4), "leader": 2,
             "directories": (UUID(int=1002), UUID(int=1003), UUID(int=1004))},
        ),
        (
            a_state(replicas=(1, 2, 3, 4), isr=(1, 2, 3), adding_replicas=(4,), removing_replicas=(1,)),
            {"isr": (1, 2), "alive": (1, 2, 3, 4)}, {"isr": (1, 2)},
        ),
        (  # a smaller factor needs all who stay
            a_state(isr=(1, 2)), {"replicas": (2, 3, 1), "adding": (), "removing": (1,), "alive": (1, 2, 3)},
            {"replicas": (2, 3, 1), "removing_replicas": (1,),
             "directories": (UUID(int=1002), UUID(int=1003), UUID(int=1001))},
        ),
        (
            a_state(), {"replicas": (2, 3, 1), "adding": (), "removing": (1,), "alive": (1, 2, 3)},
            {"replicas": (2, 3), "isr": (2, 3), "leader": 2, "directories": (UUID(int=1002), UUID(int=1003))},
        ),
        (  # its log is deleted: not eligible, though below the minimum
            a_state(isr=(1, 2), eligible_leader_replicas=(3,)),
            {"replicas": (1, 2, 3), "adding": (), "removing": (3,), "minimum": 3, "alive": (1, 2)},
            {"replicas": (1, 2), "leader": 1, "eligible_leader_replicas": (),
             "directories": (UUID(int=1001), UUID(int=1002))},
        ),
        # recovery
        (a_state(isr=(1,), leader_recovery_state=1), {"recovery_state": 0}, {"leader_recovery_state": 0}),
    ],
)  # fmt: skip
def test_a_change_is_what_differs(state, wish, expected):
    assert change(state, **wish) == expected


def test_records_are_written_in_the_version_of_the_clusters_level():
    rules = ChangeRules(
        is_acceptable=lambda broker_id: True, min_insync_replicas=1, level=16, has_eligible_leaders=False,
        default_directory=lambda broker_id: NEW_DIRECTORY,
    )  # fmt: skip
    for level, version in ((16, 0), (17, 1), (22, 1), (23, 2), (30, 2)):
        record = plan_partition_change(TOPIC, 0, a_state(), replace(rules, level=level), PartitionWish(isr=(1, 2)))
        assert record.version == version
