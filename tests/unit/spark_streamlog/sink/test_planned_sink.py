"""What the driver knows when it plans, and what a task makes of it."""

import pickle

import pytest

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.transaction_state import TransactionState
from spark_streamlog.errors import ConditionError
from spark_streamlog.exactly_once.sink_identity import application_identity, query_identity
from spark_streamlog.options.option_reader import LogTarget, QueryKind
from spark_streamlog.options.write_options import parse_write_options
from spark_streamlog.sink.planned_sink import plan_batch_write, plan_micro_batch, sink_of_micro_batch
from spark_streamlog.worker.planned_log import open_to_plan

QUERY_ID = "73186b39-922e-4208-9ce5-ca7bd052e63b"
OTHER_ID = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def checkpoint(tmp_path):
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "metadata").write_text(f'{{"id":"{QUERY_ID}"}}')
    return str(folder)


def options(tmp_path, kind=QueryKind.BATCH, **given):
    return parse_write_options({"path": str(tmp_path / "log"), "topic": "t", **given}, kind)


def transactional_ids(tmp_path):
    with open_embedded(tmp_path / "log") as cluster:
        return {one.transactional_id: one.state for one in cluster.list_transactions()}


def test_a_write_without_txn_app_id_has_a_unique_identity(tmp_path):
    first, second = (plan_batch_write(options(tmp_path)).sink for _ in range(2))
    assert first.identity != second.identity
    assert first.batch is None
    assert transactional_ids(tmp_path) == {
        one.identity.driver_id: TransactionState.EMPTY for one in (first, second)
    }  # the drivers are known; no task has opened anything


def test_a_write_with_txn_app_id_belongs_to_its_application_and_topic(tmp_path):
    planned = plan_batch_write(options(tmp_path, txnAppId="orders", txnVersion="7")).sink
    assert planned.identity == application_identity("orders", topic="t")
    assert planned.batch == 7
    assert planned.driver.transactional_id == planned.identity.driver_id


def test_planning_a_micro_batch_takes_over_if_the_checkpoint_names_the_query(tmp_path, checkpoint):
    planned = plan_micro_batch(options(tmp_path, QueryKind.STREAM, checkpointLocation=checkpoint)).sink
    assert planned.identity == query_identity(QUERY_ID)
    following = plan_micro_batch(options(tmp_path, QueryKind.STREAM, checkpointLocation=checkpoint)).sink
    assert following.driver.producer_epoch > planned.driver.producer_epoch


def test_without_a_known_query_only_the_log_is_planned(tmp_path):
    for given in ({"checkpointLocation": "hdfs://h/c"}, {}):
        planned = plan_micro_batch(options(tmp_path, QueryKind.STREAM, **given))
        assert planned.sink is None
        with open_to_plan(LogTarget(path=str(tmp_path / "log"))) as (_, log):
            assert planned.log == log
    assert transactional_ids(tmp_path) == {}


def test_at_least_once_plans_only_the_log(tmp_path, checkpoint):
    planned = plan_batch_write(options(tmp_path, delivery="at-least-once"))
    stream = options(tmp_path, QueryKind.STREAM, delivery="at-least-once", checkpointLocation=checkpoint)
    assert plan_micro_batch(stream) == planned
    assert planned.sink is None
    with open_to_plan(LogTarget(path=str(tmp_path / "log"))) as (_, log):
        assert planned.log == log
    assert transactional_ids(tmp_path) == {}


def test_a_task_adds_its_batch_id_to_the_plan(tmp_path, checkpoint):
    planned = plan_micro_batch(options(tmp_path, QueryKind.STREAM, checkpointLocation=checkpoint))
    sink = sink_of_micro_batch(pickle.loads(pickle.dumps(planned)), query_id=QUERY_ID, batch_id=3)
    assert (sink.identity, sink.driver, sink.batch) == (planned.sink.identity, planned.sink.driver, 3)


def test_a_plan_for_another_query_is_ignored(tmp_path, checkpoint):
    planned = plan_micro_batch(options(tmp_path, QueryKind.STREAM, checkpointLocation=checkpoint))
    sink = sink_of_micro_batch(planned, query_id=OTHER_ID, batch_id=3)
    assert (sink.identity, sink.driver) == (query_identity(OTHER_ID), None)
    unknown = plan_micro_batch(options(tmp_path, QueryKind.STREAM))
    assert unknown.sink is None
    assert sink_of_micro_batch(unknown, query_id=OTHER_ID, batch_id=3) == sink


def test_a_read_only_log_is_refused_when_the_write_is_planned(tmp_path):
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "somebody's file").write_text("")
    with pytest.raises(ConditionError, match="STREAMLOG_DIRECTORY_"):
        plan_batch_write(options(tmp_path))
