"""`format("streamlog")`: wiring only.

Each method imports what it needs when it is called. Spark starts a Python process for each of them, and a query waits
for the imports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from spark_streamlog.errors import condition_error
from spark_streamlog.options.option_reader import QueryKind, asks_for_table

if TYPE_CHECKING:
    from spark_streamlog.options.read_options import ReadOptions
    from spark_streamlog.sink.batch_writer import StreamlogBatchWriter
    from spark_streamlog.sink.stream_writer import StreamlogStreamWriter
    from spark_streamlog.source.batch_reader import StreamlogBatchReader
    from spark_streamlog.source.stream_reader import StreamlogStreamReader
    from spark_streamlog.source.table_reader import MetadataTableReader


_PROVIDER: Final = "provider"
"""Present only where Spark requests the schema of a table that is to be created."""


class StreamlogDataSource(DataSource):
    """Apache Kafka's partitioned log as a Spark data source.

        spark.read.format("streamlog").option("subscribe", "events").load("/data/log")
        df.write.format("streamlog").option("topic", "events").mode("append").save("/data/log")

    Wrong options are refused at load(), before a query runs.
    """

    _was_unpickled = False
    """Spark creates a new data source to plan the write of a micro-batch, and passes an existing one to commit it.
    The work of planning must not be repeated in the commit.
    """

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_was_unpickled": True}

    @classmethod
    def name(cls) -> str:
        return "streamlog"

    def schema(self) -> StructType | str:
        if _PROVIDER in self.options:
            raise condition_error("STREAMLOG_CATALOG_TABLE")
        if asks_for_table(self.options):
            from spark_streamlog.options.table_options import parse_table_options
            from spark_streamlog.tables.table_schema import table_ddl

            return table_ddl(parse_table_options(self.options).scan.table)
        return from_arrow_schema(_arrow_schema(self._read_options(QueryKind.NOT_YET_KNOWN)))

    def reader(self, schema: StructType) -> StreamlogBatchReader | MetadataTableReader:
        if asks_for_table(self.options):
            return self._table_reader(schema)
        from spark_streamlog.source.batch_reader import batch_reader_for

        self._refuse_catalog_table()
        options = self._read_options(QueryKind.BATCH)
        _warn_of_ignored("source", options.ignored)
        _refuse_another_schema(schema, _arrow_schema(options))
        return batch_reader_for(options)

    def streamReader(self, schema: StructType) -> StreamlogStreamReader:
        if asks_for_table(self.options):
            raise condition_error("STREAMLOG_TABLE_IN_STREAM")
        from spark_streamlog.source.stream_reader import StreamlogStreamReader

        self._refuse_catalog_table()
        options = self._read_options(QueryKind.STREAM)
        _warn_of_ignored("source", options.ignored)
        given = _arrow_schema(options)
        _refuse_another_schema(schema, given)
        return StreamlogStreamReader(options, has_plain_schema=schema == from_arrow_schema(given))

    def writer(self, schema: StructType, overwrite: bool) -> StreamlogBatchWriter:
        from spark_streamlog.options.write_options import parse_write_options
        from spark_streamlog.sink.batch_writer import StreamlogBatchWriter

        options = parse_write_options(self.options, QueryKind.BATCH)
        _warn_of_ignored("sink", options.ignored)
        return StreamlogBatchWriter(options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamlogStreamWriter:
        from spark_streamlog.options.write_options import parse_write_options
        from spark_streamlog.sink.stream_writer import StreamlogStreamWriter

        # Complete mode arrives as overwrite; like the other modes it appends.
        options = parse_write_options(self.options, QueryKind.STREAM)
        if not self._was_unpickled:
            _warn_of_ignored("sink", options.ignored)
        return StreamlogStreamWriter(options, schema, is_planning=not self._was_unpickled)

    def _refuse_catalog_table(self) -> None:
        # load() calls schema() first, which refuses empty options.
        if not self.options:
            raise condition_error("STREAMLOG_CATALOG_TABLE")

    def _read_options(self, kind: QueryKind) -> ReadOptions:
        from spark_streamlog.options.read_options import parse_read_options

        return parse_read_options(self.options, kind)

    def _table_reader(self, schema: StructType) -> MetadataTableReader:
        from spark_streamlog.options.table_options import parse_table_options
        from spark_streamlog.source.table_reader import MetadataTableReader
        from spark_streamlog.tables.table_schema import table_arrow_schema, table_ddl

        options = parse_table_options(self.options)
        _warn_of_ignored("metadata table", options.ignored)
        table = options.scan.table
        _refuse_another_schema(schema, table_arrow_schema(table), shown=table_ddl(table))
        return MetadataTableReader(options)


def _warn_of_ignored(role: str, names: tuple[str, ...]) -> None:
    from spark_streamlog.options.ignored_options import warn_of_ignored

    warn_of_ignored(role, names)


def _arrow_schema(options: ReadOptions) -> Any:
    from spark_streamlog.rows.kafka_schema import arrow_schema

    return arrow_schema(include_headers=options.include_headers, formats=options.formats)


def _refuse_another_schema(asked: StructType, given: Any, *, shown: str | None = None) -> None:
    # Only a schema given by the user can differ, or that of a subject with a new version since load().
    if to_arrow_schema(asked, timezone="UTC") != given:
        shown = from_arrow_schema(given).simpleString() if shown is None else shown
        raise condition_error("STREAMLOG_FIXED_SCHEMA", asked=asked.simpleString(), given=shown)
