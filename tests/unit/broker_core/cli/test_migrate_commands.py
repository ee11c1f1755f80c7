"""`streamlog migrate plan`, and what `check` refuses; `tests/cluster` has checks of a whole cluster."""

import pytest
from support.controller.fronted_cluster import FrontedCluster


@pytest.fixture
def cluster():
    with FrontedCluster(1, 2, 3, 4, 5) as fronted:
        fronted.small.create("t", (1, 2), (2, 3), (3, 5))
        yield fronted


@pytest.fixture
def migrate(streamlog, cluster):
    return lambda *words: streamlog("migrate", *words, "--bootstrap-server", cluster.address, with_path=False)


def test_the_plan_is_the_file_of_partitions_reassign(migrate, cluster, tmp_path, streamlog):
    planned = migrate("plan", "--replace", "1=4,2=5")
    assert planned.json == {
        "version": 1,
        "partitions": [
            {"topic": "t", "partition": 0, "replicas": [4, 5]},
            {"topic": "t", "partition": 1, "replicas": [5, 3]},
        ],
    }
    assert planned.err == "2 partitions to move\n"
    (tmp_path / "moves.json").write_bytes(planned.out)
    words = ("partitions", "reassign", "--file", tmp_path / "moves.json", "--bootstrap-server", cluster.address)
    begun = streamlog(*words, with_path=False)
    assert begun.status == 0, begun.err
    assert migrate("plan", "--replace", "4=1,5=2").status == 0


def test_a_plan_that_moves_nothing_says_so(migrate):
    refused = migrate("plan", "--replace", "7=8")
    assert (refused.status, refused.out) == (2, b"")
    assert "no partition has a replica on 7" in refused.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "--replace (nothing): give OLD=NEW"),
        ("1=2,1=3", "each node once"),
        ("1=3,2=3", "each node once"),
        ("1=2,2=3", "a node is replaced and takes another one's place"),
        ("a=b", "give OLD=NEW"),
    ],
)
def test_replacements_that_make_no_sense_are_refused(migrate, text, told):
    refused = migrate("plan", "--replace", text)
    assert refused.status == 2
    assert told in refused.err


def test_ids_that_are_no_numbers_are_refused(migrate):
    refused = migrate("check", "--leaving", "1,b")
    assert refused.status == 2
    assert "--leaving 1,b: give node ids, separated by commas" in refused.err
