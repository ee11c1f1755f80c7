"""What becomes of a commit when the store does not answer as it should."""

import pytest
from support.objects.in_memory_objects import InMemoryObjects
from support.objects.object_builders import MemoryLog, a_topic

from broker_core.model.exceptions import (
    CorruptObjectError,
    ObjectOutcomeUnknownError,
    ObjectPermissionError,
    ObjectPreconditionError,
    ObjectThrottledError,
    TopicExistsError,
)
from broker_core.object_cluster.shared_log import MAX_UNANSWERED_COUNT, Proposal, SharedLog
from broker_core.staged_writes import AppVersion


class TrickyStore:
    """A store in memory whose conditional writes of commits do what a test says, once each."""

    def __init__(self, store: InMemoryObjects) -> None:
        self._store = store
        self.tricks = []

    def __getattr__(self, name):
        return getattr(self._store, name)

    def put_if_absent(self, path, data):
        if path.startswith("commits/") and self.tricks:
            return self.tricks.pop(0)(path, data)
        return self._store.put_if_absent(path, data)


@pytest.fixture
def memory():
    memory = MemoryLog()
    memory.open().create_topic("t")
    return memory


@pytest.fixture
def store(memory):
    return TrickyStore(memory.store)


@pytest.fixture
def log(memory, store):
    return SharedLog(memory.ports(store), create=False)


def propose_topic(image):
    if image.topic("u") is not None:
        raise TopicExistsError("u")
    return Proposal(changes=[a_topic("u")])


def commit_numbers(memory):
    return [int(path[-20:]) for path in sorted(memory.store.objects) if path.startswith("commits/")]


def test_a_lost_response_is_resolved_by_reading(memory, store, log):
    def lose(path, data):
        memory.store.put_if_absent(path, data)
        raise ObjectOutcomeUnknownError("reset")

    store.tricks = [lose]
    assert log.commit(propose_topic).number == 2
    assert commit_numbers(memory) == [1, 2] and not store.tricks


def test_a_write_repeated_by_the_client_library_succeeds(memory, store, log):
    def repeat(path, data):
        memory.store.put_if_absent(path, data)
        return memory.store.put_if_absent(path, data)

    store.tricks = [repeat]
    assert log.commit(propose_topic).number == 2
    assert commit_numbers(memory) == [1, 2] and not store.tricks


def test_a_write_that_did_not_arrive_is_repeated_with_its_number(memory, store, log):
    def drop(path, data):
        raise ObjectOutcomeUnknownError("timeout")

    store.tricks = [drop, drop]
    assert log.commit(propose_topic).number == 2
    assert commit_numbers(memory) == [1, 2]
    assert len(memory.slept_ms) == 2 and memory.slept_ms[1] > memory.slept_ms[0] / 2


def test_a_write_that_arrives_late_is_not_committed_twice(memory, store, log):
    late = []

    def delay(path, data):
        late.append((path, bytes(data)))
        raise ObjectOutcomeUnknownError("timeout")

    def arrive_first(path, data):
        memory.store.put_if_absent(*late[0])
        return memory.store.put_if_absent(path, data)

    store.tricks = [delay, arrive_first]
    assert log.commit(propose_topic).number == 2
    assert commit_numbers(memory) == [1, 2] and not store.tricks


def test_a_number_is_sent_the_same_commit_again(memory, store, log):
    """Else the first one, when it arrives, commits what was reported as failed."""
    sent, planned = [], []

    def drop(path, data):
        sent.append(bytes(data))
        raise ObjectOutcomeUnknownError("timeout")

    def plan(image):
        planned.append(a_topic(f"u{len(planned)}"))
        return Proposal(changes=[planned[-1]])

    store.tricks = [drop, drop]
    log.commit(plan)
    assert len(planned) == 1
    assert sent == [memory.store.objects[f"commits/{2:020d}"]] * 2


def test_a_late_commit_that_another_thread_reads_first_is_known_for_ours(memory, store, log):
    late = []

    def delay(path, data):
        late.append((path, bytes(data)))
        raise ObjectOutcomeUnknownError("timeout")

    def arrive_and_be_read(duration_ms):
        memory.store.put_if_absent(*late[0])
        assert log.read(lambda image: image.number) == 2

    object.__setattr__(log._ports, "sleep_ms", arrive_and_be_read)
    store.tricks = [delay]
    assert log.commit(propose_topic).number == 2
    assert commit_numbers(memory) == [1, 2] and late


def test_a_commit_that_loses_a_race_is_planned_again(memory, store, log):
    def lose_race(path, data):
        memory.open().create_topic("other")
        return memory.store.put_if_absent(path, data)

    store.tricks = [lose_race]
    assert log.commit(propose_topic).number == 3
    assert commit_numbers(memory) == [1, 2, 3]


