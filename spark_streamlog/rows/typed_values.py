"""Decodes the keys and values of one partition by their formats, and handles corrupt ones by the mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from broker_core.model.identifiers import TopicPartition
from spark_streamlog.errors import condition_error
from spark_streamlog.rows.kafka_schema import CORRUPT_COLUMN
from spark_streamlog.serde.format_settings import CorruptMode, FormatSettings, RecordFormats
from spark_streamlog.serde.value_formats import decoder_for


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedColumns:
    """`columns` by name: the sides with a format, and perhaps _corrupt. `kept`: a mask, or None for all rows."""

    columns: Mapping[str, Any]
    kept: Any


class TypedValues:
    def __init__(self, topic_partition: TopicPartition, formats: RecordFormats) -> None:
        self._topic_partition = topic_partition
        self._formats = formats
        self._sides = [(side, settings, decoder_for(settings)) for side, settings in formats.items()]

    def read(self, decoded: pa.RecordBatch) -> TypedColumns:
        """Raises STREAMLOG_CORRUPT_VALUE in the mode failfast."""
        columns: dict[str, Any] = {}
        reasons: dict[int, str] = {}
        dropped: set[int] = set()
        for side, settings, decoder in self._sides:
            found = decoder.decode(decoded.column(side))
            columns[side] = found.column
            if settings.mode is CorruptMode.DROP_MALFORMED:
                dropped.update(found.faults)
            for row, reason in found.faults.items() if settings.mode is not CorruptMode.DROP_MALFORMED else ():
                offset = decoded.column("offset")[row].as_py()
                if settings.mode is CorruptMode.FAIL_FAST:
                    raise self._failure(side, settings, offset, reason)
                said = f"{side} of {self._topic_partition} at offset {offset}: {reason}"
                reasons[row] = f"{reasons[row]}; {said}" if row in reasons else said
        if self._formats.has_corrupt_column:
            columns[CORRUPT_COLUMN] = _sparse_texts(reasons, decoded.num_rows)
        return TypedColumns(columns=columns, kept=_all_but(dropped, decoded.num_rows))

    def _failure(self, side: str, settings: FormatSettings, offset: int, reason: str) -> Exception:
        return condition_error(
            "STREAMLOG_CORRUPT_VALUE",
            side=side,
            topic=self._topic_partition.topic,
            partition=self._topic_partition.partition,
            offset=offset,
            format=settings.kind.value,
            reason=reason,
        )


def _sparse_texts(texts: Mapping[int, str], count: int) -> Any:
    if not texts:
        return pa.nulls(count, pa.string())
    return pa.array([texts.get(row) for row in range(count)], pa.string())


def _all_but(dropped: set[int], count: int) -> Any:
    if not dropped:
        return None
    import pyarrow.compute as pc

    return pc.invert(pc.is_in(pa.array(range(count), pa.int64()), value_set=pa.array(sorted(dropped), pa.int64())))
