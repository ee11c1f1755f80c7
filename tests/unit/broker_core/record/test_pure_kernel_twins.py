"""The native kernel and its slow twin give the same bytes, the same tables and the same faults."""

import random
import re
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders.builders import SOME_TIME_MS, a_batch, a_batch_of_content, a_commit_marker, some_records
from support.runs.examples import examples

import broker_core.record
from broker_core.model.identifiers import CompressionType
from broker_core.record import active_kernel, columns, pure_kernel
from broker_core.record.batch_header import TRANSACTIONAL_BIT, compute_crc, read_header
from broker_core.record.batch_reader import Record, batch_payload, inspect_records, scan_batches
from broker_core.record.column_buffers import ALL_COLUMNS, ColumnBuffers
from broker_core.record.column_input import key_or_value_column
from broker_core.record.faults import Fault, KernelFault
from broker_core.record.kernel_protocol import MAX_INT64, BinaryColumn, Cell, Measured, Outputs
from broker_core.record.key_places import BLOCK_BYTES

NATIVE, PURE = active_kernel.NATIVE_KERNEL, active_kernel.PURE_KERNEL
pytestmark = pytest.mark.skipif(NATIVE is None, reason="the native kernel was not built")

maybe_bytes = st.none() | st.binary(max_size=20) | st.just(b"x" * 200)
int64 = st.integers(-(2**63), 2**63 - 1)


def outcome(call, *arguments):
    try:
        return call(*arguments)
    except KernelFault as fault:
        return fault.fault, fault.row, fault.found, fault.bound


def filled(kernel, payloads, table, from_offset, until_offset, measured):
    target = ColumnBuffers(Measured(*measured), ALL_COLUMNS)
    result = outcome(
        kernel.fill_records, payloads, table, from_offset, until_offset, Measured(*measured).row_count, target.outputs
    )
    return result, [None if buffer is None else bytes(memoryview(buffer)) for buffer in target.outputs]


def assert_alike(data, from_offset=0, until_offset=MAX_INT64, max_rows=MAX_INT64, max_bytes=MAX_INT64, check_crc=True):
    scans = [k.scan_batches(data, 0, from_offset, until_offset, max_bytes, check_crc) for k in (NATIVE, PURE)]
    assert scans[0] == scans[1]
    table = scans[0][0]
    measures = [outcome(k.measure_records, [data], table, from_offset, until_offset, max_rows) for k in (NATIVE, PURE)]
    assert measures[0] == measures[1]
    if isinstance(measures[0][0], Fault):
        return
    first = filled(NATIVE, [data], table, from_offset, until_offset, measures[0])
    second = filled(PURE, [data], table, from_offset, until_offset, measures[0])
    assert first[0] == second[0]
    if first[0] is None:
        assert first[1] == second[1]


record = st.builds(
    Record,
    key=maybe_bytes,
    value=maybe_bytes,
    timestamp_ms=st.integers(-(2**62), 2**62) | st.integers(0, 2**41),
    headers=st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=3).map(tuple),
)
bounds = st.integers(0, 30)


@examples(200)
@given(st.lists(st.lists(record, max_size=6), max_size=5), bounds, bounds, st.integers(0, 12), st.integers(1, 600))
def test_decoding_gives_the_same_bytes(batches, from_offset, until_offset, max_rows, max_bytes):
    log, offset = b"", 0
    for number, records in enumerate(batches):
        log += a_batch(records, base_offset=offset, is_control=number == 3)
        offset += max(1, len(records))
    assert_alike(log, from_offset, until_offset, max_rows, max_bytes)
    assert_alike(log)


@examples(200)
@given(
    st.lists(record, min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 255)), min_size=1, max_size=3),
    st.integers(0, 6),
)
def test_damaged_batches_give_the_same_tables_and_faults(records, flips, max_rows):
    batch = a_batch(records) + a_commit_marker(base_offset=len(records))
    for place, flip in flips:
        batch[place % len(batch)] ^= flip
    assert_alike(bytes(batch), max_rows=max_rows, check_crc=False)


