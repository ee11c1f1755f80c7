import pytest
from support.objects.counted_objects import CountedLog
from support.objects.object_builders import OTHER_ID, MemoryLog

from broker_core.model.exceptions import CorruptObjectError, ObjectLogFormatError, ObjectStoreUnsuitableError
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


MISSING = r"0{19}%d is missing, but commits/0{19}%d exists: a commit was removed\..* Stop all writers, and restore"


def with_commits(memory, end):
    """Up to this number, with data."""
    cluster = memory.open()
    for number in range(5, end + 1):
        cluster.create_topic(f"more{number}")
    return cluster


@pytest.mark.parametrize("lists_from_start", [False, True])
@pytest.mark.parametrize("removed", [4, 5, 6, 7, 8, 9, 12, 15])
def test_a_log_with_a_removed_commit_is_neither_read_nor_written(memory, removed, lists_from_start):
    """The commits before it were taken for all, and the next writer took its number: then nothing was readable."""
    with_commits(memory, 16)
    memory.store.lists_from_start = lists_from_start
    data = memory.store.objects.pop(commit_path(removed))
    before = dict(memory.store.objects)
    cluster = memory.open(create=False)
    for _ in range(2):
        with pytest.raises(CorruptObjectError, match=MISSING % (removed, removed + 1) if removed < 9 else "is missing"):
            cluster.describe_topics()
        with pytest.raises(CorruptObjectError, match="is missing, but"):
            cluster.create_topic("next")
    assert memory.store.objects == before
    memory.store.objects[commit_path(removed)] = data
    assert len(cluster.describe_topics()) == 16
    cluster.create_topic("next")


@pytest.mark.parametrize("lists_from_start", [False, True])
def test_of_two_removed_commits_the_first_one_is_named(memory, lists_from_start):
    with_commits(memory, 8)
    memory.store.lists_from_start = lists_from_start
    del memory.store.objects[commit_path(5)], memory.store.objects[commit_path(6)]
    with pytest.raises(CorruptObjectError, match=MISSING % (5, 7)):
        names(memory)


def test_a_removed_commit_is_found_without_checkpoints(memory):
    with_commits(memory, 8)
    for path in [path for path in memory.store.objects if path.startswith("checkpoints/")]:
        del memory.store.objects[path]
    del memory.store.objects[commit_path(2)]
    with pytest.raises(CorruptObjectError, match=MISSING % (2, 3)):
        names(memory)


def test_a_running_process_refuses_a_removed_commit_that_it_sees_a_later_one_of(memory):
    """Later looks request several commits at once, if the last two found some."""
    reader, writer = memory.open(), memory.open()
    reader.describe_topics()
    for number in range(2):
        writer.create_topic(f"found{number}")
        reader.describe_topics()
    writer.create_topic("lost")
    writer.create_topic("behind")
    del memory.store.objects[commit_path(7)]
    for _ in range(2):
        with pytest.raises(CorruptObjectError, match=MISSING % (7, 8)):
            reader.describe_topics()
    with pytest.raises(CorruptObjectError, match=MISSING % (7, 8)):
        reader.create_topic("next")


@pytest.mark.parametrize("lists_from_start", [False, True])
def test_a_commit_that_is_created_between_two_requests_is_not_a_removed_one(memory, lists_from_start):
    """First it is missing, and then a later one exists: created behind it, between the two requests."""
    with_commits(memory, 6)
    memory.store.lists_from_start = lists_from_start
    late = {path: memory.store.objects.pop(path) for path in map(commit_path, (5, 6))}
    real_get, real_list = memory.store.get, memory.store.list_after
    seen = []

    def get(path):
        if path == commit_path(6):
            memory.store.objects.update(late)
        if path == commit_path(5):
            seen.append(path in memory.store.objects)
        return real_get(path)

    def list_after(prefix, after=""):
        listed = list(real_list(prefix, after))
        if prefix == "commits/":
            memory.store.objects.update(late)
            listed = [one for one in real_list(prefix, after) if one.path != commit_path(5)]
        return iter(listed)

    memory.store.get, memory.store.list_after = get, list_after
    assert {"more5"} <= memory.open(create=False).describe_topics().keys()
    assert seen == ([False, True] if lists_from_start else [True])


def test_foreign_objects_with_later_numbers_are_looked_at_when_a_log_is_opened_and_ignored(memory):
    for number in range(10, 30):
        memory.store.put(commit_path(number), b"somebody else's")
    before = memory.store.requests.copy()
    assert names(memory) == ALL
    assert memory.store.requests - before == {"get": 2 + 1 + 1 + 8, "list": 1}


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
