"""`streamlog partitions …`, decided by a controller of ours: see fronted_cluster. The last test is at three nodes."""

import io
import json
import time

import pytest
from support.controller.fronted_cluster import FrontedCluster

from broker_core.cli.command_line import run
from broker_core.protocol.api_table import ApiKey

SECONDS = 60


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def cluster():
    """Topic t on (1, 2) and (2, 3), u on (3, 1)."""
    with FrontedCluster(1, 2, 3) as fronted:
        fronted.small.create("t", (1, 2), (2, 3))
        fronted.small.create("u", (3, 1))
        yield fronted


@pytest.fixture
def partitions(streamlog, cluster):
    def call(*arguments, **options):
        place = ("--bootstrap-server", cluster.address)
        return streamlog("partitions", *arguments, *place, with_path=False, **options)

    return call


@pytest.fixture
def reassign(partitions):
    return lambda *arguments: partitions("reassign", *arguments)


def listed(outcome):
    assert outcome.status == 0, outcome.err
    return [(f"{each['topic']}-{each['partition']}", each["leader"], each["replicas"]) for each in outcome.json]


def table(outcome):
    """The rows below the headings."""
    return [line.split() for line in outcome.out.decode().splitlines()[2:]]


def going_on(reassign):
    return [
        (each["topic"], each["partition"], each["adding"], each["removing"])
        for each in reassign("--list", "--json").json
    ]


# list


def test_partitions_are_listed_with_leader_epoch_replicas_and_isr(partitions):
    assert table(partitions("list")) == [
        ["t", "0", "1", "0", "1,2", "1,2", "-"],
        ["t", "1", "2", "0", "2,3", "2,3", "-"],
        ["u", "0", "3", "0", "3,1", "3,1", "-"],
    ]
    assert listed(partitions("list", "--topic", "u", "--json")) == [("u-0", 3, [3, 1])]


def test_who_may_lead_without_loss_is_told_apart_from_who_is_in_sync(partitions, cluster):
    cluster.small.create("safe", (1, 2), min_insync_replicas="2")
    cluster.small.fence(2)
    assert ["safe", "0", "1", "0", "1,2", "1", "2"] in table(partitions("list"))
    (found,) = partitions("list", "--topic", "safe", "--json").json
    assert (found["isr"], found["elr"], found["last_known_elr"]) == ([1], [2], [])


def test_filters_show_partitions_without_a_leader_or_with_replicas_out_of_sync(partitions, cluster):
    cluster.small.create("single", (3,))
    for filter_ in ("--under-replicated", "--offline"):
        shown = partitions("list", filter_)
        assert (shown.status, shown.out, shown.err) == (0, b"", "there are no such partitions\n")
        assert partitions("list", filter_, "--json").json == []
    cluster.small.fence(3)
    assert listed(partitions("list", "--offline", "--json")) == [("single-0", None, [3])]
    under = [("t-1", 2, [2, 3]), ("u-0", 1, [3, 1])]
    assert [
        each for each in listed(partitions("list", "--under-replicated", "--json")) if each[0] != "single-0"
    ] == under
    assert table(partitions("list", "--offline"))[0][:3] == ["single", "0", "-"]


def test_more_partitions_than_a_page_holds_are_all_listed(partitions, cluster, monkeypatch):
    monkeypatch.setattr("broker_core.client.partition_placements._PAGE_PARTITIONS", 2)
    assert [each[0] for each in listed(partitions("list", "--json"))] == ["t-0", "t-1", "u-0"]
    assert len(cluster.asked(ApiKey.DESCRIBE_TOPIC_PARTITIONS)) == 2


