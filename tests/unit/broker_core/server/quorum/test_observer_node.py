"""A node without a vote over sockets: at a controller that serves what a real Kafka wrote, and at three of ours."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from image_history import logged_records
from kio.schema.errors import ErrorCode
from support.brokers.reachable_broker import free_ports
from support.brokers.scripted_controller import CLUSTER_ID, FETCH, FETCH_SNAPSHOT, ScriptedController

from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_record_codec import decode_metadata_record
from broker_core.model.client_settings import parse_client_settings
from broker_core.model.exceptions import QuorumError
from broker_core.raft.quorum_files import parse_snapshot_name
from broker_core.raft.quorum_values import QuorumTimings
from broker_core.server.quorum.cluster_id_question import ask_cluster_id
from broker_core.server.quorum.observer_node import ObserverNode
from broker_core.server.quorum.observer_settings import ObserverSettings
from broker_core.server.quorum.peer_dialer import PeerDialer
from broker_core.server.quorum.quorum_server import QuorumServer
from broker_core.server.quorum.quorum_settings import parse_quorum_settings

SECONDS = 60


@pytest.fixture
def controller():
    with ScriptedController() as scripted:
        yield scripted


class Followed:
    """What came of following: errors, and a wait for what the image says."""

    def __init__(self, addresses, path, **others):
        self.errors, self._news = [], asyncio.Event()
        settings = ObserverSettings(
            node_id=98,
            controllers=parse_client_settings({"bootstrap.servers": addresses}).bootstrap_servers,
            log_dir=str(path),
            timings=QuorumTimings(request_timeout_ms=1000),
            **others,
        )
        self.node = ObserverNode(settings, cluster_id=CLUSTER_ID, on_end=self._ended, on_committed=self._news.set)

    def _ended(self, error):
        self.errors.append(error)
        self._news.set()

    async def until(self, is_true):
        async with asyncio.timeout(SECONDS):
            while not is_true():
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def following(addresses, path, **others):
    followed = Followed(addresses, path, **others)
    followed.node.start()
    try:
        yield followed
    finally:
        await followed.node.stop()


def the_whole_image():
    image = MetadataImage()
    for _, content in logged_records("cluster-metadata-kafka-4.3.1"):
        image.replay(decode_metadata_record(content))
    return image


def test_it_gets_the_snapshot_and_the_log_behind_it_byte_for_byte_and_continues_there(controller, tmp_path):
    async def run():
        middle = controller.snapshot_id.end_offset + 30
        async with following(controller.address, tmp_path) as followed:
            await followed.until(lambda: followed.node.committed.offset >= middle)
            stopped_at = followed.node.observer.log_end_offset
        controller.requests.clear()
        async with following(controller.address, tmp_path) as followed:
            await followed.until(lambda: followed.node.committed.offset == controller.end_offset)
            assert followed.node.committed.image.partitions == the_whole_image().partitions
            assert followed.node.leader_address.port == controller.port
        offsets = [message.topics[0].partitions[0].fetch_offset for message in controller.asked(FETCH)]
        assert min(offsets) == stopped_at > middle - 1

    asyncio.run(run())
    folder = tmp_path / "__cluster_metadata-0"
    assert (folder / controller.snapshot_name).read_bytes() == controller.files[controller.snapshot_name]
    end_offset = controller.snapshot_id.end_offset
    assert (folder / f"{end_offset:020d}.log").read_bytes() == controller.log_behind_snapshot()


def test_it_makes_snapshots_of_its_own_and_starts_from_the_newest_one(controller, tmp_path):
    folder = tmp_path / "__cluster_metadata-0"

    async def run():
        async with following(controller.address, tmp_path, snapshot_bytes=2000) as followed:
            await followed.until(lambda: followed.node.committed.offset == controller.end_offset)
        controller.requests.clear()
        newest = max(parse_snapshot_name(path.name).end_offset for path in folder.glob("*.checkpoint"))
        assert controller.snapshot_id.end_offset < newest <= controller.end_offset
        async with following(controller.address, tmp_path) as followed:
            assert followed.node.committed.offset == newest
            await followed.until(lambda: followed.node.committed.offset == controller.end_offset)
            assert followed.node.committed.image.partitions == the_whole_image().partitions

    asyncio.run(run())
    assert controller.asked(FETCH_SNAPSHOT) == []
    assert min(int(path.stem) for path in folder.glob("*.log")) > controller.snapshot_id.end_offset, "all is kept"


def test_a_damaged_snapshot_is_not_installed_and_fetched_again(controller, tmp_path):
    whole = controller.files[controller.snapshot_name]
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 1
    controller.files[controller.snapshot_name] = bytes(damaged)

    async def run():
        async with following(controller.address, tmp_path) as followed:
            async with asyncio.timeout(SECONDS):
                while len(controller.asked(FETCH)) < 4:
                    await asyncio.sleep(0.01)
            assert followed.node.committed.offset == 0
            controller.files[controller.snapshot_name] = whole
            await followed.until(lambda: followed.node.committed.offset == controller.end_offset)

    asyncio.run(run())


def test_it_ends_at_the_quorum_of_another_cluster(controller, tmp_path):
    controller.script(
        FETCH,
        lambda request: controller._answer_as(
            request, error_code=ErrorCode.inconsistent_cluster_id, responses=[], node_endpoints=[], throttle_time=0
        ),
    )

    async def run():
        async with following(controller.address, tmp_path) as followed:
            await followed.until(lambda: followed.errors)
            (error,) = followed.errors
            assert isinstance(error, QuorumError) and "belongs to another cluster" in error.message

    asyncio.run(run())


def test_the_cluster_is_that_of_the_first_controller_that_answers(controller):
    (nobody,) = free_ports(1)
    addresses = parse_client_settings({"bootstrap.servers": f"127.0.0.1:{nobody},{controller.address}"})
    assert asyncio.run(ask_cluster_id(addresses.bootstrap_servers, PeerDialer())) == CLUSTER_ID


def test_it_finds_the_next_active_controller_when_one_goes(tmp_path):
    ports = dict(enumerate(free_ports(3), 1))
    voters = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in ports.items())

    def a_server(node_id):
        given = {"node.id": str(node_id), "controller.quorum.voters": voters, "log.dirs": f"{tmp_path}/{node_id}",
                 "controller.quorum.election.timeout.ms": "300"}  # fmt: skip
        server = QuorumServer(parse_quorum_settings(given), cluster_id=CLUSTER_ID, on_end=lambda error: None)
        server.start()
        return server

    async def run():
        servers = {node_id: a_server(node_id) for node_id in ports}
        addresses = ",".join(f"127.0.0.1:{port}" for port in ports.values())
        async with following(addresses, tmp_path / "observer") as followed:
            await followed.until(lambda: len(followed.node.committed.image.registrations.controllers) == 3)
            first = followed.node.leader_address.port
            leader_id = next(node_id for node_id, port in ports.items() if port == first)
            reached = followed.node.committed.offset
            await servers.pop(leader_id).stop()
            await followed.until(lambda: followed.node.committed.offset > reached)
            assert followed.node.leader_address.port in set(ports.values()) - {first}
        for server in servers.values():
            await server.stop()

    asyncio.run(run())
