"""The names of a sink in the log: no two sinks touch one another's."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_streamlog.exactly_once.sink_identity import (
    application_identity,
    query_identity,
    single_write_identity,
)

QUERY_ID = "73186b39-922e-4208-9ce5-ca7bd052e63b"


def test_the_ids_of_a_query_contain_its_query_id():
    query = query_identity(QUERY_ID)
    assert query.driver_id == f"{QUERY_ID}-driver"
    assert query.task_id(3, 1) == f"{QUERY_ID}-3-1"
    assert query.decision_group == f"streamlog-sink-{QUERY_ID}"
    assert query.batches_come_in_order


def test_a_query_id_is_a_uuid():
    with pytest.raises(ValueError, match="badly formed"):
        query_identity("orders")


def test_the_ids_of_an_application_contain_its_name():
    orders = application_identity("orders sync", topic="orders")
    assert orders.decision_group == "streamlog-sink-orders%20sync/orders"
    assert orders.driver_id == f"{orders.prefix}orders%20sync/orders-driver"
    assert orders.task_id(0, 2).endswith("-0-2")
    assert not orders.batches_come_in_order


def test_an_application_has_a_separate_identity_per_topic():
    identities = [application_identity("a", topic=topic) for topic in (None, "t", "u")]
    assert len({one.prefix for one in identities}) == 3
    assert len({one.decision_group for one in identities}) == 3


def test_a_single_write_has_no_decision_group():
    write = single_write_identity(UUID(int=1))
    assert write.decision_group is None
    assert write.driver_id == "streamlog-write-00000000-0000-0000-0000-000000000001-driver"


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60) | st.sampled_from(["a", "a-1", "a/t", "a-1-0"])
topics = st.none() | st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True) | st.sampled_from(["t", "1", "driver"])
applications = st.tuples(names, topics)
slots = st.integers(0, 2000)


@given(applications, applications, slots, slots)
def test_no_application_has_ids_under_the_prefix_of_another(one, other, task, attempt):
    left, right = application_identity(one[0], topic=one[1]), application_identity(other[0], topic=other[1])
    for name in (right.driver_id, right.task_id(task, attempt)):
        assert name.startswith(left.prefix) == (one == other)
    assert (left.decision_group == right.decision_group) == (one == other)


@given(applications, st.uuids(), st.uuids())
def test_no_kind_of_sink_has_ids_under_the_prefix_of_another(application, query_id, write_id):
    sinks = [
        application_identity(application[0], topic=application[1]),
        query_identity(str(query_id)),
        single_write_identity(write_id),
    ]
    for one in sinks:
        assert [other for other in sinks if other.driver_id.startswith(one.prefix)] == [one]
        assert [other for other in sinks if other.task_id(0, 0).startswith(one.prefix)] == [one]


def test_tasks_and_attempts_have_different_ids():
    query = query_identity(QUERY_ID)
    assert len({query.task_id(task, attempt) for task in range(20) for attempt in range(20)}) == 400
