import pytest
from support.objects.counted_objects import CountedLog
from support.objects.object_builders import OTHER_ID, MemoryLog

from broker_core.model.exceptions import ObjectLogFormatError, ObjectStoreUnsuitableError
from broker_core.object_log.log_identity import encode_latest
from broker_core.object_log.object_names import commit_path


@pytest.fixture
def memory():
    """A log with a checkpoint at commit 3 and a fourth commit behind it."""
    memory = MemoryLog()
    cluster = memory.open()
    for number in range(3):
        cluster.create_topic(f"t{number}")
    cluster.maintain()
    cluster.create_topic("t3")
    return memory


def names(memory):
    return sorted(memory.open(create=False).describe_topics())


ALL = ["t0", "t1", "t2", "t3"]


def test_a_log_opens_with_the_latest_checkpoint_and_later_commits(memory):
    before = memory.store.requests.copy()
    assert names(memory) == ALL
    assert memory.store.requests - before == {"get": 2 + 1, "list": 1}, "the listing shows that there are no more"


@pytest.mark.parametrize("tail", [0, 1, 2, 15, 16, 17, 33, 100])
def test_opening_is_three_requests_and_those_for_the_commits_after_the_checkpoint(memory, tail):
    cluster = memory.open()
    cluster.maintain()
    for number in range(tail):
        cluster.create_topic(f"more{number}")
    before = memory.store.requests.copy()
    assert len(names(memory)) == 4 + tail
    requests = memory.store.requests - before
    assert requests.total() == 3 + tail
    assert requests["list"] == 1


@pytest.mark.parametrize("tail", [0, 1, 100])
def test_opening_is_a_sequence_of_three_requests_or_two_without_commits_after_the_checkpoint(tail):
    log = CountedLog()
    writer, _ = log.process()
    writer.create_topic("t")
    writer.maintain()
    for number in range(tail):
        writer.create_topic(f"more{number}")
    cluster, store = log.process()
    assert len(cluster.describe_topics()) == 1 + tail
    assert store.taken().turns == (3 if tail else 2)


def test_opening_a_log_without_a_checkpoint_is_a_sequence_of_three_requests():
    log = CountedLog()
    writer, _ = log.process()
    for number in range(50):
        writer.create_topic(f"t{number}")
    cluster, store = log.process()
    assert len(cluster.describe_topics()) == 50
    count = store.taken()
    assert (count.requests, count.turns) == (4 + 50, 3)


def test_opening_a_folder_does_not_list_its_commits(memory):
    """Which would read the names of all that there ever were."""
    memory.store.lists_from_start = True
    before = memory.store.requests.copy()
    assert names(memory) == ALL
    assert memory.store.requests - before == {"get": 2 + 4}


def test_commits_behind_a_missing_one_are_not_read(memory):
    """They are an error for `require_all_commits`, and no part of the log."""
    cluster = memory.open()
    for number in range(3):
        cluster.create_topic(f"more{number}")
    del memory.store.objects[commit_path(6)]
    assert names(memory) == [*sorted([*ALL, "more0"])]


@pytest.mark.parametrize("path", ["checkpoints/latest", f"checkpoints/{3:020d}"])
@pytest.mark.parametrize("content", [None, b"", b"damaged"])
def test_a_missing_or_damaged_checkpoint_is_skipped(memory, path, content):
    del memory.store.objects[path]
    if content is not None:
        memory.store.objects[path] = content
    assert names(memory) == ALL


def test_an_outdated_or_foreign_checkpoint_hint_is_ignored(memory):
    memory.open().maintain()
    for number in (3, 99):
        memory.store.objects["checkpoints/latest"] = encode_latest(memory.open()._log.read(lambda i: i.log_id), number)
        assert names(memory) == ALL
    memory.store.objects["checkpoints/latest"] = encode_latest(OTHER_ID, 3)
    assert names(memory) == ALL


def test_checkpoints_without_a_log_are_refused(memory):
    del memory.store.objects["streamlog.json"]
    memory.store.objects["checkpoints/latest"] = encode_latest(OTHER_ID, 99)
    with pytest.raises(ObjectLogFormatError, match=r"no streamlog\.json"):
        names(memory)


def test_concurrent_creations_create_one_log():
    memory = MemoryLog()
    first, second = memory.open(), memory.open()
    real = memory.store.put_if_absent
    calls = []

    def put_if_absent(path, data):
        if path == "streamlog.json" and not calls:
            calls.append(path)
            second.create_topic("second")
        return real(path, data)

    memory.store.put_if_absent = put_if_absent
    first.create_topic("first")
    assert names(memory) == ["first", "second"] and calls


def test_a_store_without_conditional_writes_is_detected_and_refused():
    memory = MemoryLog()

    def put_if_absent(path, data):
        return memory.store._store(path, data)

    memory.store.put_if_absent = put_if_absent
    with pytest.raises(ObjectStoreUnsuitableError, match="does not support conditional writes"):
        memory.open().create_topic("t")
