"""Converts the Arrow batches that Spark passes to a writer into columns of records, topic by topic.

Columns without a format pass through unchanged: text stays UTF-8 bytes, and no Python object is created per row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from broker_core.record.columns import group_rows
from spark_streamlog.rows.sink_columns import SinkColumns, TypedColumn
from spark_streamlog.serde.decoded_values import Encoder
from spark_streamlog.serde.serde_errors import CannotSerializeError
from spark_streamlog.serde.value_formats import encoder_for
from spark_streamlog.sink_conditions import sink_error


class SinkRows:
    """The rows of one task. `task` and the count of rows so far identify a row in an error."""

    def __init__(self, columns: SinkColumns, *, topic_option: str | None, task: int) -> None:
        self._columns = columns
        self._topic_option = topic_option
        self._task = task
        self._typed = [(one, encoder_for(one.settings, one.arrow_type)) for one in columns.typed]
        self.row_count = 0

    def by_topic(self, batch: Any) -> Iterator[tuple[str, Any]]:
        """(topic, RecordBatch of record columns), rows in order. Raises for a null topic or a negative timestamp."""
        if batch.num_rows == 0:
            return
        columns = {name: batch.column(name) for name in self._columns.record_columns}
        for typed, encoder in self._typed:
            columns[typed.name] = self._encoded(typed, encoder, columns[typed.name])
        records = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        if "timestamp" in self._columns.record_columns:
            self._refuse_negative_timestamp(records.column("timestamp"))
        if self._topic_option is not None:
            yield self._topic_option, records
        else:
            yield from self._split(batch.column("topic"), records)
        self.row_count += batch.num_rows

    def _encoded(self, typed: TypedColumn, encoder: Encoder, column: Any) -> Any:
        # Times are in the session's time zone, and texts in large_string columns if Spark is configured so.
        column = column if column.type == typed.arrow_type else column.cast(typed.arrow_type)
        try:
            return encoder.encode(column)
        except CannotSerializeError as error:
            raise sink_error(
                "STREAMLOG_CANNOT_SERIALIZE",
                column=typed.name,
                format=typed.settings.kind.value,
                row=self.row_count + error.fields["row"],
                task=self._task,
                reason=error.fields["reason"],
            ) from None

    def _split(self, topics: Any, records: Any) -> Iterator[tuple[str, Any]]:
        if topics.null_count:
            first = pc.index(pc.is_null(topics), True).as_py()
            raise sink_error("KAFKA_NULL_TOPIC_IN_DATA", row=self.row_count + first, task=self._task)
        encoded = topics.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        if len(names) == 1:
            yield names[0], records
            return
        for name, rows in zip(names, group_rows(encoded.indices, len(names)), strict=True):
            yield name, records.take(rows)

    def _refuse_negative_timestamp(self, timestamps: Any) -> None:
        microseconds = timestamps.cast(pa.int64())
        lowest = pc.min(microseconds).as_py()
        if lowest is not None and lowest < 0:
            first = pc.index(pc.less(microseconds, 0), True).as_py()
            raise sink_error("STREAMLOG_NEGATIVE_TIMESTAMP", row=self.row_count + first, task=self._task)
