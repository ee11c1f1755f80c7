"""`streamlog quorum …`."""

import pytest
from kio.schema.errors import ErrorCode
from support.brokers.scripted_controller import (
    CLUSTER_ID,
    DESCRIBE_CLUSTER,
    DESCRIBE_QUORUM,
    ScriptedController,
)


@pytest.fixture
def controller():
    with ScriptedController() as scripted:
        yield scripted


@pytest.fixture
def quorum(streamlog):
    return lambda *arguments: streamlog("quorum", *arguments, with_path=False)


@pytest.mark.parametrize("option", ["--bootstrap-server", "--bootstrap-controller"])
def test_the_quorum_is_described(quorum, controller, option):
    described = quorum("describe", option, controller.address, "--json").json
    assert (described["leader_id"], described["leader_epoch"], described["high_watermark"]) == (1, 9, 90)
    replicas = [(r["node_id"], r["is_voter"], r["log_end_offset"], r["lag"]) for r in described["replicas"]]
    assert replicas == [(1, True, 100, 0), (2, True, 95, 5), (98, False, 60, 40)]
    shown = quorum("describe", option, controller.address)
    assert shown.err == "leader 1 in epoch 9, high watermark 90\n"
    assert all(word in shown.out.decode() for word in ("leader", "voter", "observer", "98"))


def test_a_controller_that_does_not_lead_is_asked_for_the_leader_which_then_answers(quorum, controller):
    with ScriptedController(leader=controller) as follower:
        described = quorum("describe", "--bootstrap-controller", follower.address, "--json").json
    assert (described["leader_id"], described["leader_epoch"], described["high_watermark"]) == (1, 9, 90)


def test_a_controller_that_knows_no_leader_is_asked_again_and_reported_when_the_time_is_over(
    quorum, controller, tmp_path
):
    (tmp_path / "client.properties").write_text("default.api.timeout.ms=300\nrequest.timeout.ms=300\n")
    asked = []

    def describe_without_leader(request):
        asked.append(request)
        return ScriptedController._cluster(controller, request)

    with ScriptedController(leader=controller) as follower:
        follower.script(DESCRIBE_CLUSTER, describe_without_leader)
        words = ("describe", "--bootstrap-controller", follower.address)
        refused = quorum(*words, "--command-config", tmp_path / "client.properties")
    assert refused.status == 1
    assert "another node leads" in refused.err
    assert len(asked) > 1


def test_a_broker_whose_controller_was_just_replaced_is_asked_again(quorum, controller):
    is_elected = False

    def say_that_it_is_a_broker(request):
        nonlocal is_elected
        is_elected = True
        fields = {"error_code": ErrorCode.mismatched_endpoint_type, "error_message": "a broker", "cluster_id": ""}
        return controller._answer_as(request, **fields, controller_id=-1, brokers=[], endpoint_type=1)

    with ScriptedController(leader=controller) as broker:
        refuse = broker._describe
        broker.script(
            DESCRIBE_QUORUM,
            lambda request: ScriptedController._describe(controller, request) if is_elected else refuse(request),
        )
        broker.script(DESCRIBE_CLUSTER, say_that_it_is_a_broker)
        described = quorum("describe", "--bootstrap-server", broker.address, "--json")
    assert is_elected
    assert described.json["leader_id"] == 1


def test_an_address_is_required(quorum):
    refused = quorum("describe")
    assert refused.status == 2
    assert "give either --bootstrap-server HOST:PORT or --bootstrap-controller HOST:PORT" in refused.err


def test_the_quorum_is_followed_into_a_directory_that_keeps_its_identity(quorum, controller, tmp_path):
    path = tmp_path / "observer"
    words = ("follow", "--bootstrap-controller", controller.address, "--path", str(path))
    followed = quorum(*words, "--until-offset", str(controller.end_offset))
    assert followed.status == 0, followed.err
    assert followed.err.startswith("epoch 9: controller 1 leads\n")
    assert f"replayed to offset {controller.end_offset:,}: brokers 1, 2;" in followed.err
    properties = (path / "meta.properties").read_text()
    assert f"cluster.id={CLUSTER_ID}\n" in properties
    assert "streamlog.format" not in properties
    assert quorum(*words, "--until-offset", "1").status == 0
    assert (path / "meta.properties").read_text() == properties


def test_the_directory_of_another_node_is_refused(quorum, controller, tmp_path):
    words = ("follow", "--bootstrap-controller", controller.address, "--path", str(tmp_path))
    assert quorum(*words, "--until-offset", "1").status == 0
    refused = quorum(*words, "--node-id", "7", "--until-offset", "1")
    assert refused.status == 1
    assert f"belongs to node 0 of cluster {CLUSTER_ID}" in refused.err
