"""`ports.ObjectStore`, promise by promise, on every store."""

from __future__ import annotations

import threading
from functools import partial

import pytest
from object_stores.conftest import place_on
from support.objects.in_memory_objects import InMemoryObjects

from broker_core.model.exceptions import ObjectNotFoundError, ObjectPreconditionError
from broker_core.object_cluster.log_ports import Requests
from broker_core.object_store.client_store import PART_BYTES
from broker_core.object_store.open_store import open_store


@pytest.fixture
def store(place):
    store = open_store(*place)
    yield store
    store.close()


@pytest.fixture(params=["versitygw", "moto", "azurite", "gcs", "folder", "memory"])
def either_store(request, new_url, tmp_path):
    if request.param == "memory":
        yield InMemoryObjects()
        return
    store = open_store(*place_on(request.param, request, new_url, tmp_path))
    yield store
    store.close()


def test_objects_round_trip(either_store):
    either_store.put("data/a", b"abc")
    assert bytes(either_store.get("data/a").data) == b"abc"
    either_store.put("data/a", bytearray(b"other"))
    assert bytes(either_store.get("data/a").data) == b"other"


def test_a_missing_object_is_reported(either_store):
    for call in (lambda: either_store.get("data/no"), lambda: either_store.get_ranges("data/no", [(0, 1)])):
        with pytest.raises(ObjectNotFoundError, match="data/no"):
            call()


def test_an_object_is_created_only_once(either_store):
    etag = either_store.put_if_absent("commits/1", b"mine")
    with pytest.raises(ObjectPreconditionError):
        either_store.put_if_absent("commits/1", b"yours")
    found = either_store.get("commits/1")
    assert (bytes(found.data), found.etag) == (b"mine", etag)


def test_one_of_many_concurrent_creations_succeeds(store):
    made = []

    def make(name):
        try:
            store.put_if_absent("commits/2", name)
        except ObjectPreconditionError:
            return
        made.append(name)

    threads = [threading.Thread(target=make, args=(b"%d" % number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [bytes(store.get("commits/2").data)]


def test_an_object_is_replaced_only_if_unchanged_since_it_was_read(either_store):
    first = either_store.put_if_absent("groups/g-a", b"1")
    second = either_store.put_if_matches("groups/g-a", b"2", first)
    with pytest.raises(ObjectPreconditionError):
        either_store.put_if_matches("groups/g-a", b"3", first)
    found = either_store.get("groups/g-a")
    assert (bytes(found.data), found.etag) == (b"2", second)
    third = either_store.put_if_matches("groups/g-a", b"3", found.etag)
    assert (bytes(either_store.get("groups/g-a").data), third != second) == (b"3", True)
    assert [entry.path for entry in either_store.list_after("groups/")] == ["groups/g-a"]


def test_one_of_many_concurrent_replacements_succeeds(store):
    etag = store.put_if_absent("groups/g-b", b"0")
    replaced = []

    def replace(name):
        try:
            store.put_if_matches("groups/g-b", name, etag)
        except ObjectPreconditionError:
            return
        replaced.append(name)

    threads = [threading.Thread(target=replace, args=(b"%d" % number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert replaced == [bytes(store.get("groups/g-b").data)]


def test_ranges_are_returned_in_order_and_are_short_only_at_the_end(either_store):
    either_store.put("data/r", bytes(range(100)))
    found = either_store.get_ranges("data/r", [(50, 3), (0, 2), (53, 2), (95, 20)])
    assert [bytes(one) for one in found] == [bytes([50, 51, 52]), bytes([0, 1]), bytes([53, 54]), bytes(range(95, 100))]


def test_a_listing_is_ordered_and_continues_after_a_given_path(either_store):
    for number in (3, 1, 2, 10):
        either_store.put(f"commits/{number:03d}", b"x" * number)
    either_store.put("commits2/1", b"")
    entries = list(either_store.list_after("commits/", "commits/001"))
    assert [(entry.path, entry.size_bytes) for entry in entries] == [
        ("commits/002", 2),
        ("commits/003", 3),
        ("commits/010", 10),
    ]
    assert list(either_store.list_after("nothing/")) == []


def test_a_listing_of_several_pages_is_complete(versitygw_server, new_url):
    store = open_store(new_url, versitygw_server.options())
    names = [f"data/{number:04d}" for number in range(1_100)]
    Requests().gather([partial(store.put, name, b"") for name in names])
    assert [entry.path for entry in store.list_after("data/")] == names


def test_objects_are_removed_whether_they_exist_or_not(either_store):
    either_store.put("data/x", b"")
    either_store.delete(["data/x", "data/never"])
    either_store.delete(["data/never"])
    either_store.delete([])
    assert list(either_store.list_after("data/")) == []


def test_an_upload_in_parts_exists_when_it_is_finished(store):
    content = bytes(range(256)) * (PART_BYTES // 256)
    upload = store.upload("data/large")
    upload.write(content)
    upload.write(memoryview(content)[: PART_BYTES // 2])
    with pytest.raises(ObjectNotFoundError):
        store.get("data/large")
    upload.write(b"end")
    upload.finish()
    upload.abort()
    assert bytes(store.get("data/large").data) == content + content[: PART_BYTES // 2] + b"end"


def test_an_aborted_upload_leaves_nothing(store):
    upload = store.upload("data/given-up")
    upload.write(bytes(PART_BYTES + 5))
    upload.abort()
    upload.abort()
    assert list(store.list_after("data/")) == []
    with pytest.raises(ObjectNotFoundError):
        store.get("data/given-up")
