"""`format("streamlog")`: wiring only."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from spark_streamlog.batch_reader import StreamlogBatchReader
from spark_streamlog.batch_writer import StreamlogBatchWriter
from spark_streamlog.errors import condition_error
from spark_streamlog.read_options import QueryKind, parse_read_options
from spark_streamlog.rows.kafka_schema import arrow_schema, schema_ddl
from spark_streamlog.stream_reader import StreamlogStreamReader
from spark_streamlog.stream_writer import StreamlogStreamWriter
from spark_streamlog.write_options import parse_write_options


class StreamlogDataSource(DataSource):
    """Apache Kafka's partitioned log as a Spark data source.

        spark.read.format("streamlog").option("subscribe", "events").load("/data/log")
        df.write.format("streamlog").option("topic", "events").mode("append").save("/data/log")

    Wrong options are refused at load(), before a query runs.
    """

    @classmethod
    def name(cls) -> str:
        return "streamlog"

    def schema(self) -> str:
        options = parse_read_options(self.options, QueryKind.NOT_YET_KNOWN)
        return schema_ddl(include_headers=options.include_headers)

    def reader(self, schema: StructType) -> StreamlogBatchReader:
        options = parse_read_options(self.options, QueryKind.BATCH)
        _refuse_another_schema(schema, include_headers=options.include_headers)
        return StreamlogBatchReader(options)

    def streamReader(self, schema: StructType) -> StreamlogStreamReader:
        options = parse_read_options(self.options, QueryKind.STREAM)
        _refuse_another_schema(schema, include_headers=options.include_headers)
        return StreamlogStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> StreamlogBatchWriter:
        return StreamlogBatchWriter(parse_write_options(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamlogStreamWriter:
        # Complete mode arrives as overwrite; like the other modes it appends.
        return StreamlogStreamWriter(parse_write_options(self.options), schema)


def _refuse_another_schema(asked: StructType, *, include_headers: bool) -> None:
    # Only a schema given by the user can differ: Spark hands the source's own back unchanged.
    if to_arrow_schema(asked, timezone="UTC") != arrow_schema(include_headers=include_headers):
        raise condition_error(
            "STREAMLOG_FIXED_SCHEMA", asked=asked.simpleString(), given=schema_ddl(include_headers=include_headers)
        )
