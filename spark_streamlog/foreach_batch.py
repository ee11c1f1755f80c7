"""A ready function for `foreachBatch`: exactly-once writes that Spark does not support for a sink in Python.

    from spark_streamlog.foreach_batch import write_to

    totals.writeStream.outputMode("update").foreachBatch(write_to("/data/log", topic="totals"))

It writes streams in update mode. To write one stream to several topics, call several such functions from your own with
its DataFrames. Each micro-batch is written once by `txnAppId` and `txnVersion`, which are the ids of the query and the
batch: a batch that is repeated after a crash is skipped where it was written before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spark_streamlog.options.option_reader import QueryKind
from spark_streamlog.options.write_options import Delivery, parse_write_options
from spark_streamlog.sink_conditions import sink_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_ID_PROPERTY: Final = "sql.streaming.queryId"
_APP_ID_PREFIX: Final = "foreachBatch-"
_SET_BY_WRITE_TO: Final = ("txnappid", "txnversion")


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatchWriter:
    """The function that `write_to` returns. Spark calls it with a DataFrame and the batch's id."""

    options: Mapping[str, str]
    app_id: str | None
    is_exactly_once: bool

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """All rows of the DataFrame are readable when it returns. A batch that was written before is skipped.

        Raises STREAMLOG_FOREACH_BATCH_NEEDS_APP_ID if there is no `app_id` and Spark does not provide the query's id.
        """
        writer = frame.write.format("streamlog").mode("append").options(**self.options)
        if self.is_exactly_once:
            writer = writer.option("txnAppId", self.app_id or _app_id_of_query(frame)).option("txnVersion", batch_id)
        writer.save()


def write_to(
    path: str | None = None,
    *,
    topic: str | None = None,
    app_id: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> MicroBatchWriter:
    """A function for `foreachBatch` that appends each micro-batch to a log, exactly-once.

    path     the log directory; None where `options` name brokers
    topic    the topic of all rows; None: the column `topic` of each row
    app_id   the writer's id, in place of the query's id. A batch whose number is not above the last one of the same
             `app_id` and topic is skipped, so a query with a new checkpoint, which starts at 0 again, needs a new one.
             Spark Connect needs it, since Spark does not provide the query's id there.
    options  of the sink, such as topic.partitions or valueFormat

    The function may be called for several DataFrames of one batch if each is written to its own topic. Raises
    STREAMLOG_INVALID_OPTIONS at once.
    """
    given = {"path": path, "topic": topic, **(options or {})}
    named = {name: _text(value) for name, value in given.items() if value is not None}
    refused = sorted(name for name in named if name.lower() in _SET_BY_WRITE_TO)
    if refused:
        raise sink_error("STREAMLOG_FOREACH_BATCH_SETS_IDS", names=" and ".join(refused))
    parsed = parse_write_options(named | _options_to_check(app_id), QueryKind.BATCH)
    is_exactly_once = parsed.delivery is Delivery.EXACTLY_ONCE
    return MicroBatchWriter(options=named, app_id=app_id, is_exactly_once=is_exactly_once)


def _options_to_check(app_id: str | None) -> dict[str, str]:
    return {} if app_id is None else {"txnAppId": app_id, "txnVersion": "0"}


def _text(value: Any) -> str:
    """As DataFrameWriter.option writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _app_id_of_query(frame: DataFrame) -> str:
    session = frame.sparkSession
    context = None if type(session).__module__.startswith("pyspark.sql.connect") else session.sparkContext
    query_id = None if context is None else context.getLocalProperty(QUERY_ID_PROPERTY)
    if not query_id:
        raise sink_error("STREAMLOG_FOREACH_BATCH_NEEDS_APP_ID")
    return f"{_APP_ID_PREFIX}{query_id}"
