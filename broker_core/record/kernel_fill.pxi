# The second pass, which fills Arrow buffers of the measured sizes. Included by kernel.pyx.

cdef struct BinarySink:
    uint8_t* validity
    int32_t* offsets
    uint8_t* data
    int64_t data_size
    int64_t used

cdef struct Sink:
    int64_t* row_offsets
    int64_t* timestamps
    int32_t* timestamp_types
    uint8_t* list_validity
    int32_t* list_offsets
    BinarySink keys
    BinarySink values
    BinarySink header_keys
    BinarySink header_values
    int64_t row_count
    int64_t header_capacity
    int64_t row
    int64_t header


cdef inline int put(BinarySink* sink, int64_t row, const uint8_t* data, int64_t size) noexcept nogil:
    if size >= 0:
        if size > sink.data_size - sink.used:
            return -1
        if size > 0:
            memcpy(sink.data + sink.used, data, size)
        sink.used += size
        if sink.validity != NULL:
            sink.validity[row >> 3] |= <uint8_t>(1 << (row & 7))
    sink.offsets[row + 1] = <int32_t>sink.used
    return 0


cdef int put_headers(Sink* sink, RecordView* record, FaultFound* fault) noexcept nogil:
    cdef const uint8_t* p = record.headers
    cdef HeaderView header
    cdef int64_t number
    if record.header_count > sink.header_capacity - sink.header:
        return fail(fault, FAULT_CHANGED_BUFFER, 0, 0)
    for number in range(record.header_count):
        if read_header(&p, record.end, &header, fault) < 0:
            return -1
        if (put(&sink.header_keys, sink.header, header.key, header.key_size) < 0
                or put(&sink.header_values, sink.header, header.value, header.value_size) < 0):
            return fail(fault, FAULT_CHANGED_BUFFER, 0, 0)
        sink.header += 1
    sink.list_offsets[sink.row + 1] = <int32_t>sink.header
    if record.header_count and sink.list_validity != NULL:
        sink.list_validity[sink.row >> 3] |= <uint8_t>(1 << (sink.row & 7))
    return 0


cdef int fill_batch(
    Walk* walk, int64_t from_offset, int64_t until_offset, Sink* sink, FaultFound* fault,
) noexcept nogil:
    cdef RecordView record
    cdef int more
    cdef int32_t timestamp_type = 1 if walk.row[CELL_ATTRIBUTES] & LOG_APPEND_TIME_BIT else 0
    while sink.row < sink.row_count:
        more = next_record(walk, &record, fault)
        if more <= 0:
            return more
        if record.is_out_of_order or record.offset < from_offset:
            continue
        if record.offset >= until_offset:
            if record.is_beyond_batch:
                continue
            return 0
        if sink.row_offsets != NULL:
            sink.row_offsets[sink.row] = record.offset
        if sink.timestamps != NULL:
            if record.timestamp > TIMESTAMP_MS_LIMIT or record.timestamp < -TIMESTAMP_MS_LIMIT:
                return fail(fault, FAULT_TIMESTAMP_RANGE, record.timestamp, record.offset)
            sink.timestamps[sink.row] = record.timestamp * 1000
        if sink.timestamp_types != NULL:
            sink.timestamp_types[sink.row] = timestamp_type
        if sink.keys.offsets != NULL and put(&sink.keys, sink.row, record.key, record.key_size) < 0:
            return fail(fault, FAULT_CHANGED_BUFFER, 0, 0)
        if sink.values.offsets != NULL and put(&sink.values, sink.row, record.value, record.value_size) < 0:
            return fail(fault, FAULT_CHANGED_BUFFER, 0, 0)
        if sink.list_offsets != NULL and put_headers(sink, &record, fault) < 0:
            return -1
        sink.row += 1
    return 0


cdef int fill(
    Py_buffer* payloads, int64_t payload_count, const int64_t* table, int64_t batch_count, int64_t from_offset,
    int64_t until_offset, Sink* sink, FaultFound* fault,
) noexcept nogil:
    cdef const int64_t* row
    cdef Walk walk
    cdef int outcome
    cdef int64_t number
    for number in range(batch_count):
        if sink.row == sink.row_count:
            break
        row = table + number * TABLE_COLUMNS
        fault.row = number
        outcome = start_walk(row, payloads, payload_count, &walk, fault)
        if outcome == 0:
            outcome = fill_batch(&walk, from_offset, until_offset, sink, fault)
        if outcome < 0:
            return -1
    if sink.row != sink.row_count:
        fault.row = -1
        return fail(fault, FAULT_CHANGED_BUFFER, 0, 0)
    return 0


cdef int hold_binary(HeldBuffers held, BinarySink* sink, validity, offsets, data, int64_t rows) except -1:
    sink.validity = NULL
    sink.offsets = NULL
    sink.data = NULL
    sink.data_size = sink.used = 0
    if offsets is None:
        return 0
    sink.validity = held.hold_output(validity, (rows + 7) // 8)
    if sink.validity != NULL:
        memset(sink.validity, 0, (rows + 7) // 8)
    sink.offsets = <int32_t*>held.hold_output(offsets, 4 * (rows + 1))
    sink.offsets[0] = 0
    cdef Py_buffer* view = held.hold(data, True)
    sink.data = <uint8_t*>view.buf
    sink.data_size = view.len
    return 0


def fill_records(payloads, table, int64_t from_offset, int64_t until_offset, int64_t row_count, outputs):
    """See Kernel.fill_records."""
    cdef HeldBuffers held = hold_payloads(payloads, 17)
    cdef int64_t payload_count = held.count
    cdef Py_buffer* rows = held.hold(table, False)
    cdef Sink sink
    cdef FaultFound fault
    cdef int outcome
    cdef int64_t batch_count = rows.len // (TABLE_COLUMNS * sizeof(int64_t))
    sink.row = sink.header = 0
    sink.row_count = row_count
    sink.row_offsets = <int64_t*>held.hold_output(outputs.offsets, 8 * row_count)
    sink.timestamps = <int64_t*>held.hold_output(outputs.timestamps, 8 * row_count)
    sink.timestamp_types = <int32_t*>held.hold_output(outputs.timestamp_types, 4 * row_count)
    hold_binary(held, &sink.keys, outputs.key_validity, outputs.key_offsets, outputs.key_data, row_count)
    hold_binary(held, &sink.values, outputs.value_validity, outputs.value_offsets, outputs.value_data, row_count)
    sink.list_validity = held.hold_output(outputs.list_validity, (row_count + 7) // 8)
    sink.list_offsets = <int32_t*>held.hold_output(outputs.list_offsets, 4 * (row_count + 1))
    sink.header_capacity = 0
    if sink.list_offsets != NULL:
        sink.list_offsets[0] = 0
        sink.header_capacity = memoryview(outputs.header_key_offsets).nbytes // 4 - 1
        if sink.list_validity != NULL:
            memset(sink.list_validity, 0, (row_count + 7) // 8)
    hold_binary(
        held, &sink.header_keys, None, outputs.header_key_offsets, outputs.header_key_data, sink.header_capacity,
    )
    hold_binary(
        held, &sink.header_values, outputs.header_value_validity, outputs.header_value_offsets,
        outputs.header_value_data, sink.header_capacity,
    )
    with nogil:
        outcome = fill(
            held.views, payload_count, <const int64_t*>rows.buf, batch_count, from_offset, until_offset, &sink, &fault,
        )
    if outcome < 0:
        raise_fault(&fault)