@examples(200)
@given(st.binary(max_size=80), st.integers(0, 9), st.integers(0, 12), int64, st.integers(0, 0xFF))
def test_any_content_gives_the_same_faults(content, count, last_delta, base_timestamp, attributes):
    batch = a_batch_of_content(
        content, record_count=count, last_offset_delta=last_delta, base_timestamp=base_timestamp, attributes=attributes
    )
    assert_alike(bytes(batch))
    found = [kernel.inspect_plain(batch) for kernel in (NATIVE, PURE)]
    assert found[0] == found[1]


@examples(200)
@given(st.lists(record, min_size=1, max_size=6), st.booleans())
def test_both_kernels_find_the_max_timestamp_and_null_keys_of_an_uncompressed_batch(records, is_transactional):
    batch = a_batch(records, base_offset=1_000, producer=(7, 0, 0), is_transactional=is_transactional)
    expected = max(one.timestamp_ms for one in records), sum(one.key is None for one in records)
    assert NATIVE.inspect_plain(batch) == PURE.inspect_plain(batch) == expected


def refused(kernel, batch, *limits):
    header = read_header(batch)
    payload = bytes(batch_payload(batch, 0, header))
    row = bytearray(kernel.scan_batches(batch, 0, 0, MAX_INT64, MAX_INT64, False)[0])
    cells = memoryview(row).cast("q")
    cells[Cell.PAYLOAD_START], cells[Cell.PAYLOAD_END] = 0, len(payload)
    return outcome(kernel.find_refused, payload, row, *limits)


times = st.sampled_from([-1, 0, 5, 2**61, -(2**61)]) | st.integers(-(2**61), 2**61)


@examples(200)
@given(
    st.lists(st.builds(Record, key=maybe_bytes, value=maybe_bytes, timestamp_ms=times), min_size=1, max_size=8),
    st.sampled_from(CompressionType),
    st.booleans(),
    times,
    times,
    st.integers(0, 5),
)
def test_both_kernels_find_the_same_refused_records(records, codec, needs_key, earliest, latest, max_count):
    batch = a_batch(records, compression=codec)
    expected = [
        (index, needs_key and one.key is None, one.timestamp_ms)
        for index, one in enumerate(records)
        if (needs_key and one.key is None)
        or (one.timestamp_ms != -1 and (one.timestamp_ms < earliest or one.timestamp_ms > latest))
    ]
    for kernel in (NATIVE, PURE):
        assert refused(kernel, batch, needs_key, earliest, latest, max_count) == expected[:max_count]


@examples(200)
@given(st.binary(max_size=60), st.integers(0, 5), int64)
def test_both_kernels_find_the_same_refused_records_or_fault_in_any_content(content, count, base_timestamp):
    batch = bytes(a_batch_of_content(content, record_count=count, last_offset_delta=9, base_timestamp=base_timestamp))
    assert refused(NATIVE, batch, True, 0, 10, 99) == refused(PURE, batch, True, 0, 10, 99)


@examples(200)
@given(
    st.lists(record, min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 255)), min_size=1, max_size=3),
)
def test_a_damaged_batch_passes_the_fast_check_only_if_the_full_check_passes(records, flips):
    batch = a_batch(records)
    for place, flip in flips:
        batch[place % len(batch)] ^= flip
    # Only the sender knows the CRC of what he sends: what is wrong inside must be seen as well.
    batch[17:21] = compute_crc(batch, 0, len(batch)).to_bytes(4, "big")
    found = NATIVE.inspect_plain(batch)
    assert found == PURE.inspect_plain(batch)
    if found is None:
        return
    header = read_header(batch)
    assert header.size_bytes == len(batch) and not header.attributes & ~TRANSACTIONAL_BIT
    summary = inspect_records(batch)
    assert summary.is_contiguous and summary.record_count == header.record_count == header.last_offset_delta + 1
    assert found == (summary.max_timestamp_ms, summary.null_key_count)