def test_a_refusal_by_an_outdated_image_is_checked_again(memory, log):
    log.read(lambda image: image.number)
    other = memory.open()
    other.create_topic("u")
    log.read(lambda image: image.topic("u"))
    other.delete_topic("u")
    assert log.commit(propose_topic).number == 4


def test_a_refusal_by_the_newest_image_is_final(memory, log):
    log.read(lambda image: image.number)
    memory.open().create_topic("u")
    with pytest.raises(TopicExistsError):
        log.commit(propose_topic)


def test_a_store_that_never_responds_raises_with_advice(memory, store, log):
    def drop(path, data):
        raise ObjectThrottledError("SlowDown")

    store.tricks = [drop] * MAX_UNANSWERED_COUNT
    with pytest.raises(ObjectOutcomeUnknownError, match=r"Repeating it is safe.*SlowDown"):
        log.commit(propose_topic)
    assert not store.tricks and commit_numbers(memory) == [1]


def test_a_conflicting_object_that_is_not_visible_yet_is_awaited(memory, store, log):
    """A network file system may show others' files late."""
    hidden = {}

    def hide(path, data):
        memory.open().create_topic("other")
        hidden[path] = memory.store.objects.pop(path)
        raise ObjectPreconditionError("exists")

    real_sleep = memory.slept_ms.append

    def show(duration_ms):
        real_sleep(duration_ms)
        memory.store.objects.update(hidden)

    object.__setattr__(log._ports, "sleep_ms", show)
    store.tricks = [hide]
    assert log.commit(propose_topic).number == 3
    assert len(memory.slept_ms) == 1


def test_a_missing_permission_is_raised_immediately(store, log):
    def refuse(path, data):
        raise ObjectPermissionError("AccessDenied")

    store.tricks = [refuse]
    with pytest.raises(ObjectPermissionError):
        log.commit(propose_topic)


def test_a_damaged_commit_is_named_and_keeps_the_current_image(memory, log):
    log.read(lambda image: image.number)
    memory.open().create_topic("u")
    path = f"commits/{2:020d}"
    good = memory.store.objects[path]
    memory.store.objects[path] = good[:-9] + b"x" + good[-8:]
    with pytest.raises(CorruptObjectError, match=path):
        log.read(lambda image: image.number)
    memory.store.objects[path] = good
    assert log.read(lambda image: image.topic("u")) is not None


def test_many_new_commits_are_read_concurrently(memory, log):
    log.read(lambda image: image.number)
    other = memory.open()
    for number in range(40):
        other.create_topic(f"u{number}")
    before = memory.store.requests.copy()
    assert log.read(lambda image: image.number) == 41
    assert (memory.store.requests - before)["get"] <= 41 + 32


def looks(memory, log, *other_commits):
    """The requests of each look, after so many commits of another writer."""
    log.read(lambda image: image.number)
    other, found = memory.open(), []
    for count in other_commits:
        for _ in range(count):
            other.create_topic(f"other-{len(memory.store.objects)}")
        before = memory.store.requests.copy()
        log.read(lambda image: image.number)
        found.append((memory.store.requests - before)["get"])
    return found


def test_a_look_is_one_request_and_one_more_for_each_new_commit(memory, log):
    assert looks(memory, log, 0, 1, 0, 1, 0, 0) == [1, 2, 1, 2, 1, 1]


def test_a_look_after_two_that_found_commits_requests_all_at_once(memory, log):
    asked = []
    real = log._ports.requests.gather

    def gather(calls):
        asked.append(len(calls))
        return real(calls)

    log._ports.requests.gather = gather
    assert looks(memory, log, 1, 1, 1, 1, 0, 0) == [2, 2, 2, 2, 2, 1]
    assert asked[-8:] == [1, 1, 1, 1, 2, 2, 2, 1]


def commits_after_others(memory, log, *other_commits):
    """The requests of each commit, after so many commits of another writer."""
    log.read(lambda image: image.number)
    other, found = memory.open(), []
    for count in other_commits:
        for _ in range(count):
            other.create_topic(f"other-{len(memory.store.objects)}")
        before = memory.store.requests.copy()
        log.commit(lambda image: Proposal(changes=[], app=AppVersion(app_id="app", version=image.number)))
        requests = memory.store.requests - before
        found.append((requests["get"], requests["put_if_absent"]))
    return found


def test_a_process_whose_commits_lose_races_looks_before_it_commits(memory, log):
    refused, looked, alone = (4, 2), (2, 1), (0, 1)
    assert commits_after_others(memory, log, 1, 1, 1, 1) == [refused, refused, looked, looked]
    assert commits_after_others(memory, log, 0, 0, 1, 0, 1) == [(2, 1), alone, refused, alone, refused]
    assert commits_after_others(memory, log, 3, 3, 3) == [refused, (4, 1), (4, 1)]


def test_a_process_whose_commits_lose_races_to_many_writers_does_not_look(memory, log):
    puts = [puts for _, puts in commits_after_others(memory, log, 4, 4, 4)]
    assert puts == [2, 2, 2]
