import pytest
from support.builders.builders import SOME_TIME_MS, a_batch, a_record
from support.nodes.replica_builders import T0
from support.nodes.replicated_nodes import ReplicatedNode, ReplicatedNodes

from broker_core.metadata.metadata_image import MetadataImage
from broker_core.model.exceptions import UnknownPartitionError, UnknownTopicError
from broker_core.model.identifiers import TopicPartition
from broker_core.record.batch_reader import iter_headers, records_of


@pytest.fixture
def brokers(tmp_path):
    return ReplicatedNodes(tmp_path)


def folders_of(brokers, node_id):
    return sorted(path.name.partition(".")[0] for path in (brokers.path / str(node_id)).iterdir() if path.is_dir())


def offsets_in_log(brokers, node_id):
    log = brokers.log_bytes(node_id)
    return [record.offset for position, _ in iter_headers(log) for record in records_of(log, position)]


def test_a_broker_has_the_replicas_that_are_assigned_to_it_and_no_others(brokers):
    brokers.create(replicas=(1, 2), partition_count=2)
    partitions = [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert [sorted(brokers[number].replicas._replicas) for number in (1, 2, 3)] == [partitions, partitions, []]
    with pytest.raises(UnknownPartitionError):
        brokers[3].replicas.get(TopicPartition("t", 2))
    with pytest.raises(UnknownTopicError):
        brokers[3].replicas.get(TopicPartition("u", 0))


def test_a_replica_that_was_never_written_costs_no_file_and_no_job(brokers):
    before = [brokers[number].jobs.count for number in (1, 2)]
    brokers.create(replicas=(1, 2), partition_count=1_000)
    assert [folders_of(brokers, number) for number in (1, 2)] == [[], []]
    assert [brokers[number].jobs.count for number in (1, 2)] == before
    assert brokers[1].replica(TopicPartition("t", 999)).is_leader
    assert brokers[2].replica(TopicPartition("t", 999)).followed_leader_id == 1


def test_the_first_write_to_a_replica_creates_its_folder_on_each_broker(brokers):
    brokers.create(replicas=(1, 2), partition_count=3)
    written = TopicPartition("t", 1)
    answers = brokers[1].append(a_batch(3), partition=written)
    assert [folders_of(brokers, number) for number in (1, 2)] == [["t-1"], []]
    for _ in range(2):
        brokers.exchange(2)
    assert [folders_of(brokers, number) for number in (1, 2)] == [["t-1"], ["t-1"]]
    assert answers == [(0, 2)]
    brokers.exchange(2)
    brokers.change(number=1, leader=2)
    assert brokers[2].append(a_batch(1), partition=written, acks=1) == [(3, 3)]


def test_the_folder_of_a_deleted_topic_is_removed_and_a_topic_of_the_same_name_begins_empty(brokers):
    brokers.create()
    brokers[1].append(a_batch(3))
    brokers.remove()
    assert folders_of(brokers, 1) == []
    brokers.create()
    assert brokers[1].replica().bounds.log_end_offset == 0


def test_the_folder_of_a_replica_that_moves_away_is_removed(brokers):
    brokers.create()
    brokers[1].append(a_batch(3))
    for follower in (2, 3):
        brokers.exchange(follower)
    assert [folders_of(brokers, number) for number in (1, 2, 3)] == [["t-0"], ["t-0"], ["t-0"]]
    brokers.change(replicas=(1, 2), isr=(1, 2), directories=())
    assert [folders_of(brokers, number) for number in (1, 2, 3)] == [["t-0"], ["t-0"], []]


def test_a_broker_learns_nothing_before_its_own_registration_is_in_the_image(brokers):
    # The image of a start is that of the past: topics are missing whose folders are here, and must not be put aside.
    brokers.create()
    brokers[1].append(a_batch(3), acks=1)
    brokers[1].stop()
    node = brokers.start(1)
    node.image = MetadataImage()
    node.learn()
    assert folders_of(brokers, 1) == ["t-0"]
    node.image = brokers.image
    node.learn()
    assert node.replica().bounds.log_end_offset == 3


def test_a_folder_of_a_topic_that_was_deleted_while_the_broker_was_away_is_kept_aside(brokers):
    brokers.create()
    brokers[1].append(a_batch(3), acks=1)
    brokers.nodes.pop(1).stop()
    brokers.remove()
    brokers.image._removed_topic_ids.clear()  # as an image that was read from a snapshot
    brokers.start(1).learn()
    (folder,) = (path.name for path in (brokers.path / "1").iterdir() if path.is_dir())
    assert folder.startswith("t-0.") and folder.endswith("-stray")


def test_high_watermarks_are_found_again_after_a_restart(brokers):
    brokers.create()
    brokers[1].append(a_batch(3))
    brokers.exchange()
    brokers[1].stop()
    node = brokers.start(1)
    node.learn()
    assert node.replica().high_watermark == 3


def test_a_crash_loses_the_newest_high_watermark_and_no_record(brokers):
    brokers.create()
    brokers[1].append(a_batch(3))
    brokers.exchange()
    brokers[1].directory.access.close()
    node = brokers.start(1)
    node.learn()
    assert (node.replica().high_watermark, node.replica().bounds.log_end_offset) == (0, 3)
    brokers.exchange()
    assert node.replica().bounds.last_stable_offset == 3


def test_high_watermarks_are_saved_every_five_seconds(brokers):
    brokers.create()
    brokers[1].append(a_batch(3))
    brokers.exchange()
    brokers.clock.ms += 5_000
    brokers[1].timers.fire(brokers.clock.ms)
    brokers[1].settle()
    assert (brokers.path / "1" / "replication-offset-checkpoint").read_text() == "0\n1\nt 0 3\n"


def test_a_fetcher_is_told_when_its_replicas_may_fetch(brokers):
    brokers.create()
    assert set(brokers[2].followed) == {1}
    told = len(brokers[2].followed)
    brokers[1].append(acks=1)
    brokers.fetch(2)
    assert len(brokers[2].followed) > told  # what it fetched is written
    assert brokers[1].followed == []


def test_a_partition_without_a_leader_is_fetched_from_nobody(brokers):
    brokers.create()
    brokers.change(leader=-1, isr=(2, 3))
    assert [brokers[number].replicas.leaders() for number in (1, 2, 3)] == [set(), set(), set()]


def test_brokers_that_the_test_did_not_register_learn_nothing(brokers):
    node = ReplicatedNode(9, brokers.path, brokers.image, brokers.clock)
    brokers.create(replicas=(9,), leader=9)
    node.learn()
    assert node.replicas.leaders() == set() and not node.replicas._held


def test_nothing_is_compacted_away_for_a_record_that_is_not_committed(brokers):
    # The newer record of the key may be truncated; then the older one is all that is left.
    brokers.create(cleanup_policy="compact", segment_bytes=300, min_cleanable_dirty_ratio="0.01", segment_ms=10)
    leader = brokers[1]
    for number in range(4):
        leader.append(a_batch([a_record(0, value=b"%d" % number, timestamp_ms=SOME_TIME_MS + 100 * number)]), acks=1)
    leader.timers.fire(brokers.clock.ms)
    leader.replicas._maintenance.add(T0)
    leader.settle()
    assert len(offsets_in_log(brokers, 1)) == 4
    brokers.exchange()
    leader.replicas._maintenance.add(T0)
    leader.settle()
    assert len(offsets_in_log(brokers, 1)) < 4


def test_the_high_watermark_of_an_earlier_topic_of_the_same_name_is_forgotten(brokers):
    brokers.create()
    brokers[1].append(a_batch(3))
    brokers.exchange()
    brokers.nodes.pop(1).stop()
    brokers.remove()
    brokers.create()
    node = brokers.start(1)
    node.learn()
    node.append(a_batch(2), acks=1)
    node.stop()
    node = brokers.start(1)
    node.learn()
    assert (node.replica().high_watermark, node.replica().bounds.log_end_offset) == (0, 2)


def test_a_replica_that_comes_back_is_opened_after_its_folder_was_removed(brokers):
    # Threads do jobs in any order: otherwise the new replica would lose its folder, and the records in it.
    brokers.create()
    brokers[1].append(a_batch(3))
    brokers.exchange()
    node = brokers[3]
    node.settle = lambda: None
    brokers.change(replicas=(1, 2), isr=(1, 2), directories=())
    brokers.change(replicas=(1, 2, 3), directories=())
    del node.settle
    while len(node.jobs):
        node.jobs.run_next(len(node.jobs) - 1)
    brokers[1].append(a_batch(1))
    brokers.exchange()
    assert offsets_in_log(brokers, 3) == [0, 1, 2, 3]


def test_a_replica_that_could_not_be_opened_gets_its_role_when_it_can_be(brokers):
    brokers.create()
    brokers[1].append(acks=1)
    brokers[1].stop()
    folder, away = brokers.path / "1" / "t-0", brokers.path / "away"
    folder.rename(away)
    folder.write_bytes(b"no folder")
    node = brokers.start(1)
    node.learn()
    assert node.replicas.is_offline(T0)
    folder.unlink()
    away.rename(folder)
    node.replicas._due_for_maintenance()  # a round of it tries to open what is offline
    node.settle()
    assert not node.replicas.is_offline(T0)
    assert (node.replica().is_leader, node.replica().bounds.log_end_offset) == (True, 1)


def test_the_folder_of_a_replica_that_moves_away_is_removed_after_what_it_is_writing(brokers):
    # The write would make it again; when the replica comes back, its log would lack what was before.
    brokers.create()
    brokers[1].append(a_batch(3))
    brokers.exchange()
    brokers[1].append(a_batch(3), acks=1)
    node = brokers[3]
    node.settle = lambda: None
    brokers.fetch(3)
    brokers.change(replicas=(1, 2), isr=(1, 2), directories=())
    del node.settle
    while len(node.jobs):
        node.jobs.run_next(len(node.jobs) - 1)
    assert folders_of(brokers, 3) == []
    brokers.change(replicas=(1, 2, 3), directories=())
    brokers.exchange()
    assert offsets_in_log(brokers, 3) == list(range(6))
