"""Arrow buffers of the measured sizes, and the record batch over them."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from broker_core.record.kernel_protocol import Measured, Outputs

_HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

DECODED_SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("timestampType", pa.int32()),
        pa.field("headers", pa.list_(pa.field("element", _HEADER_TYPE))),
    ]
)
ALL_COLUMNS: Final = frozenset(DECODED_SCHEMA.names)


class ColumnBuffers:
    """Buffers for the wanted columns. A kernel fills `outputs`; then `record_batch` uses them without a copy."""

    def __init__(self, measured: Measured, wanted: frozenset[str]) -> None:
        self._measured = measured
        self._wanted = [name for name in DECODED_SCHEMA.names if name in wanted]
        rows = measured.row_count
        headers = measured.header_count
        buffers: dict[str, pa.Buffer | None] = {}
        if "offset" in wanted:
            buffers["offsets"] = pa.allocate_buffer(8 * rows)
        if "timestamp" in wanted:
            buffers["timestamps"] = pa.allocate_buffer(8 * rows)
        if "timestampType" in wanted:
            buffers["timestamp_types"] = pa.allocate_buffer(4 * rows)
        if "key" in wanted:
            buffers["key_validity"] = _bitmap(rows, measured.key_nulls)
            buffers["key_offsets"] = pa.allocate_buffer(4 * (rows + 1))
            buffers["key_data"] = pa.allocate_buffer(measured.key_bytes)
        if "value" in wanted:
            buffers["value_validity"] = _bitmap(rows, measured.value_nulls)
            buffers["value_offsets"] = pa.allocate_buffer(4 * (rows + 1))
            buffers["value_data"] = pa.allocate_buffer(measured.value_bytes)
        if "headers" in wanted:
            buffers["list_validity"] = _bitmap(rows, rows - measured.header_lists)
            buffers["list_offsets"] = pa.allocate_buffer(4 * (rows + 1))
            buffers["header_key_offsets"] = pa.allocate_buffer(4 * (headers + 1))
            buffers["header_key_data"] = pa.allocate_buffer(measured.header_key_bytes)
            buffers["header_value_validity"] = _bitmap(headers, measured.header_value_nulls)
            buffers["header_value_offsets"] = pa.allocate_buffer(4 * (headers + 1))
            buffers["header_value_data"] = pa.allocate_buffer(measured.header_value_bytes)
        self.outputs = Outputs(**buffers)

    def record_batch(self) -> pa.RecordBatch:
        schema = pa.schema([DECODED_SCHEMA.field(name) for name in self._wanted])
        arrays = [self._array(name) for name in self._wanted]
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * self._measured.row_count, pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _array(self, name: str) -> Any:
        out, measured, rows = self.outputs, self._measured, self._measured.row_count
        kind = DECODED_SCHEMA.field(name).type
        if name == "key":
            return _binary(kind, rows, out.key_validity, out.key_offsets, out.key_data, measured.key_nulls)
        if name == "value":
            return _binary(kind, rows, out.value_validity, out.value_offsets, out.value_data, measured.value_nulls)
        if name == "headers":
            return self._headers()
        numbers = {"offset": out.offsets, "timestamp": out.timestamps, "timestampType": out.timestamp_types}
        return pa.Array.from_buffers(kind, rows, [None, numbers[name]], 0)

    def _headers(self) -> Any:
        out, measured = self.outputs, self._measured
        count = measured.header_count
        keys = self._header_keys(count)
        values = _binary(
            pa.binary(), count, out.header_value_validity, out.header_value_offsets, out.header_value_data,
            measured.header_value_nulls,
        )  # fmt: skip
        pairs = pa.Array.from_buffers(_HEADER_TYPE, count, [None], 0, children=[keys, values])
        kind = DECODED_SCHEMA.field("headers").type
        rows = measured.row_count
        nulls = rows - measured.header_lists
        return pa.Array.from_buffers(kind, rows, [out.list_validity, out.list_offsets], nulls, children=[pairs])

    def _header_keys(self, count: int) -> Any:
        out = self.outputs
        keys = _binary(pa.string(), count, None, out.header_key_offsets, out.header_key_data, 0)
        if not self._measured.has_wide_header_keys:
            return keys
        try:
            keys.validate(full=True)
        except pa.ArrowInvalid:
            # Invalid UTF-8 becomes U+FFFD, as in Java's String, which Kafka's own consumer shows.
            raw = _binary(pa.binary(), count, None, out.header_key_offsets, out.header_key_data, 0)
            return pa.array([key.decode("utf-8", "replace") for key in raw.to_pylist()], pa.string())
        return keys


def _bitmap(rows: int, nulls: int) -> pa.Buffer | None:
    return pa.allocate_buffer((rows + 7) // 8) if nulls else None


def _binary(kind: Any, rows: int, validity: Any, offsets: Any, data: Any, nulls: int) -> Any:
    return pa.Array.from_buffers(kind, rows, [validity, offsets, data], nulls)