def test_brokers_before_kafka_3_8_are_asked_for_metadata_and_tell_no_elr(partitions, cluster):
    cluster.is_too_old_for(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
    assert table(partitions("list", "--topic", "u")) == [["u", "0", "3", "0", "3,1", "3,1", "?"]]
    assert partitions("list", "--topic", "u", "--json").json[0]["elr"] is None
    assert "Topic 'nope' does not exist." in partitions("list", "--topic", "nope").err


@pytest.mark.parametrize("words", [("list",), ("reassign", "--list"), ("elect", "--preferred", "--all")])
def test_brokers_are_required(streamlog, words):
    refused = streamlog("partitions", *words, with_path=False)
    assert (refused.status, "give --bootstrap-server HOST:PORT" in refused.err) == (2, True)


# reassign


def test_all_partitions_of_a_topic_move_and_each_begins_with_the_next_broker(reassign, partitions):
    done = reassign("--topic", "t", "--replicas", "3,1")
    assert done.status == 0
    assert table(done) == [["t", "0", "1,2", "3,1"], ["t", "1", "2,3", "1,3"]]
    assert done.err == ("2 partitions reassigned; 'streamlog partitions reassign --list' shows those that go on\n")
    assert going_on(reassign) == [("t", 0, [3], [2]), ("t", 1, [1], [2])]
    assert table(reassign("--list")) == [["t", "0", "3,1,2", "3", "2"], ["t", "1", "1,3,2", "1", "2"]]
    assert listed(partitions("list", "--topic", "t", "--json"))[0] == ("t-0", 1, [3, 1, 2])


def test_one_partition_gets_the_replicas_in_the_order_given(reassign):
    assert table(reassign("--topic", "t", "--partition", "1", "--replicas", "1, 2,3")) == [["t", "1", "2,3", "1,2,3"]]
    assert going_on(reassign) == [("t", 1, [1], [])]


def test_the_file_of_kafkas_tool_is_read(reassign, tmp_path):
    entries = [
        {"topic": "t", "partition": 0, "replicas": [2, 3], "log_dirs": ["any", "any"]},
        {"topic": "u", "partition": 0, "replicas": [1]},
    ]
    path = tmp_path / "moves.json"
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    done = reassign("--file", path, "--json")
    assert done.json == [
        {"topic": "t", "partition": 0, "before": [1, 2], "after": [2, 3], "error": None},
        {"topic": "u", "partition": 0, "before": [3, 1], "after": [1], "error": None},
    ]
    assert going_on(reassign) == [("t", 0, [3], [1])]


def test_a_dry_run_shows_before_and_after_and_changes_nothing(reassign):
    shown = reassign("--topic", "t", "--replicas", "3,1", "--dry-run")
    assert table(shown) == [["t", "0", "1,2", "3,1"], ["t", "1", "2,3", "1,3"]]
    assert shown.err == "a dry run: 2 partitions would be reassigned\n"
    assert going_on(reassign) == []
    assert reassign("--list").err == "no reassignment goes on\n"


def test_a_broker_that_is_not_there_is_named_by_the_dry_run_and_by_the_controller(reassign):
    refused = reassign("--topic", "u", "--replicas", "1,9", "--dry-run")
    assert (refused.status, refused.err) == (1, "streamlog: u-0: broker 9 is not registered in the cluster\n")
    refused = reassign("--topic", "u", "--replicas", "1,9")
    assert refused.status == 1
    assert "streamlog: u-0: The manual partition assignment includes broker 9" in refused.err
    assert "0 partitions reassigned" in refused.err


def test_partitions_that_are_accepted_move_though_another_is_refused(reassign, tmp_path):
    path = tmp_path / "moves.json"
    entries = [{"topic": "t", "partition": 0, "replicas": [3]}, {"topic": "u", "partition": 0, "replicas": [9]}]
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    done = reassign("--file", path)
    assert (done.status, table(done)) == (1, [["t", "0", "1,2", "3"]])
    assert done.err.splitlines()[0].startswith("1 partition reassigned")
    assert going_on(reassign) == [("t", 0, [3], [1, 2])]


def test_reassignments_are_called_off(reassign, partitions):
    reassign("--topic", "t", "--replicas", "3,1")
    reassign("--topic", "u", "--replicas", "2,1")
    shown = reassign("--cancel", "--topic", "t", "--partition", "0", "--dry-run")
    assert (table(shown), shown.err) == (
        [["t", "0", "3,1,2", "1,2"]],
        "a dry run: 1 reassignment would be called off\n",
    )
    assert len(going_on(reassign)) == 3
    assert reassign("--cancel", "--topic", "t").err == "called 2 reassignments off\n"
    assert [place[:2] for place in going_on(reassign)] == [("u", 0)]
    assert reassign("--cancel", "--all").err == "called 1 reassignment off\n"
    assert reassign("--cancel", "--all").err == "called 0 reassignments off\n"
    assert sorted(listed(partitions("list", "--topic", "t", "--json"))[0][2]) == [1, 2]


def test_calling_off_what_does_not_go_on_is_an_error_where_it_is_named(reassign, tmp_path):
    path = tmp_path / "moves.json"
    path.write_text(json.dumps({"partitions": [{"topic": "t", "partition": 0, "replicas": [3]}]}))
    refused = reassign("--cancel", "--file", path)
    assert (refused.status, "t-0: No partition reassignment is in progress." in refused.err) == (1, True)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--topic", "nope", "--replicas", "1"), "Topic 'nope' does not exist."),
        (("--topic", "t", "--partition", "7", "--replicas", "1"), "Topic 't' has no partition 7: it has 2 partitions."),
        (("--cancel", "--topic", "nope"), "Topic 'nope' does not exist."),
    ],
)
def test_what_is_not_there_is_named(reassign, words, reason):
    refused = reassign(*words)
    assert (refused.status, refused.err) == (1, f"streamlog: {reason}\n")


