# Arrow rows to record batches: plan, then write. Included by kernel.pyx.

cdef struct BinaryInput:
    const uint8_t* validity
    const int32_t* narrow
    const int64_t* wide
    const uint8_t* data
    int64_t data_size
    int64_t start
    bint is_there

cdef struct NumberInput:
    const uint8_t* validity
    const uint8_t* data
    int64_t start

cdef struct RowsInput:
    int64_t row_count
    BinaryInput key
    BinaryInput value
    NumberInput timestamp
    const uint8_t* list_validity
    const int32_t* list_offsets
    int64_t list_start
    BinaryInput header_key
    BinaryInput header_value
    const int32_t* picked
    int64_t picked_count
    int64_t default_timestamp

cdef struct Slice:
    const uint8_t* data
    int64_t size

cdef struct RowView:
    int64_t number
    int64_t timestamp
    Slice key
    Slice value
    int64_t first_header
    int64_t header_count
    int64_t header_bytes

cdef struct PlanRow:
    int64_t record_count
    int64_t size
    int64_t base_timestamp
    int64_t max_timestamp

cdef struct Stamp:
    int64_t attributes
    int64_t producer_id
    int64_t producer_epoch
    int64_t base_sequence


cdef int hold_binary_input(HeldBuffers held, column, BinaryInput* target) except -1:
    memset(target, 0, sizeof(BinaryInput))
    if column is None:
        return 0
    cdef Py_buffer* view
    target.is_there = True
    target.start = column.start
    if column.validity is not None:
        target.validity = <const uint8_t*>held.hold(column.validity, False).buf
    if column.offset_width == 4:
        target.narrow = <const int32_t*>held.hold(column.offsets, False).buf
    else:
        target.wide = <const int64_t*>held.hold(column.offsets, False).buf
    if column.data is not None:
        view = held.hold(column.data, False)
        target.data = <const uint8_t*>view.buf
        target.data_size = view.len
    return 0

cdef int hold_number_input(HeldBuffers held, column, NumberInput* target) except -1:
    memset(target, 0, sizeof(NumberInput))
    if column is None:
        return 0
    target.start = column.start
    if column.validity is not None:
        target.validity = <const uint8_t*>held.hold(column.validity, False).buf
    target.data = <const uint8_t*>held.hold(column.data, False).buf
    return 0

cdef int hold_rows(HeldBuffers held, columns, RowsInput* rows) except -1:
    cdef Py_buffer* view
    memset(rows, 0, sizeof(RowsInput))
    rows.row_count = columns.row_count
    rows.default_timestamp = columns.default_timestamp_ms
    hold_binary_input(held, columns.key, &rows.key)
    hold_binary_input(held, columns.value, &rows.value)
    hold_number_input(held, columns.timestamp, &rows.timestamp)
    if columns.headers is not None:
        headers = columns.headers
        rows.list_start = headers.start
        if headers.validity is not None:
            rows.list_validity = <const uint8_t*>held.hold(headers.validity, False).buf
        rows.list_offsets = <const int32_t*>held.hold(headers.offsets, False).buf
        hold_binary_input(held, headers.keys, &rows.header_key)
        hold_binary_input(held, headers.values, &rows.header_value)
    rows.picked_count = rows.row_count
    if columns.rows is not None:
        view = held.hold(columns.rows, False)
        rows.picked = <const int32_t*>view.buf
        rows.picked_count = view.len // 4
        if rows.picked == NULL:
            rows.picked_count = 0
    return 0


cdef inline bint is_valid(const uint8_t* validity, int64_t index) noexcept nogil:
    return validity == NULL or (validity[index >> 3] >> (index & 7)) & 1

cdef inline int read_slice(
    const BinaryInput* column, int64_t row, int64_t reported, Slice* found, FaultFound* fault,
) noexcept nogil:
    """The row's bytes; size -1 is null."""
    cdef int64_t index = column.start + row
    cdef int64_t begin, end
    found.size = -1
    if not column.is_there or not is_valid(column.validity, index):
        return 0
    if column.narrow != NULL:
        begin = column.narrow[index]
        end = column.narrow[index + 1]
    else:
        begin = column.wide[index]
        end = column.wide[index + 1]
    if begin < 0 or end < begin or end > column.data_size:
        return fail(fault, FAULT_ARROW_OFFSETS, reported, 0)
    found.data = column.data + begin
    found.size = end - begin
    return 0

cdef inline int64_t field_bytes(int64_t size) noexcept nogil:
    return 1 if size < 0 else varint_bytes(size) + size


