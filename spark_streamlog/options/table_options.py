"""The options of the metadata tables: `option("table", "segments")`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spark_streamlog.options.ignored_options import ignored_options
from spark_streamlog.options.option_reader import TABLE_OPTION, LogTarget, OptionReader
from spark_streamlog.tables.table_rows import TableScan
from spark_streamlog.tables.table_schema import MetadataTable


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    target: LogTarget
    scan: TableScan
    ignored: tuple[str, ...]
    """Options of the user that are ignored."""


def parse_table_options(given: Mapping[str, str]) -> TableOptions:
    """Raises STREAMLOG_INVALID_OPTIONS with all complaints."""
    options = OptionReader(given, role="metadata table")
    names = [table.value for table in MetadataTable]
    table = MetadataTable(options.choice(TABLE_OPTION, names, default=MetadataTable.TOPICS.value))
    scan = TableScan(table=table, topics=_names(options, "subscribe"), groups=_names(options, "groupId", is_list=False))
    if scan.topics and table is MetadataTable.TRANSACTIONS:
        options.complain("subscribe is not supported for the table transactions: filter by its column partitions")
    if scan.groups and table not in (MetadataTable.GROUPS, MetadataTable.LAG):
        options.complain(f"groupId is not supported for the table {table.value}: use it with groups and lag")
    options.refuse("topic", "is for writing: set subscribe to the topics to show")
    parsed = TableOptions(target=options.log_target(), scan=scan, ignored=ignored_options(options))
    options.finish()
    return parsed


def _names(options: OptionReader, option: str, *, is_list: bool = True) -> frozenset[str]:
    given = options.text(option)
    if given is None:
        return frozenset()
    names = frozenset(name.strip() for name in given.split(",")) - {""} if is_list else frozenset([given])
    if not names:
        options.complain(f"{option} names nothing: {given!r}")
    return names
