"""What Spark is told of a table's columns is what its Arrow batches have."""

import pytest

from spark_streamlog.tables.table_schema import MetadataTable, table_arrow_schema, table_ddl

pyspark = pytest.importorskip("pyspark")


@pytest.mark.parametrize("table", MetadataTable)
def test_the_ddl_and_the_arrow_schema_name_the_same_columns_in_the_same_order(table):
    names = [column.split("`")[1] for column in table_ddl(table).split(", `")[0:1]] + [
        column.split("`")[0] for column in table_ddl(table).split(", `")[1:]
    ]
    assert names == table_arrow_schema(table).names


def test_the_option_table_has_six_values():
    assert [table.value for table in MetadataTable] == [
        "topics",
        "segments",
        "batches",
        "groups",
        "transactions",
        "lag",
    ]