cdef int read_row_headers(const RowsInput* rows, RowView* row, FaultFound* fault) noexcept nogil:
    cdef int64_t index = rows.list_start + row.number
    cdef int64_t child
    cdef Slice key, value
    row.header_count = row.header_bytes = 0
    if not is_valid(rows.list_validity, index):
        return 0
    row.first_header = rows.list_offsets[index]
    row.header_count = rows.list_offsets[index + 1] - rows.list_offsets[index]
    if row.header_count > MAX_HEADERS:
        return fail(fault, FAULT_TOO_MANY_HEADERS, row.number, row.header_count)
    if row.header_count < 0:
        row.header_count = 0
    for child in range(row.first_header, row.first_header + row.header_count):
        if read_slice(&rows.header_key, child, child, &key, fault) < 0:
            return -1
        if key.size < 0:
            return fail(fault, FAULT_NULL_HEADER_KEY, row.number, 0)
        if read_slice(&rows.header_value, child, child, &value, fault) < 0:
            return -1
        row.header_bytes += field_bytes(key.size) + field_bytes(value.size)
    return 0

cdef inline int read_row_view(const RowsInput* rows, int64_t place, RowView* row, FaultFound* fault) noexcept nogil:
    """The row at `place` of the selected rows."""
    cdef int64_t number = place if rows.picked == NULL else rows.picked[place]
    cdef int64_t index
    if number < 0 or number >= rows.row_count:
        return fail(fault, FAULT_ROW_INDEX, number, rows.row_count)
    row.number = number
    row.timestamp = rows.default_timestamp
    if rows.timestamp.data != NULL:
        index = rows.timestamp.start + number
        if is_valid(rows.timestamp.validity, index):
            row.timestamp = (<const int64_t*>rows.timestamp.data)[index]
    if read_slice(&rows.key, number, number, &row.key, fault) < 0:
        return -1
    if read_slice(&rows.value, number, number, &row.value, fault) < 0:
        return -1
    if rows.list_offsets != NULL:
        return read_row_headers(rows, row, fault)
    row.header_count = row.header_bytes = 0
    return 0


cdef inline int64_t body_bytes(
    const RowView* row, int64_t base_timestamp, int64_t offset_delta, FaultFound* fault,
) noexcept nogil:
    """Bytes of the record after its length; -1 for a fault."""
    cdef int64_t delta = <int64_t>(<uint64_t>row.timestamp - <uint64_t>base_timestamp)
    cdef int64_t size
    if (row.timestamp < base_timestamp) != (delta < 0):
        return fail(fault, FAULT_TIMESTAMP_SPAN, row.timestamp, base_timestamp)
    size = 1 + varint_bytes(delta) + varint_bytes(offset_delta) + varint_bytes(row.header_count)
    size += field_bytes(row.key.size) + field_bytes(row.value.size) + row.header_bytes
    if size + varint_bytes(size) + HEADER_BYTES > MAX_BATCH_BYTES:
        return fail(fault, FAULT_RECORD_TOO_LARGE, row.number, size)
    return size


cdef struct Plan:
    PlanRow* batches
    int64_t count
    int64_t capacity

cdef int close_batch(Plan* plan, const PlanRow* batch) noexcept nogil:
    cdef void* larger
    if plan.count == plan.capacity:
        plan.capacity = 2 * plan.capacity if plan.capacity else 64
        larger = realloc(plan.batches, plan.capacity * sizeof(PlanRow))
        if larger == NULL:
            return -2
        plan.batches = <PlanRow*>larger
    plan.batches[plan.count] = batch[0]
    plan.count += 1
    return 0

cdef int plan_rows(const RowsInput* rows, int64_t max_batch_bytes, Plan* plan, FaultFound* fault) noexcept nogil:
    cdef PlanRow batch
    cdef RowView row
    cdef int64_t place, body, record
    batch.record_count = 0
    for place in range(rows.picked_count):
        if read_row_view(rows, place, &row, fault) < 0:
            return -1
        if batch.record_count:
            body = body_bytes(&row, batch.base_timestamp, batch.record_count, fault)
            if body < 0:
                return -1
            record = varint_bytes(body) + body
            if batch.size + record > max_batch_bytes:
                if close_batch(plan, &batch) < 0:
                    return -2
                batch.record_count = 0
        if batch.record_count == 0:
            batch.size = HEADER_BYTES
            batch.base_timestamp = batch.max_timestamp = row.timestamp
            body = body_bytes(&row, batch.base_timestamp, 0, fault)
            if body < 0:
                return -1
            record = varint_bytes(body) + body
        batch.record_count += 1
        batch.size += record
        if row.timestamp > batch.max_timestamp:
            batch.max_timestamp = row.timestamp
    return close_batch(plan, &batch) if batch.record_count else 0


def plan_batches(columns, int64_t max_batch_bytes):
    """See Kernel.plan_batches."""
    cdef HeldBuffers held = HeldBuffers(20)
    cdef RowsInput rows
    cdef Plan plan
    cdef FaultFound fault
    cdef int outcome
    hold_rows(held, columns, &rows)
    plan.batches = NULL
    plan.count = plan.capacity = 0
    fault.row = -1
    try:
        with nogil:
            outcome = plan_rows(&rows, max_batch_bytes, &plan, &fault)
        if outcome == -2:
            raise MemoryError
        if outcome < 0:
            raise_fault(&fault)
        return PyByteArray_FromStringAndSize(<char*>plan.batches, plan.count * sizeof(PlanRow))
    finally:
        free(plan.batches)


