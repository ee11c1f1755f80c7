"""Controllers as processes with brokers at them: one is active, the next one goes on where it was."""

import asyncio
import time
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from support.controller.small_cluster import CountingDice
from support.quorum.asking_broker import AskingBroker, ask
from support.quorum.our_quorum import CLUSTER_ID, OurQuorum

from broker_core.controller.cluster_controller import ControllerTimings
from broker_core.controller.cluster_facts import ClusterDefaults
from broker_core.controller.requests.controller_api import ControllerApi
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.log_directory.committed_image import CommittedImage
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_records import NoOpRecord, RegisterControllerRecord, RemoveTopicRecord
from broker_core.model.exceptions import RequestRefusedError
from broker_core.model.limits import MAX_WAITING_CONTROLLER_ANSWERS
from broker_core.protocol.api_table import message_types
from broker_core.protocol.message_builder import build
from broker_core.server.quorum.active_controller import ActiveController
from broker_core.storage.os_file_system import OsFileSystem
from broker_core.storage.quorum_log import QuorumLog


class StillClock:
    def now_ms(self):
        return 0


class DrivenActive:
    """An active controller whose log is a list; nothing is committed until the test says so."""

    def __init__(self):
        self.proposed, self.resigned, self.answers = [], 0, []
        self.controller = ActiveController(
            cluster_id="cluster", clock=StillClock(), entropy=CountingDice(), defaults=ClusterDefaults(),
            timings=ControllerTimings(), propose=lambda at, records: self.proposed.append((at, records)),
            resign=self.resign, leader_id=lambda: 3,
        )  # fmt: skip

    def resign(self):
        self.resigned += 1

    def begin(self):
        own = RegisterControllerRecord(controller_id=1, incarnation_id=UUID(int=1000), zk_migration_ready=False)
        self.controller.begin(MetadataImage(), next_offset=0, own=own)

    def ask(self, plan):
        api = ControllerApi(key=0, versions=range(1), plan=plan, refuse=lambda message, error, text: (error, text))
        self.controller.handle(api, None, self.answers.append)


def driven(story):
    async def run():
        story(DrivenActive())

    asyncio.run(run())


def nothing(controller, message, now_ms):
    return CoordinatorResult(reply="done")


@pytest.fixture
def quorum(tmp_path):
    with OurQuorum(tmp_path, settings=("broker.session.timeout.ms=2000",)) as quorum:
        quorum.start()
        yield quorum


def a_broker(quorum, broker_id):
    return AskingBroker(broker_id, quorum.ports.values(), cluster_id=CLUSTER_ID)


def image_of(quorum, node_id):
    """As a stopped node has it on its disk."""
    log = QuorumLog(OsFileSystem(), str(quorum.metadata_folder(node_id)))
    image = CommittedImage(log)
    image.replay_to(log.end_offset)
    log.close()
    return image.image


def created(broker, name):
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
    return broker.forward(19, {"topics": [topic], "timeout": 1000}).topics[0].error_code


def test_one_controller_is_active_and_the_others_say_that_they_are_not(quorum):
    described, _ = quorum.described()
    broker = a_broker(quorum, 7)
    errors = {port: answer.error_code for port, answer in broker.answers(62, broker.registration).items()}
    assert errors == {
        port: ErrorCode.none if node_id == described.leader_id else ErrorCode.not_controller
        for node_id, port in quorum.ports.items()
    }


