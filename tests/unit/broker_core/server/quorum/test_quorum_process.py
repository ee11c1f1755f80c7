"""Controllers as processes: they elect a leader, replicate metadata records, and survive the leader's kill -9."""

import re
import subprocess
import sys
import time

import pytest
from support.quorum.our_quorum import CLUSTER_ID, OurQuorum

from broker_core.log_directory.committed_image import CommittedImage
from broker_core.raft.snapshot_frame import check_snapshot
from broker_core.record.batch_reader import iter_headers
from broker_core.storage.os_file_system import OsFileSystem
from broker_core.storage.quorum_log import QuorumLog

FAST = ("controller.quorum.fetch.timeout.ms=1000", "controller.quorum.election.timeout.ms=500")
OFTEN = ("metadata.max.idle.interval.ms=30",)
FAILOVER_SECONDS = 20
"""The bound for a busy machine."""


@pytest.fixture
def quorum(tmp_path):
    with OurQuorum(tmp_path) as quorum:
        quorum.start()
        yield quorum


@pytest.fixture
def fast_quorum(tmp_path):
    """For machines that have nothing else to do."""
    with OurQuorum(tmp_path, settings=FAST) as quorum:
        quorum.start()
        yield quorum


def logged(quorum, node_id):
    return b"".join(path.read_bytes() for path in sorted(quorum.metadata_folder(node_id).glob("*.log")))


def batches_of(quorum, node_id):
    log = logged(quorum, node_id)
    return {header.base_offset: log[position : position + header.size_bytes] for position, header in iter_headers(log)}


def require_equal_logs(quorum):
    """After a clean stop, up to what the shortest has; returns its end."""
    logs = [logged(quorum, node_id) for node_id in quorum.node_ids]
    shortest = min(logs, key=len)
    assert all(log.startswith(shortest) for log in logs)
    return max(header.next_offset for _, header in iter_headers(shortest))


def test_three_controllers_elect_a_leader_and_survive_its_kill(quorum):
    before, _ = quorum.described(past=4)
    kept = batches_of(quorum, before.leader_id)
    committed = {offset: batch for offset, batch in kept.items() if offset < before.high_watermark}
    assert len(committed) > 2

    quorum.kill(before.leader_id)
    after, seconds = quorum.described(other_than=before.leader_id, past=before.high_watermark)
    assert after.leader_epoch > before.leader_epoch
    assert seconds < FAILOVER_SECONDS
    print(f"failover: {seconds:.2f} s")

    quorum.start(before.leader_id)
    again, _ = quorum.described(past=after.high_watermark + 2)
    assert again.leader_id == after.leader_id, "a node that comes back disturbs nobody"
    time.sleep(1)
    for node_id in quorum.node_ids:
        quorum.stop(node_id)
    assert require_equal_logs(quorum) > before.high_watermark
    for node_id in quorum.node_ids:
        found = batches_of(quorum, node_id)
        assert {offset: found[offset] for offset in committed} == committed

    log = QuorumLog(OsFileSystem(), str(quorum.metadata_folder(1)))
    image = CommittedImage(log)
    image.replay_to(log.end_offset)
    log.close()
    assert image.image.metadata_version == 30


