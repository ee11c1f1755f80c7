"""The log on real stores: one pass through the behaviour that the unit tests show in memory."""

from __future__ import annotations

import threading

import pytest
from support.builders.append_records import append_values
from support.builders.builders import a_batch

from broker_core.cluster import GroupOffset
from broker_core.model.identifiers import OffsetSpec, TopicPartition
from broker_core.object_cluster.open_objects import open_objects
from broker_core.record.batch_reader import iter_headers, records_of
from broker_core.staged_writes import AppVersion

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def values(cluster, partition=T0):
    found, position = [], 0
    while True:
        fetched = cluster.fetch(partition, position, max_bytes=1_000)
        data = bytes(fetched.buffer)
        for place, _ in iter_headers(data):
            found += [(one.offset, one.value) for one in records_of(data, place) if one.offset >= position]
        if fetched.next_offset == position:
            return found
        position = fetched.next_offset


def test_a_log_works_on_the_store(place):
    with open_objects(*place, create=True) as cluster:
        assert cluster.describe_topics() == {}
        cluster.create_topic("t", partition_count=2, configs={"retention.ms": "-1"})
        for number in range(10):
            append_values(cluster, "t", f"a{number}", f"b{number}")
        upload = cluster.stage()
        upload.append(T1, a_batch(3))
        staged = upload.finish()
        version = AppVersion(app_id="q", version=1, note="n")
        assert cluster.commit_staged([staged], app=version).is_new
        assert not cluster.commit_staged([staged], app=version).is_new
        cluster.commit_offsets("g", {T0: GroupOffset(offset=5)})
        cluster.commit_offsets("g", {T0: GroupOffset(offset=6)})
        report = cluster.maintain()
        assert (report.merged_range_count, report.errors) == (10, [])
        before = values(cluster)
    with open_objects(*place) as cluster:
        assert values(cluster) == before == [(n, b"%s%d" % (b"ab"[n % 2 : n % 2 + 1], n // 2)) for n in range(20)]
        assert cluster.list_offsets({T1: OffsetSpec.LATEST})[T1].offset == 3
        assert cluster.last_version("q") == version
        assert cluster.fetch_offsets("g")[T0].offset == 6
        assert cluster.list_groups() == ("g",)
        cluster.delete_topic("t")
    with open_objects(*place) as cluster:
        assert cluster.describe_topics() == {}


def test_several_writers_keep_offsets_dense(place):
    with open_objects(*place, create=True) as cluster:
        cluster.create_topic("t")
        errors = []

        def write(name):
            try:
                with open_objects(*place) as own:
                    for number in range(5):
                        append_values(own, "t", f"{name}{number}")
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        found = values(cluster)
    assert [offset for offset, _ in found] == list(range(20))
    assert sorted(value for _, value in found) == sorted(b"%s%d" % (n.encode(), i) for n in "abcd" for i in range(5))


def test_a_missing_log_is_reported_and_not_created(place):
    from broker_core.model.exceptions import ObjectLogFormatError

    with open_objects(*place) as cluster:
        assert not cluster.exists()
        with pytest.raises(ObjectLogFormatError, match="There is no log at"):
            cluster.describe_topics()
