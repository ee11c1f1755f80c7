"""`format("streamlog")`: wiring only."""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from spark_streamlog.batch_reader import StreamlogBatchReader, batch_reader_for
from spark_streamlog.batch_writer import StreamlogBatchWriter
from spark_streamlog.errors import condition_error
from spark_streamlog.options import QueryKind
from spark_streamlog.read_options import ReadOptions, parse_read_options
from spark_streamlog.rows.kafka_schema import arrow_schema
from spark_streamlog.stream_reader import StreamlogStreamReader
from spark_streamlog.stream_writer import StreamlogStreamWriter
from spark_streamlog.table_options import asks_for_table, parse_table_options
from spark_streamlog.table_reader import MetadataTableReader
from spark_streamlog.tables.table_schema import table_arrow_schema, table_ddl
from spark_streamlog.write_options import parse_write_options


class StreamlogDataSource(DataSource):
    """Apache Kafka's partitioned log as a Spark data source.

        spark.read.format("streamlog").option("subscribe", "events").load("/data/log")
        df.write.format("streamlog").option("topic", "events").mode("append").save("/data/log")

    Wrong options are refused at load(), before a query runs.
    """

    _was_handed_over = False
    """Where Spark plans the write of a micro-batch it makes a new data source, and where it commits it hands one over.
    What planning does must not be done there.
    """

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_was_handed_over": True}

    @classmethod
    def name(cls) -> str:
        return "streamlog"

    def schema(self) -> StructType | str:
        if asks_for_table(self.options):
            return table_ddl(parse_table_options(self.options).scan.table)
        options = parse_read_options(self.options, QueryKind.NOT_YET_KNOWN)
        return from_arrow_schema(_arrow_schema(options))

    def reader(self, schema: StructType) -> StreamlogBatchReader | MetadataTableReader:
        if asks_for_table(self.options):
            return self._table_reader(schema)
        options = parse_read_options(self.options, QueryKind.BATCH)
        _refuse_another_schema(schema, _arrow_schema(options))
        return batch_reader_for(options)

    def streamReader(self, schema: StructType) -> StreamlogStreamReader:
        if asks_for_table(self.options):
            raise condition_error("STREAMLOG_TABLE_IN_STREAM")
        options = parse_read_options(self.options, QueryKind.STREAM)
        given = _arrow_schema(options)
        _refuse_another_schema(schema, given)
        return StreamlogStreamReader(options, has_plain_schema=schema == from_arrow_schema(given))

    def writer(self, schema: StructType, overwrite: bool) -> StreamlogBatchWriter:
        return StreamlogBatchWriter(parse_write_options(self.options, QueryKind.BATCH), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamlogStreamWriter:
        # Complete mode arrives as overwrite; like the other modes it appends.
        options = parse_write_options(self.options, QueryKind.STREAM)
        return StreamlogStreamWriter(options, schema, is_planning=not self._was_handed_over)

    def _table_reader(self, schema: StructType) -> MetadataTableReader:
        options = parse_table_options(self.options)
        table = options.scan.table
        _refuse_another_schema(schema, table_arrow_schema(table), shown=table_ddl(table))
        return MetadataTableReader(options)


def _arrow_schema(options: ReadOptions) -> Any:
    return arrow_schema(include_headers=options.include_headers, formats=options.formats)


def _refuse_another_schema(asked: StructType, given: Any, *, shown: str | None = None) -> None:
    # Only a schema given by the user can differ, or that of a subject which has got a new version since load().
    if to_arrow_schema(asked, timezone="UTC") != given:
        shown = from_arrow_schema(given).simpleString() if shown is None else shown
        raise condition_error("STREAMLOG_FIXED_SCHEMA", asked=asked.simpleString(), given=shown)