cdef inline uint8_t* write_field(uint8_t* p, const Slice* field) noexcept nogil:
    if field.size < 0:
        return write_varint(p, -1)
    p = write_varint(p, field.size)
    if field.size:
        memcpy(p, field.data, field.size)
    return p + field.size

cdef uint8_t* write_row_headers(
    uint8_t* p, const RowsInput* rows, const RowView* row, FaultFound* fault,
) noexcept nogil:
    cdef int64_t child
    cdef Slice field
    for child in range(row.first_header, row.first_header + row.header_count):
        if read_slice(&rows.header_key, child, child, &field, fault) < 0:
            return NULL
        p = write_field(p, &field)
        if read_slice(&rows.header_value, child, child, &field, fault) < 0:
            return NULL
        p = write_field(p, &field)
    return p

cdef void write_header(uint8_t* p, const PlanRow* batch, const Stamp* stamp, int64_t base_offset) noexcept nogil:
    cdef int64_t sequence = stamp.base_sequence
    store_int64(p, base_offset)
    store_int32(p + 8, batch.size - 12)
    store_int32(p + 12, -1)
    p[16] = 2
    store_int32(p + 17, 0)
    store_int16(p + 21, <int32_t>stamp.attributes)
    store_int32(p + 23, batch.record_count - 1)
    store_int64(p + 27, batch.base_timestamp)
    store_int64(p + 35, batch.max_timestamp)
    store_int64(p + 43, stamp.producer_id)
    store_int16(p + 51, <int32_t>stamp.producer_epoch)
    store_int32(p + 53, sequence if sequence < 0 else (sequence + base_offset) & 0x7FFFFFFF)
    store_int32(p + 57, batch.record_count)

cdef int write_batch(
    const RowsInput* rows, int64_t first, const PlanRow* batch, uint8_t* start, FaultFound* fault,
) noexcept nogil:
    cdef uint8_t* p = start + HEADER_BYTES
    cdef uint8_t* end = start + batch.size
    cdef RowView row
    cdef int64_t place, body
    for place in range(batch.record_count):
        if read_row_view(rows, first + place, &row, fault) < 0:
            return -1
        body = body_bytes(&row, batch.base_timestamp, place, fault)
        if body < 0:
            return -1
        if varint_bytes(body) + body > end - p:
            return fail(fault, FAULT_CHANGED_BUFFER, 0, 0)
        p = write_varint(p, body)
        p[0] = 0
        p = write_varint(p + 1, row.timestamp - batch.base_timestamp)
        p = write_varint(p, place)
        p = write_field(p, &row.key)
        p = write_field(p, &row.value)
        p = write_varint(p, row.header_count)
        if row.header_count:
            p = write_row_headers(p, rows, &row, fault)
            if p == NULL:
                return -1
    if p != end:
        return fail(fault, FAULT_CHANGED_BUFFER, 0, 0)
    return 0

cdef int write_plan(
    const RowsInput* rows, const PlanRow* plan, int64_t count, const Stamp* stamp, bint with_crc, uint8_t* output,
    int64_t size, FaultFound* fault,
) noexcept nogil:
    cdef int64_t number
    cdef int64_t base_offset = 0
    cdef uint8_t* end = output + size
    for number in range(count):
        if (plan[number].size < HEADER_BYTES or plan[number].size > end - output
                or plan[number].record_count > rows.picked_count - base_offset):
            return fail(fault, FAULT_CHANGED_BUFFER, 0, 0)
        write_header(output, &plan[number], stamp, base_offset)
        if write_batch(rows, base_offset, &plan[number], output, fault) < 0:
            return -1
        if with_crc:
            store_int32(output + 17, streamlog_crc32c(output + 21, plan[number].size - 21))
        output += plan[number].size
        base_offset += plan[number].record_count
    return 0


def new_buffer(int64_t size):
    """See Kernel.new_buffer."""
    return PyByteArray_FromStringAndSize(NULL, size)


def write_batches(columns, plan, stamp, bint with_crc, output):
    """See Kernel.write_batches."""
    cdef HeldBuffers held = HeldBuffers(20)
    cdef RowsInput rows
    cdef FaultFound fault
    cdef Stamp wanted
    cdef int outcome
    hold_rows(held, columns, &rows)
    cdef Py_buffer* planned = held.hold(plan, False)
    cdef Py_buffer* target = held.hold(output, True)
    cdef int64_t count = planned.len // sizeof(PlanRow)
    wanted.attributes, wanted.producer_id, wanted.producer_epoch, wanted.base_sequence = stamp
    fault.row = -1
    with nogil:
        outcome = write_plan(
            &rows, <const PlanRow*>planned.buf, count, &wanted, with_crc, <uint8_t*>target.buf, target.len, &fault,
        )
    if outcome < 0:
        raise_fault(&fault)
