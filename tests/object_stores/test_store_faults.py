"""A real store behind a proxy that throttles, resets and loses answers: each batch is committed once."""

from __future__ import annotations

import pytest
from support.builders.append_records import append_values
from support.builders.builders import a_batch

from broker_core.cluster import GroupOffset
from broker_core.model.exceptions import (
    ObjectOutcomeUnknownError,
    ObjectPermissionError,
    ObjectStoreUnavailableError,
    ObjectThrottledError,
)
from broker_core.model.identifiers import TopicPartition
from broker_core.object_cluster.open_objects import open_objects
from broker_core.object_store.client_store import PART_BYTES
from broker_core.staged_writes import AppVersion

T0 = TopicPartition("t", 0)
MORE_THAN_THE_LIBRARY_RETRIES = 3
ALWAYS = 1_000


def is_commit_write(method, path):
    return method == "PUT" and "/commits/" in path


def is_data_read(method, path):
    return method == "GET" and "/data/" in path


def is_part_write(method, path):
    return method == "PUT" and "partNumber=" in path


def is_upload_begin(method, path):
    return method == "POST" and "uploads=" in path


def is_upload_end(method, path):
    return method == "POST" and "uploadId=" in path


@pytest.fixture
def cluster(proxied):
    url, options, _ = proxied
    with open_objects(url, options, create=True) as cluster:
        cluster.create_topic("t")
        yield cluster


@pytest.fixture
def proxy(proxied):
    return proxied[2]


def end_of(cluster):
    return cluster.bounds(T0).log_end_offset


@pytest.mark.parametrize("times", [1, MORE_THAN_THE_LIBRARY_RETRIES])
@pytest.mark.parametrize("fault", ["no_answer", "reset", "slow_down"])
def test_a_commit_is_applied_once_despite_lost_responses(cluster, proxy, fault, times):
    proxy.once(fault, is_commit_write, times)
    version = AppVersion(app_id="q", version=1)
    upload = cluster.stage()
    upload.append(T0, a_batch(3))
    assert cluster.commit_staged([upload.finish()], app=version).is_new
    assert append_values(cluster, "t", "x").base_offset == 3
    assert end_of(cluster) == 4
    # What is found to be there behind the first lost answer is not sent again.
    assert 1 <= proxy.counts[fault] <= times


def test_a_commit_with_a_lost_response_is_found_on_retry(cluster, proxy):
    upload = cluster.stage()
    upload.append(T0, a_batch(3))
    staged = upload.finish()

    def nothing_gets_through(method, path):
        if is_commit_write(method, path):
            return "no_answer"
        return "reset" if "/commits/" in path else None

    proxy.next_fault = nothing_gets_through
    with pytest.raises((ObjectOutcomeUnknownError, ObjectStoreUnavailableError)):
        cluster.commit_staged([staged], app=AppVersion(app_id="q", version=1))
    proxy.next_fault = lambda method, path: None
    assert proxy.counts["no_answer"] >= 1
    again = cluster.commit_staged([staged], app=AppVersion(app_id="q", version=1))
    assert not again.is_new and again.last.version == 1
    assert end_of(cluster) == 3


@pytest.mark.parametrize("fault", ["cut", "reset", "no_answer", "slow_down"])
def test_a_read_that_is_broken_off_or_throttled_is_repeated(cluster, proxy, fault):
    for number in range(3):
        append_values(cluster, "t", "x" * 10_000 + str(number))
    proxy.once(fault, is_data_read, 2)
    assert cluster.fetch(T0, 0, max_bytes=10**6).next_offset == 3
    assert proxy.counts[fault] == 2


def test_a_read_that_is_always_truncated_names_the_object(cluster, proxy):
    append_values(cluster, "t", "x" * 10_000)
    proxy.once("cut", is_data_read, ALWAYS)
    with pytest.raises(ObjectStoreUnavailableError, match=r"/data/\d+.* cannot be reached"):
        cluster.fetch(T0, 0, max_bytes=10**6)
    assert proxy.counts["cut"] >= 1