def test_brokers_that_cannot_reassign_are_named(reassign, cluster):
    cluster.is_too_old_for(45)
    refused = reassign("--topic", "t", "--replicas", "1")
    assert refused.status == 1
    assert f"{cluster.address} speaks no version of AlterPartitionReassignments" in refused.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "give --file FILE, or --topic NAME with --replicas 1,2,3; or --list, or --cancel"),
        (("--topic", "t"), "give --file FILE, or --topic NAME with --replicas"),
        (("--replicas", "1"), "give --file FILE, or --topic NAME with --replicas"),
        (("--topic", "t", "--replicas", "1,x"), "--replicas 1,x: give broker ids, separated by commas"),
        (("--topic", "t", "--replicas", "1,2,1"), "--replicas 1,2,1: broker 1 is there twice"),
        (("--partition", "1", "--replicas", "1"), "--partition needs --topic"),
        (("--all", "--topic", "t", "--replicas", "1"), "--all needs --cancel"),
        (("--list", "--dry-run"), "--list takes no other option than"),
        (("--cancel",), "--cancel takes --file FILE, --topic NAME or --all"),
        (("--cancel", "--topic", "t", "--replicas", "1"), "--cancel takes --file FILE"),
    ],
)
def test_options_that_do_not_fit_are_wrong_usage(reassign, words, reason):
    refused = reassign(*words)
    assert (refused.status, reason in refused.err) == (2, True), refused.err


# elect


def test_preferred_leaders_come_back_and_the_others_are_left_alone(partitions, cluster):
    cluster.small.fence(3)
    cluster.small.beat(3)
    assert listed(partitions("list", "--topic", "u", "--json"))[0][1] == 1
    assert partitions("elect", "--preferred", "--all").err.startswith("streamlog: u-0: The preferred leader was not")
    _join(cluster, "u", 1, 3)
    done = partitions("elect", "--preferred", "--topic", "u", "--partition", "0")
    assert (done.status, done.err) == (0, "elected leaders of 1 partition\n")
    assert listed(partitions("list", "--topic", "u", "--json"))[0][1] == 3
    again = partitions("elect", "--preferred", "--topic", "t")
    assert (again.status, again.err) == (0, "elected leaders of 0 partitions; not needed for 2\n")
    assert partitions("elect", "--preferred", "--all", "--json").json == []


def test_an_unclean_election_gives_a_partition_without_a_leader_any_live_replica(partitions, cluster):
    cluster.small.fence(1)
    cluster.small.fence(2)
    cluster.small.beat(1)
    assert listed(partitions("list", "--offline", "--json")) == [("t-0", None, [1, 2])]
    done = partitions("elect", "--unclean", "--topic", "t", "--json")
    assert done.json == [
        {"topic": "t", "partition": 0, "result": "elected", "error": None},
        {"topic": "t", "partition": 1, "result": "not needed", "error": None},
    ]
    assert listed(partitions("list", "--topic", "t", "--json"))[0][1] == 1


