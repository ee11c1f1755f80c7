"""A stream on object storage through a store that refuses, throttles and breaks off, and credentials that expire."""

from contextlib import closing, contextmanager

import pytest
from exactly_once.kill_matrix import KillMatrix
from exactly_once.kill_orders import Kill
from exactly_once.kill_stories import task_kill
from exactly_once.log_place import Objects, open_log, targets_of
from support.objects.faulty_proxy import FaultyProxy
from support.objects.s3_servers import BUCKET, SECRET_KEY, moto

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

OLD_TOKEN, FRESH_TOKEN = "session-token-that-expires", "session-token-that-is-fresh"


@contextmanager
def proxied_matrix(folder, kills, server, objects, **settings):
    """(matrix, proxy): the query goes through the proxy, the checks do not."""
    with closing(FaultyProxy(server.port)) as proxy:
        matrix = KillMatrix(folder, kills, objects=objects, **settings)
        options = server.options(endpoint=f"http://127.0.0.1:{proxy.port}")
        matrix.place = Objects(objects.url, tuple(options.items()))
        try:
            yield matrix, proxy
        finally:
            matrix.close()


@pytest.mark.parametrize(
    "moment",
    [task_kill("TASK_MAY_WRITE", task=1, action="wait"), Kill(step="COMMITTING", nth=2, action="wait")],
    ids=["while a task writes", "before a commit"],
)
def test_credentials_that_expire_end_the_query_by_name_and_fresh_ones_go_on_exactly_once(
    spark, tmp_path, kills, moment
):
    # moto takes any session token, versitygw none.
    url = f"s3://{BUCKET}/{tmp_path.name}/log"
    with (
        moto() as server,
        proxied_matrix(tmp_path, kills, server, Objects(url, tuple(server.options().items()))) as (matrix, proxy),
    ):
        through_proxy = matrix.place

        def take_token(token):
            matrix.place = Objects(through_proxy.url, (*through_proxy.options, ("object.session.token", token)))

        def expire():
            proxy.expired_token = OLD_TOKEN

        take_token(OLD_TOKEN)
        matrix.add_batches(3)
        matrix.kills.order(moment)
        failure = matrix.copy(spark, meanwhile=expire)
        matrix.note_hits("credentials expire", (moment,))
        assert proxy.counts["expired"] >= 1
        assert failure is not None
        for word in ("[STREAMLOG_OBJECT_PERMISSION]", "ExpiredToken", url, "object.session.token"):
            assert word in failure, failure
        kept = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
        shown = [failure.encode(), spark.log_path.read_bytes(), *kept]
        assert not [text for text in shown if any(s.encode() in text for s in (OLD_TOKEN, FRESH_TOKEN, SECRET_KEY))]
        take_token(FRESH_TOKEN)
        assert matrix.finish(spark) == []
        assert matrix.newest("commits") >= 2


def test_a_store_that_throttles_and_breaks_off_costs_time_and_no_row(spark, tmp_path, kills, versitygw_server, objects):
    arguments = {"padding_bytes": 2_000_000}  # five rows of a task are an upload in two parts
    with proxied_matrix(tmp_path, kills, versitygw_server, objects, arguments=arguments) as (matrix, proxy):
        with closing(open_log(objects)) as log:
            for topic in targets_of(objects):
                log.alter_topic_configs(topic, {"max.message.bytes": "3000000"})
        faults = (
            ("slow_down", lambda method, path: method == "GET" and "/commits/" in path),
            ("cut", lambda method, path: method == "GET" and "/data/" in path),
            ("reset", lambda method, path: method == "PUT" and "partNumber=" in path),
            ("slow_down", lambda method, path: method == "PUT" and "partNumber=" in path),
            ("no_answer", lambda method, path: method == "POST" and "uploadId=" in path),
            ("reset", lambda method, path: method == "PUT" and "/commits/" in path),
            ("slow_down", lambda method, path: method == "PUT" and "/commits/" in path),
            ("no_answer", lambda method, path: method == "PUT" and "/commits/" in path),
        )
        matrix.kills.order()
        for fault, matches in faults:
            before = proxy.counts[fault]
            proxy.once(fault, matches, times=2)
            matrix.add_batches(1)
            assert matrix.copy(spark) is None, fault
            assert proxy.counts[fault] > before, f"{fault} was never met"
        proxy.next_fault = lambda method, path: None
        assert any("partNumber=2" in path for _, path in proxy.requests), "no upload had two parts"
        assert matrix.finish(spark) == []