@pytest.mark.parametrize("fault", ["no_answer", "reset", "slow_down"])
@pytest.mark.parametrize("request_kind", [is_upload_begin, is_part_write, is_upload_end])
def test_an_upload_in_parts_continues_after_a_request_that_failed(cluster, proxy, request_kind, fault):
    proxy.once(fault, request_kind)
    upload = cluster.stage()
    value = b"v" * 900_000
    for _ in range(2 * PART_BYTES // len(value) + 1):
        upload.append(T0, a_batch_of(value))
    staged = upload.finish()
    assert cluster.commit_staged([staged]).is_new
    assert proxy.counts[fault] == 1
    position = 0
    while position < end_of(cluster):
        position = cluster.fetch(T0, position, max_bytes=4 * 2**20).next_offset


def test_an_upload_whose_parts_never_arrive_fails_and_leaves_nothing_visible(cluster, proxy):
    proxy.once("reset", is_part_write, ALWAYS)
    upload = cluster.stage()
    value = b"v" * 900_000
    with pytest.raises(ObjectOutcomeUnknownError, match="/data/"):
        for _ in range(60):
            upload.append(T0, a_batch_of(value))
        upload.finish()
    upload.abort()
    proxy.next_fault = lambda method, path: None
    assert proxy.counts["reset"] >= 1
    assert end_of(cluster) == 0


def large_upload(cluster):
    """Not ended yet, of three parts."""
    upload = cluster.stage()
    for _ in range(2 * PART_BYTES // 900_000 + 1):
        upload.append(T0, a_batch_of(b"v" * 900_000))
    return upload


def test_an_upload_is_complete_if_only_the_answers_to_its_end_are_lost(cluster, proxy):
    upload = large_upload(cluster)
    proxy.once("no_answer", is_upload_end, ALWAYS)
    staged = upload.finish()
    assert proxy.counts["no_answer"] >= 3
    assert cluster.commit_staged([staged]).is_new
    assert cluster.fetch(T0, 0, max_bytes=1).next_offset > 0


def test_an_upload_that_cannot_be_looked_for_names_what_happened_and_what_to_do(cluster, proxy):
    """The last request that the client library sends is to abort the upload, whose answer was all that was told."""
    upload = large_upload(cluster)

    def next_fault(method, path):
        if is_upload_end(method, path):
            return "no_answer"
        return "reset" if method == "HEAD" else None

    proxy.next_fault = next_fault
    with pytest.raises(ObjectOutcomeUnknownError, match=r"answers to that were lost.*repeat the write"):
        upload.finish()
    assert min(proxy.counts["no_answer"], proxy.counts["reset"]) >= 3
    proxy.next_fault = lambda method, path: None
    assert end_of(cluster) == 0


def test_an_upload_whose_end_never_arrives_is_not_taken_for_complete(cluster, proxy):
    upload = large_upload(cluster)
    proxy.once("reset", is_upload_end, ALWAYS)
    with pytest.raises(ObjectOutcomeUnknownError, match="/data/"):
        upload.finish()
    assert proxy.counts["reset"] >= 3


def a_batch_of(value):
    from broker_core.record.batch_builder import build_batch
    from broker_core.record.batch_reader import Record

    return build_batch([Record(value=value, timestamp_ms=1)])


def test_permanent_throttling_is_reported(cluster, proxy):
    append_values(cluster, "t", "x")
    proxy.once("slow_down", lambda method, path: method == "GET", ALWAYS)
    with pytest.raises(ObjectThrottledError, match="SlowDown"):
        cluster.bounds(T0)
    assert proxy.counts["slow_down"] >= 1


def test_expired_credentials_are_reported_and_staged_data_is_kept(cluster, proxy):
    upload = cluster.stage()
    upload.append(T0, a_batch(2))
    staged = upload.finish()
    proxy.once("expired", lambda method, path: True, ALWAYS)
    with pytest.raises(ObjectPermissionError, match=r"have expired.*object\.session\.token.*ExpiredToken"):
        cluster.commit_staged([staged], app=AppVersion(app_id="q", version=1))
    with pytest.raises(ObjectPermissionError):
        cluster.bounds(T0)
    proxy.next_fault = lambda method, path: None
    assert proxy.counts["expired"] >= 2
    assert cluster.commit_staged([staged], app=AppVersion(app_id="q", version=1)).is_new
    assert end_of(cluster) == 2


@pytest.mark.parametrize("fault", ["no_answer", "reset", "slow_down"])
def test_a_group_is_replaced_once_despite_lost_responses(cluster, proxy, fault):
    cluster.commit_offsets("g", {T0: GroupOffset(offset=1)})
    proxy.once(fault, lambda method, path: method == "PUT" and "/groups/" in path, MORE_THAN_THE_LIBRARY_RETRIES)
    cluster.commit_offsets("g", {T0: GroupOffset(offset=2)})
    assert 1 <= proxy.counts[fault] <= MORE_THAN_THE_LIBRARY_RETRIES
    assert cluster.fetch_offsets("g")[T0].offset == 2


def test_a_log_is_created_once_despite_a_lost_response(proxied):
    url, options, proxy = proxied
    proxy.once("no_answer", lambda method, path: method == "PUT" and path.endswith("/streamlog.json"))
    with open_objects(url, options, create=True) as cluster:
        cluster.create_topic("t")
    assert proxy.counts["no_answer"] == 1
    with open_objects(url, options) as cluster:
        assert cluster.describe_topics().keys() == {"t"}