@pytest.mark.parametrize("kernel", [NATIVE, PURE], ids=["native", "pure"])
@pytest.mark.parametrize(
    "batch",
    [
        a_batch(some_records(3), compression=CompressionType.GZIP),
        a_commit_marker(),
        a_batch(some_records(3)) + a_batch(some_records(3)),
        a_batch(some_records(3))[:-1],
        a_batch(some_records(3)) + b"\0",
        a_batch(some_records(3))[:60],
        a_batch([]),
        b"",
    ],
    ids=["compressed", "control", "two", "cut", "more", "short", "empty", "nothing"],
)
def test_only_a_single_uncompressed_batch_passes_the_fast_check(kernel, batch):
    assert kernel.inspect_plain(batch) is None


@pytest.mark.parametrize("kernel", [NATIVE, PURE], ids=["native", "pure"])
def test_a_flipped_bit_after_the_crc_is_detected(kernel):
    batch = a_batch(some_records(2))
    assert kernel.inspect_plain(batch) is not None
    for place in range(17, len(batch)):
        batch[place] ^= 1
        assert kernel.inspect_plain(batch) is None
        batch[place] ^= 1


@given(st.binary(max_size=200), st.booleans())
def test_both_kernels_scan_any_bytes_the_same(data, check_crc):
    assert_alike(data, check_crc=check_crc)


header = st.fixed_dictionaries({"key": st.text(max_size=6), "value": maybe_bytes})
arrow_rows = st.lists(
    st.fixed_dictionaries(
        {
            "key": maybe_bytes,
            "value": maybe_bytes,
            "timestamp": st.none() | int64 | st.integers(SOME_TIME_MS, SOME_TIME_MS + 10**6),
            "headers": st.none() | st.lists(header, max_size=3),
        }
    ),
    max_size=20,
)
HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


@examples(200)
@given(arrow_rows, st.data())
def test_encoding_gives_the_same_bytes(rows, data):
    wide = data.draw(st.booleans())
    binary = pa.large_binary() if wide else pa.binary()
    batch = pa.record_batch(
        {
            "key": pa.array([r["key"] for r in rows], binary),
            "value": pa.array([r["value"] for r in rows], binary),
            "timestamp": pa.array([r["timestamp"] for r in rows], pa.int64()),
            "headers": pa.array([r["headers"] for r in rows], HEADERS),
        }
    )
    start = data.draw(st.integers(0, len(rows)))
    batch = batch.slice(start)
    picks = data.draw(st.none() | st.lists(st.integers(0, max(0, batch.num_rows - 1)), max_size=batch.num_rows and 30))
    arguments = {
        "rows": None if picks is None else pa.array(picks, pa.int32()),
        "default_timestamp_ms": data.draw(st.integers(0, 2**41)),
        "max_batch_bytes": data.draw(st.sampled_from([1, 100, 300, 1_000_000])),
        "compression": data.draw(st.sampled_from([CompressionType.NONE, CompressionType.LZ4])),
        "producer": data.draw(st.none() | st.just((9, 3, 2**31 - 3))),
    }
    results = []
    for kernel in (NATIVE, PURE):
        try:
            results.append(columns.encode(batch, kernel=kernel, **arguments))
        except Exception as error:
            results.append((type(error), str(error)))
    assert results[0] == results[1]


@given(st.lists(maybe_bytes, max_size=50), st.data())
def test_both_kernels_assign_the_same_partitions_and_groups(keys, data):
    count = data.draw(st.integers(1, 7))
    explicit = data.draw(st.none() | st.just([data.draw(st.none() | st.integers(-1, 7)) for _ in keys]))
    results = []
    for kernel in (NATIVE, PURE):
        try:
            partitions = columns.partition_rows(
                len(keys),
                partition_count=count,
                sticky=count - 1,
                key=pa.array(keys, pa.binary()),
                explicit=None if explicit is None else pa.array(explicit, pa.int32()),
                kernel=kernel,
            )
            results.append((partitions, columns.group_rows(partitions, count, kernel=kernel)))
        except Exception as error:
            results.append((type(error), str(error)))
    assert results[0] == results[1]


