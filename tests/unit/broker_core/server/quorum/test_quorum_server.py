"""Controllers of a dynamic quorum, on real sockets and disks."""

import json
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from support.quorum.dynamic_quorum import DynamicQuorum

from broker_core.client.connection_pool import ConnectionPool
from broker_core.client.deadline import Deadline
from broker_core.client.quorum_change import add_voter, remove_voter
from broker_core.controller.requests.envelope import SealedRequest
from broker_core.model.exceptions import RemoteError
from broker_core.protocol.api_table import message_types
from broker_core.protocol.connection import ClientSide, ServerSide
from broker_core.protocol.message_builder import build
from broker_core.raft.snapshot_frame import check_snapshot
from broker_core.raft.voter_set_history import controls_of_snapshot


def ids(found, *, is_voter):
    return {each.node_id for each in found.replicas if each.is_voter is is_voter}


def follows(node_id):
    return lambda found: (
        node_id in ids(found, is_voter=False) and all(each.log_end_offset > 0 for each in found.replicas)
    )


def test_voters_join_carry_the_quorum_without_the_first_one_and_leave(tmp_path):
    with DynamicQuorum(tmp_path, 3) as quorum:
        for node_id in (2, 3):
            found = quorum.described(until=follows(node_id))
            assert found.leader_id == 1 and node_id not in ids(found, is_voter=True)
            quorum.add(node_id)
        found = quorum.described(until=lambda found: True)
        assert {each.node_id: each.directory_id for each in found.replicas if each.is_voter} == {
            node_id: quorum.directory_of(node_id) for node_id in (1, 2, 3)
        }
        assert found.listeners == {node_id: (quorum.endpoints(node_id)["CONTROLLER"],) for node_id in (1, 2, 3)}
        with pytest.raises(RemoteError, match="node 2 is a voter already"):
            add_voter(quorum.client_settings, 2, quorum.directory_of(2), quorum.endpoints(2))

        first_directory = quorum.directory_of(1)
        quorum.stop(1)
        quorum.described(until=lambda found: found.leader_id in (2, 3))
        remove_voter(quorum.client_settings, 1, first_directory)
        quorum.start(1)
        found = quorum.described(until=follows(1))
        assert ids(found, is_voter=True) == {2, 3}
        state = json.loads((tmp_path / "2" / "__cluster_metadata-0" / "quorum-state").read_text())
        assert state["data_version"] == 1 and state["leaderId"] == found.leader_id

        remove_voter(quorum.client_settings, found.leader_id, quorum.directory_of(found.leader_id))
        last = 5 - found.leader_id
        found = quorum.described(until=lambda found: found.leader_id == last and found.high_watermark > 0)
        assert ids(found, is_voter=True) == {last}


def test_a_snapshot_has_the_voters_and_a_node_with_a_new_disk_joins_from_it_by_itself(tmp_path):
    settings = {
        "controller.quorum.auto.join.enable": "true",
        "metadata.log.max.record.bytes.between.snapshots": "200",
    }
    with DynamicQuorum(tmp_path, 2, settings=settings) as quorum:
        found = quorum.described(until=lambda found: ids(found, is_voter=True) == {1, 2})
        folder = tmp_path / str(found.leader_id) / "__cluster_metadata-0"
        quorum.described(until=lambda now: now.high_watermark > found.high_watermark + 5)
        (snapshot,) = folder.glob("*.checkpoint")
        content = snapshot.read_bytes()
        check_snapshot(content)
        controls = controls_of_snapshot(content)
        assert controls.kraft_version == 1 and set(controls.voters.nodes) <= {1, 2}


def test_a_broker_sends_on_what_its_clients_ask_of_the_quorum(tmp_path):
    client, server = ClientSide(client_id="tool", max_frame_bytes=10**6), ServerSide(max_frame_bytes=10**6)
    topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    key = {"voter_id": 1, "voter_directory_id": UUID(int=9)}
    with DynamicQuorum(tmp_path, 1) as quorum:
        found = quorum.described(until=lambda found: found.high_watermark > 0)
        pool, deadline = ConnectionPool(quorum.client_settings), Deadline(10_000, setting="test")
        for api_key, version, values in ((55, 2, {"topics": topics}), (81, 0, key)):
            client.send_request(build(message_types(api_key, version).request, values))
            server.receive_data(b"".join(bytes(part) for part in client.data_to_send()))
            sealed = SealedRequest(server.next_request(), principal="User:tool", host="127.0.0.1")
            place = quorum.client_settings.bootstrap_servers[0]
            (answer,) = pool.connection(place, deadline).ask([sealed.message], deadline)
            inner = sealed.answer_in(answer)
            if api_key == 55:
                assert inner.topics[0].partitions[0].leader_id == found.leader_id == 1
            else:
                assert inner.error_code is ErrorCode.voter_not_found and "node 1" in inner.error_message
        pool.close()
