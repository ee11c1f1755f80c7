"""Objects that are not the log's, in each of its folders: reported, left alone, and without effect."""

import pytest
from support.builders.append_records import append_values
from support.objects.object_builders import OTHER_ID, a_commit

from broker_core.cluster import GroupOffset
from broker_core.model.exceptions import CorruptObjectError
from broker_core.model.identifiers import TopicPartition
from broker_core.object_cluster.log_maintenance import COMMITS_BETWEEN_CHECKPOINTS, KEPT_CHECKPOINT_COUNT
from broker_core.object_log.commit_codec import encode_commit
from broker_core.object_log.log_identity import encode_latest
from broker_core.object_log.object_names import checkpoint_path, commit_path, data_path, number_of

T0 = TopicPartition("t", 0)
GRACE_MS = 1000

FOREIGN = {
    "commits/notes.txt": "its name is not one of the log's",
    commit_path(999_999): "the log ends at commit",
    "checkpoints/old/1": "its name is not one of the log's",
    checkpoint_path(999_999): "the log ends at commit",
    checkpoint_path(2): "cannot be read as a checkpoint",
    "data/part-0000.parquet": "its name is not one of the log's",
    data_path(9_999_999_999_999, bytes(16)): "its name has a time in the future",
    "groups/README": "its name is not one of the log's",
    "groups/g-foreign": "cannot be read as a group",
}


@pytest.fixture
def used(log, cluster):
    """A log with a checkpoint, a group, data and a few commits."""
    for number in range(4):
        append_values(cluster, "t", f"v{number}", timestamps_ms=[log.clock.milliseconds])
    cluster.commit_offsets("g", {T0: GroupOffset(offset=2)})
    cluster.maintain()
    append_values(cluster, "t", "w", timestamps_ms=[log.clock.milliseconds])
    return cluster


def checkpoints(log):
    return sorted(number for path in log.store.objects if "checkpoints/" in path and (number := number_of(path)))


def test_a_log_of_its_own_has_none(used):
    used.maintain()
    assert list(used.find_foreign_objects()) == []


def test_every_folder_is_searched(log, used):
    for path in FOREIGN:
        log.store.put(path, b"somebody else's")
    found = dict(used.find_foreign_objects())
    assert found.keys() == FOREIGN.keys()
    for path, problem in FOREIGN.items():
        assert problem in found[path]


@pytest.mark.parametrize("path", sorted(FOREIGN))
def test_the_log_is_read_written_and_maintained_beside_it(log, used, path):
    log.store.put(path, b"somebody else's")
    newcomer = log.open(create=False)
    assert newcomer.bounds(T0).log_end_offset == 5
    assert newcomer.list_groups() == ("g",)
    append_values(newcomer, "t", "x", timestamps_ms=[log.clock.milliseconds])
    report = used.maintain()
    assert report.errors == [] and report.checkpoint_number in checkpoints(log)
    assert log.store.objects[path] == b"somebody else's"
    # And by later processes, also without a checkpoint.
    for checkpoint in [one for one in log.store.objects if one.startswith("checkpoints/") and one != path]:
        del log.store.objects[checkpoint]
    assert log.open(create=False).bounds(T0).log_end_offset == 6


def test_checkpoints_are_made_on_though_one_names_a_commit_that_does_not_exist_yet(log, used):
    """It was taken for the newest one, and no other was made before the log had come so far."""
    for number in range(KEPT_CHECKPOINT_COUNT + 1):
        log.store.put(checkpoint_path(10_000 + number), b"somebody else's")
    for _ in range(COMMITS_BETWEEN_CHECKPOINTS):
        append_values(used, "t", "x", timestamps_ms=[log.clock.milliseconds])
    assert used._log.read(lambda image: image.number) == (end := 6 + COMMITS_BETWEEN_CHECKPOINTS)
    assert used._maintenance.maintain_behind_commit().checkpoint_number == end
    assert end in checkpoints(log)


def test_a_foreign_object_among_the_data_causes_no_commit(log, used):
    log.store.put("data/.DS_Store", b"")
    used.maintain(grace_ms=GRACE_MS)
    before = used._log.read(lambda image: image.number)
    for _ in range(3):
        log.clock.milliseconds += 10 * GRACE_MS
        used.maintain(grace_ms=GRACE_MS)
    # Objects that were merged are removed once; the foreign one does not ask for it again and again.
    assert used._log.read(lambda image: image.number) <= before + 1
    assert "data/.DS_Store" in log.store.objects


def test_a_hint_at_another_logs_checkpoint_is_ignored(log, used):
    log.store.put("checkpoints/latest", encode_latest(OTHER_ID, 3))
    assert log.open(create=False).bounds(T0).log_end_offset == 5


def test_a_removed_commit_is_told_from_a_foreign_object_with_a_later_number(log, used):
    log.store.put(commit_path(999_999), b"somebody else's")
    used.require_all_commits()
    last = used._log.read(lambda image: image.number)
    append_values(used, "t", "x", timestamps_ms=[log.clock.milliseconds])
    append_values(used, "t", "y", timestamps_ms=[log.clock.milliseconds])
    del log.store.objects[commit_path(last + 1)]
    with pytest.raises(CorruptObjectError, match=f"{last + 1} is missing, but .*{last + 2} exists"):
        log.open(create=False).require_all_commits()


def test_a_commit_of_another_log_is_foreign(log, used):
    log.store.put(commit_path(50), encode_commit(a_commit(50, log_id=OTHER_ID)))
    used.require_all_commits()
    assert [one.path for one in used.find_foreign_objects()] == [commit_path(50)]