def test_a_broker_runs_on_under_the_next_controller_and_is_fenced_when_it_falls_silent(quorum):
    first, second = a_broker(quorum, 7), a_broker(quorum, 8)
    for broker in (first, second):
        assert broker.register().error_code is ErrorCode.none
        assert not broker.beat().is_fenced
    assert created(first, "before") is ErrorCode.none

    before, _ = quorum.described()
    quorum.kill(before.leader_id)
    answer = first.beat()
    assert (answer.error_code, answer.is_fenced) == (ErrorCode.none, False)
    assert created(first, "before") is ErrorCode.topic_already_exists
    assert created(first, "after") is ErrorCode.none
    block = first.active(67, {"broker_id": 7, "broker_epoch": first.epoch})
    assert (block.producer_id_start, block.producer_id_len) == (0, 1000)

    assert second.beat(want_fence=True).is_fenced
    time.sleep(3)  # nobody is heard for longer than a session
    for node_id in set(quorum.node_ids) - {before.leader_id}:
        quorum.stop(node_id)
        image = image_of(quorum, node_id)
        assert sorted(image.topics) == ["after", "before"]
        assert {broker_id: each.fenced for broker_id, each in image.registrations.brokers.items()} == {7: True, 8: True}


def test_every_controller_is_registered_with_its_levels(quorum):
    quorum.described(past=22)
    quorum.stop(1)
    controllers = image_of(quorum, 1).registrations.controllers
    assert sorted(controllers) == [1, 2, 3]
    for node_id, controller in controllers.items():
        assert [each.port for each in controller.end_points] == [quorum.ports[node_id]]
        levels = {each.name: each.max_supported_version for each in controller.features}
        assert (levels["metadata.version"], levels["kraft.version"], len(levels)) == (30, 1, 7)


def test_a_controller_tells_which_levels_it_knows_and_which_the_cluster_has(quorum):
    described, _ = quorum.described()
    request = build(message_types(18, 4).request, {"client_software_name": "test", "client_software_version": "1"})
    for node_id in quorum.node_ids:
        answer = ask(quorum.ports[node_id], request)
        assert {each.name: each.max_version for each in answer.supported_features}["transaction.version"] == 2
    answer = ask(quorum.ports[described.leader_id], request)
    assert {each.name: each.max_version_level for each in answer.finalized_features}["metadata.version"] == 30
    assert answer.finalized_features_epoch > 0


def test_a_node_that_does_not_lead_names_the_one_that_does():
    def story(active):
        active.ask(nothing)
        assert active.answers == [(ErrorCode.not_controller, "The active controller appears to be node 3.")]

    driven(story)


def test_an_answer_is_sent_when_it_is_committed_or_the_leadership_ends():
    def story(active):
        active.begin()
        active.ask(nothing)
        end = sum(len(records) for _, records in active.proposed)
        active.controller.on_committed(end - 1)
        assert active.answers == []
        active.controller.on_committed(end)
        assert active.answers == ["done"]
        active.ask(lambda controller, message, now_ms: CoordinatorResult(records=(NoOpRecord(),), reply="lost"))
        active.controller.end()
        assert active.answers[1][0] is ErrorCode.not_controller

    driven(story)


def test_a_refused_request_changes_nothing_and_is_answered_at_once():
    def refuse(controller, message, now_ms):
        raise RequestRefusedError("no", error_code=ErrorCode.stale_broker_epoch)

    def story(active):
        active.begin()
        before = list(active.proposed)
        active.ask(refuse)
        assert (active.answers, active.proposed) == ([(ErrorCode.stale_broker_epoch, "no")], before)
        assert active.controller.is_active

    driven(story)


@pytest.mark.parametrize(
    "records", [None, (RemoveTopicRecord(topic_id=UUID(int=7)),)], ids=["a plan that breaks", "a record that does"]
)
def test_a_controller_that_breaks_resigns(records):
    def broken(controller, message, now_ms):
        return CoordinatorResult(records=records, reply="never")

    def story(active):
        active.begin()
        active.ask(broken)
        assert (active.resigned, active.controller.is_active) == (1, False)
        assert [error for error, _ in active.answers] == [ErrorCode.not_controller]

    driven(story)


def test_so_many_answers_wait_and_one_more_is_refused():
    def story(active):
        active.begin()
        for _ in range(MAX_WAITING_CONTROLLER_ANSWERS):
            active.ask(nothing)
        assert active.answers == []
        active.ask(nothing)
        assert [error for error, _ in active.answers] == [ErrorCode.request_timed_out]

    driven(story)