@pytest.mark.parametrize(("answer", "status", "leader"), [("n\n", 130, None), ("y\n", 0, 1)])
def test_on_a_terminal_an_unclean_election_is_confirmed(cluster, capsys, monkeypatch, answer, status, leader):
    cluster.small.fence(1)
    cluster.small.fence(2)
    cluster.small.beat(1)
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    words = ["partitions", "elect", "--unclean", "--topic", "t", "--bootstrap-server", cluster.address]
    assert run(words) == status
    assert "Records that they do not have are lost." in capsys.readouterr().err
    assert cluster.small.partition("t").leader == (-1 if leader is None else leader)


def test_a_failed_election_is_an_error_with_its_partition(partitions, cluster):
    cluster.small.create("single", (3,))
    cluster.small.fence(3)
    failed = partitions("elect", "--unclean", "--topic", "single", "--json")
    assert failed.status == 1
    assert failed.json[0]["error"] == "single-0: Eligible topic partition leaders are not available."
    assert failed.err == "streamlog: single-0: Eligible topic partition leaders are not available.\n"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--all",), "give either --preferred or --unclean"),
        (("--all", "--preferred", "--unclean"), "give either --preferred or --unclean"),
        (("--preferred",), "give either --topic NAME"),
        (("--preferred", "--all", "--topic", "t"), "give either --topic NAME"),
        (("--preferred", "--all", "--partition", "1"), "--partition needs --topic"),
    ],
)
def test_an_election_says_of_what_kind_and_of_which_partitions(partitions, words, reason):
    refused = partitions("elect", *words)
    assert (refused.status, reason in refused.err) == (2, True), refused.err


def _join(cluster, topic, *isr):
    """The leader asks for that ISR."""
    from broker_core.controller.isr_changes import IsrProposal, plan_isr_change

    state = cluster.small.partition(topic)
    proposal = IsrProposal(
        leader_id=state.leader, topic_id=cluster.small.image.topics[topic].topic_id, number=0,
        leader_epoch=state.leader_epoch, partition_epoch=state.partition_epoch,
        isr=[(member, -1) for member in isr], recovery_state=0,
    )  # fmt: skip
    cluster.small.append(plan_isr_change(cluster.small.facts, proposal).record)


# At nodes of ours, each a process


@pytest.fixture
def at_cluster(streamlog, streamlog_cluster):
    def call(*words, status=0):
        outcome = streamlog(*words, "--bootstrap-server", streamlog_cluster.bootstrap_servers, with_path=False)
        assert outcome.status == status, outcome.err
        return outcome

    return call


def wait_until(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_partitions_move_a_dead_broker_is_seen_and_its_lead_comes_back(at_cluster, streamlog_cluster):
    def placed(number):
        return at_cluster("partitions", "list", "--topic", "t", "--json").json[number]

    def states():
        return {each["broker_id"]: each["state"] for each in at_cluster("broker", "list", "--json").json}

    assert states() == {1: "running", 2: "running", 3: "running"}
    at_cluster("topic", "create", "t", "--replica-assignment", "1:2,2:3", "--config", "min.insync.replicas=1")
    assert (placed(0)["replicas"], placed(1)["leader"]) == ([1, 2], 2)
    at_cluster("partitions", "reassign", "--topic", "t", "--partition", "0", "--replicas", "3,1")
    wait_until(lambda: at_cluster("partitions", "reassign", "--list", "--json").json == [])
    wait_until(lambda: placed(0)["replicas"] == [3, 1])

    streamlog_cluster.node(2).kill()
    wait_until(lambda: states()[2] in ("fenced", "gone") and placed(1)["leader"] == 3)
    assert (
        "The preferred leader was not available."
        in at_cluster("partitions", "elect", "--preferred", "--topic", "t", "--partition", "1", status=1).err
    )
    streamlog_cluster.start()
    wait_until(lambda: placed(1)["isr"] == [2, 3] or placed(1)["isr"] == [3, 2])
    at_cluster("partitions", "elect", "--preferred", "--all")
    wait_until(lambda: placed(1)["leader"] == 2)
    described = at_cluster("topic", "describe", "t", "--json").json["partitions"]
    assert [(each["leader"], sorted(each["isr"]), each["log_end_offset"]) for each in described] == [
        (3, [1, 3], 0),
        (2, [2, 3], 0),
    ]