def test_streamlog_quorum_describes_and_follows_controllers_of_ours(quorum, tmp_path):
    described, _ = quorum.described(past=4)
    command = [sys.executable, "-m", "broker_core.cli.main", "quorum"]
    controllers = ["--bootstrap-controller", quorum.bootstrap_controllers]
    shown = subprocess.run([*command, "describe", *controllers], capture_output=True, text=True, check=True)
    assert f"leader {described.leader_id} in epoch {described.leader_epoch}" in shown.stderr
    assert len(re.findall(r"\b(leader|voter)\b", shown.stdout)) == 3

    folder = tmp_path / "observer"
    subprocess.run(
        [*command, "follow", *controllers, "--path", str(folder), "--node-id", "98", "--until-offset", "5"],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    followed = (folder / "__cluster_metadata-0" / f"{0:020d}.log").read_bytes()
    assert logged(quorum, described.leader_id).startswith(followed) and followed
    observed, _ = quorum.described()
    assert [each.node_id for each in observed.replicas if not each.is_voter] == [98]


def test_a_leader_that_is_stopped_hands_over_at_once(quorum):
    before, _ = quorum.described(past=4)
    began = time.monotonic()
    quorum.stop(before.leader_id)
    after, _ = quorum.described(other_than=before.leader_id, past=before.high_watermark)
    assert after.leader_epoch > before.leader_epoch
    assert time.monotonic() - began < FAILOVER_SECONDS


def test_controllers_make_snapshots_and_who_comes_later_starts_from_one(tmp_path):
    with OurQuorum(tmp_path, settings=(*OFTEN, "metadata.log.max.record.bytes.between.snapshots=2000")) as quorum:
        quorum.start(1, 2)
        quorum.described(past=80)
        quorum.start(3)
        described, _ = quorum.described(past=100)
        deadline = time.monotonic() + FAILOVER_SECONDS
        while min(each.log_end_offset for each in described.replicas) < 100:
            assert time.monotonic() < deadline, described
            described, _ = quorum.described()
        quorum.kill(described.leader_id)
        quorum.described(other_than=described.leader_id, past=described.high_watermark)
        quorum.start(described.leader_id)
        quorum.described(past=described.high_watermark + 60)
        for node_id in quorum.node_ids:
            quorum.stop(node_id)
        for node_id in quorum.node_ids:
            (snapshot,) = quorum.metadata_folder(node_id).glob("*.checkpoint")
            check_snapshot(snapshot.read_bytes())
            log = QuorumLog(OsFileSystem(), str(quorum.metadata_folder(node_id)))
            assert 0 < log.start_offset <= int(snapshot.name[:20]) <= log.end_offset
            image = CommittedImage(log)
            image.replay_to(log.end_offset)
            assert (image.offset, image.image.metadata_version) == (log.end_offset, 30)
            log.close()


@pytest.mark.long
def test_no_committed_record_is_lost_in_thirty_kills_and_freezes(fast_quorum):
    quorum = fast_quorum
    committed, seconds = {}, []
    for number in range(30):
        before, _ = quorum.described(past=max(committed, default=0))
        found = batches_of(quorum, before.leader_id)
        committed |= {offset: batch for offset, batch in found.items() if offset < before.high_watermark}
        if number % 3 == 2:
            quorum.freeze(before.leader_id)
            after, took = quorum.described(other_than=before.leader_id, past=before.high_watermark)
            quorum.thaw(before.leader_id)
        else:
            quorum.kill(before.leader_id)
            after, took = quorum.described(other_than=before.leader_id, past=before.high_watermark)
            quorum.start(before.leader_id)
        seconds.append(took)
        quorum.described(past=after.high_watermark + 1)
    time.sleep(2)
    for node_id in quorum.node_ids:
        quorum.stop(node_id)
    for node_id in quorum.node_ids:
        found = batches_of(quorum, node_id)
        assert {offset for offset in committed if found.get(offset) != committed[offset]} == set()
    print(f"{len(committed)} committed batches kept; failover {sorted(seconds)}")


def test_a_directory_of_another_node_or_cluster_is_refused(tmp_path):
    with OurQuorum(tmp_path, node_count=1) as quorum:
        quorum.start()
        quorum.described(past=1)
        quorum.stop(1)
        properties = tmp_path / "1" / "server.properties"
        command = [sys.executable, "-m", "broker_core.cli.main", "quorum", "serve", "--config", str(properties)]
        ended = subprocess.run([*command, "--cluster-id", "another"], capture_output=True, text=True, check=False)
        assert ended.returncode != 0 and f"belongs to node 1 of cluster {CLUSTER_ID}" in ended.stderr
