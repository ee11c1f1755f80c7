import dataclasses

import pytest

from broker_core.client.cluster_admin import RegisteredBroker
from broker_core.client.migration_check import ClusterState, MoveVerdict, judge, moved_replicas
from broker_core.client.migration_directories import judge_directories
from broker_core.client.partition_placements import PartitionPlacement
from broker_core.client.quorum_description import QuorumDescription, QuorumReplica
from broker_core.model.client_settings import BrokerAddress
from broker_core.model.identifiers import TopicPartition

KAFKA_4_3 = {"metadata.version": 30, "kraft.version": 1, "group.version": 1, "transaction.version": 2}


def a_broker(broker_id, *, is_fenced=False):
    return RegisteredBroker(
        broker_id=broker_id, address=BrokerAddress(host="h", port=broker_id), rack=None, is_fenced=is_fenced
    )


def a_placement(number, replicas, *, isr=None, leader_id=None):
    return PartitionPlacement(
        partition=TopicPartition("t", number),
        leader_id=replicas[0] if leader_id is None else leader_id,
        leader_epoch=0,
        replicas=replicas,
        isr=replicas if isr is None else isr,
        offline_replicas=(),
    )


def a_quorum(*voters, leader_id=1, behind=()):
    return QuorumDescription(
        leader_id=leader_id,
        leader_epoch=3,
        high_watermark=100,
        replicas=[
            QuorumReplica(
                node_id=node_id,
                directory_id=None,
                is_voter=True,
                log_end_offset=40 if node_id in behind else 100,
                last_fetch_ms=60_000,
                last_caught_up_ms=1_000 if node_id in behind else 60_000,
            )
            for node_id in voters
        ],
        listeners={},
    )


STATE = ClusterState(
    cluster_id="c",
    features=KAFKA_4_3,
    brokers=[a_broker(1), a_broker(2)],
    placements=[a_placement(0, (1, 2)), a_placement(1, (2, 1))],
    reassignment_count=0,
    other_groups={},
    quorum=a_quorum(1, 2, 3),
)


def open_findings(leaving=(), **changes):
    state = dataclasses.replace(STATE, **changes)
    return [(each.subject, each.verdict) for each in judge(state, leaving) if each.verdict is not MoveVerdict.OK]


def test_a_cluster_of_kafka_4_3_where_all_is_in_sync_is_in_order():
    assert open_findings() == []
    assert [each.subject for each in judge(STATE)] == [*sorted(KAFKA_4_3), "groups", "brokers", "partitions", "quorum"]


@pytest.mark.parametrize(
    ("name", "level"),
    [("metadata.version", 31), ("metadata.version", 6), ("transaction.version", 3), ("a.feature.of.tomorrow", 1)],
)
def test_a_level_that_nodes_of_ours_do_not_know_is_refused_by_name(name, level):
    assert open_findings(features=KAFKA_4_3 | {name: level}) == [(name, MoveVerdict.REFUSED)]


def test_an_unknown_feature_at_level_0_is_in_order():
    assert open_findings(features=KAFKA_4_3 | {"a.feature.of.tomorrow": 0}) == []


def test_a_static_quorum_keeps_its_voters():
    (finding,) = [each for each in judge(dataclasses.replace(STATE, features={"metadata.version": 30})) if each.advice]
    assert (finding.subject, finding.verdict) == ("voters", MoveVerdict.WAIT)
    assert "kraft.version=1" in finding.advice


@pytest.mark.parametrize(
    ("subject", "changes"),
    [
        ("groups", {"other_groups": {"g": "share"}}),
        ("brokers", {"brokers": [a_broker(1), a_broker(2, is_fenced=True)]}),
        ("partitions", {"placements": [a_placement(0, (1, 2), isr=(1,))]}),
        ("partitions", {"placements": [a_placement(0, (1, 2), leader_id=-1)]}),
        ("partitions", {"reassignment_count": 2}),
        ("quorum", {"quorum": a_quorum(1, 2, 3, behind=(3,))}),
        ("quorum", {"quorum": a_quorum(1, 2, 3, leader_id=-1)}),
    ],
)
def test_what_is_not_in_order_is_waited_for(subject, changes):
    assert open_findings(**changes) == [(subject, MoveVerdict.WAIT)]


def test_a_long_list_of_names_is_cut():
    state = dataclasses.replace(STATE, placements=[a_placement(number, (1, 2), isr=(1,)) for number in range(8)])
    (finding,) = [each for each in judge(state) if each.verdict is MoveVerdict.WAIT]
    assert finding.found.endswith("t-0, t-1, t-2, t-3, t-4 and 3 more")


def test_a_node_may_go_when_it_holds_no_replica_and_has_no_vote():
    def of_node(node_id, **changes):
        return judge(dataclasses.replace(STATE, **changes), [node_id])[-1]

    holds = of_node(1)
    assert (holds.verdict, holds.found) == (MoveVerdict.WAIT, "holds 2 replicas and leads 1 partitions")
    votes = of_node(3)
    assert (votes.verdict, votes.found) == (MoveVerdict.WAIT, "holds no replica and is a voter")
    assert of_node(3, quorum=a_quorum(1, 2)).verdict is MoveVerdict.OK


def test_a_plan_puts_one_node_in_the_place_of_another_and_keeps_the_order():
    placements = [a_placement(0, (1, 2)), a_placement(1, (2, 3)), a_placement(2, (4, 1)), a_placement(3, (3, 5))]
    moved = {each.partition.partition: replicas for each, replicas in moved_replicas(placements, {1: 4, 2: 6})}
    assert moved == {0: (4, 6), 1: (6, 3), 2: (4,)}


def test_directories_of_another_cluster_are_refused_and_those_of_none_are_not(tmp_path):
    for name, cluster_id in (("same", "c" * 22), ("other", "d" * 22)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta.properties").write_text(
            f"version=1\nnode.id=4\ncluster.id={cluster_id}\ndirectory.id=RNIK2-VHzSLAw6tpqtYUsA\n"
        )
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "meta.properties").write_text("what?")
    names = ("same", "other", "damaged", "missing")
    findings = list(judge_directories("c" * 22, [tmp_path / name for name in names]))
    refused = MoveVerdict.REFUSED
    assert [each.verdict for each in findings] == [MoveVerdict.OK, refused, refused, MoveVerdict.OK]
    assert "of node 4 of the cluster " + "d" * 22 in findings[1].found