@given(st.lists(maybe_bytes, max_size=40), st.integers(0, 3), st.data())
def test_both_kernels_set_the_same_filter_bits(keys, power, data):
    kind = data.draw(st.sampled_from([pa.binary(), pa.large_binary()]))
    column = pa.array(keys, kind)[data.draw(st.integers(0, len(keys))) :]
    found = []
    for kernel in (NATIVE, PURE):
        blocks = bytearray(BLOCK_BYTES << power)
        kernel.mark_keys(len(column), key_or_value_column("key", column), blocks)
        found.append(blocks)
    assert found[0] == found[1]
    assert any(found[0]) == any(key is not None for key in column.to_pylist())


def test_a_key_column_that_points_outside_its_data_is_the_same_fault():
    bad = BinaryColumn(None, b"\0\0\0\0\x09\0\0\0", b"abc", 0, 4)
    first, second = (outcome(kernel.mark_keys, 1, bad, bytearray(BLOCK_BYTES)) for kernel in (NATIVE, PURE))
    assert first[0] == second[0] == Fault.ARROW_OFFSETS


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 63, 64, 1000, 100_001])
def test_all_three_checksum_implementations_agree(size):
    from broker_core.record import kernel

    data = bytes(49) + random.Random(size).randbytes(size)
    batch = a_batch_of_content(data[49:])
    assert scan_batches(batch).fault is None
    assert kernel.crc32c_soft(batch[21:]) == compute_crc(batch, 0, len(batch))


@pytest.mark.parametrize("kernel", [NATIVE, PURE], ids=["native", "pure"])
def test_a_buffer_that_changes_between_the_passes_is_a_fault_not_an_overrun(kernel):
    small, large = a_batch([Record(value=b"x" * 5)]), a_batch([Record(value=b"x" * 50)])
    table = scan_batches(small).table._cells
    measured = Measured(*kernel.measure_records([small], table, 0, MAX_INT64, MAX_INT64))
    table[Cell.PAYLOAD_END] = len(large)
    target = ColumnBuffers(measured, ALL_COLUMNS)
    with pytest.raises(KernelFault) as caught:
        kernel.fill_records([large], table, 0, MAX_INT64, 1, target.outputs)
    assert caught.value.fault is Fault.CHANGED_BUFFER
    with pytest.raises(KernelFault):
        kernel.fill_records([small], scan_batches(small).table._cells, 0, MAX_INT64, 2, Outputs())


def test_a_table_row_that_points_outside_its_payload_is_refused_natively():
    batch = a_batch(2)
    for cell, value in ((Cell.PAYLOAD_BUFFER, 1), (Cell.PAYLOAD_END, 10**9), (Cell.PAYLOAD_START, -5)):
        table = scan_batches(batch).table._cells
        table[cell] = value
        with pytest.raises(KernelFault):
            NATIVE.measure_records([batch], table, 0, MAX_INT64, MAX_INT64)


def test_too_small_outputs_are_refused_before_any_write():
    batch = a_batch(some_records(10))
    table = scan_batches(batch).table._cells
    with pytest.raises(AssertionError, match="80 are needed"):
        NATIVE.fill_records([batch], table, 0, MAX_INT64, 10, Outputs(offsets=bytearray(8)))


def test_both_kernels_offer_the_same_functions():
    for name in pure_kernel.__all__:
        assert hasattr(NATIVE, name), name


def test_both_kernels_use_the_same_fault_codes_and_table_cells():
    folder = Path(broker_core.record.__file__).parent
    source = "".join(path.read_text() for path in sorted(folder.glob("*.pxi")))
    faults = {name: int(number) for name, number in re.findall(r"^    FAULT_(\w+) = (\d+)$", source, re.M)}
    cells = {name: int(number) for name, number in re.findall(r"^    CELL_(\w+) = (\d+)$", source, re.M)}
    assert faults == {fault.name: fault.value for fault in Fault}
    assert cells == {cell.name: cell.value for cell in Cell}
