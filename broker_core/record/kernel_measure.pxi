# The walk over a batch's records, and their totals. Included by kernel.pyx.

cdef struct RecordView:
    int64_t offset
    int64_t timestamp
    const uint8_t* key
    int64_t key_size
    const uint8_t* value
    int64_t value_size
    int64_t header_count
    const uint8_t* headers
    const uint8_t* end
    bint is_out_of_order
    bint is_beyond_batch

cdef struct HeaderView:
    const uint8_t* key
    int64_t key_size
    const uint8_t* value
    int64_t value_size

cdef struct Walk:
    const uint8_t* cursor
    const uint8_t* end
    const int64_t* row
    int64_t left
    int64_t previous_delta


cdef inline int read_field(
    const uint8_t** p, const uint8_t* end, int code, bint is_nullable, const uint8_t** start, int64_t* size,
    FaultFound* fault,
) noexcept nogil:
    if read_varint(p, end, size, fault) < 0:
        return -1
    if size[0] > end - p[0] or (size[0] < 0 and not is_nullable):
        return fail(fault, code, size[0], end - p[0])
    start[0] = p[0]
    if size[0] > 0:
        p[0] += size[0]
    elif size[0] < 0:
        # As in Kafka's readers, any negative size is null.
        size[0] = -1
    return 0

cdef inline int read_header(
    const uint8_t** p, const uint8_t* end, HeaderView* header, FaultFound* fault,
) noexcept nogil:
    if read_field(p, end, FAULT_HEADER_KEY_LENGTH, False, &header.key, &header.key_size, fault) < 0:
        return -1
    return read_field(p, end, FAULT_HEADER_VALUE_LENGTH, True, &header.value, &header.value_size, fault)


cdef int start_walk(
    const int64_t* row, Py_buffer* payloads, int64_t payload_count, Walk* walk, FaultFound* fault,
) noexcept nogil:
    """0 if the batch has records to show, 1 if it is hidden or a control batch."""
    cdef int64_t number = row[CELL_PAYLOAD_BUFFER]
    cdef int64_t size = row[CELL_PAYLOAD_END] - row[CELL_PAYLOAD_START]
    if number < 0 or row[CELL_ATTRIBUTES] & CONTROL_BIT:
        return 1
    if number >= payload_count or row[CELL_PAYLOAD_START] < 0 or size < 0:
        return fail(fault, FAULT_CHANGED_BUFFER, 0, 0)
    if row[CELL_PAYLOAD_END] > payloads[number].len:
        return fail(fault, FAULT_CHANGED_BUFFER, 0, 0)
    if row[CELL_RECORD_COUNT] > size // 7:
        return fail(fault, FAULT_RECORD_COUNT, row[CELL_RECORD_COUNT], size)
    walk.cursor = <const uint8_t*>payloads[number].buf + row[CELL_PAYLOAD_START]
    walk.end = walk.cursor + size
    walk.row = row
    walk.left = row[CELL_RECORD_COUNT]
    walk.previous_delta = -1
    return 0


cdef inline int next_record(Walk* walk, RecordView* record, FaultFound* fault) noexcept nogil:
    """1 for a record, checked to the last byte but for its headers' content; 0 after the last one."""
    cdef const uint8_t* p = walk.cursor
    cdef const uint8_t* end
    cdef int64_t length
    cdef int64_t timestamp_delta
    cdef int64_t offset_delta
    if walk.left == 0:
        if p != walk.end:
            return fail(fault, FAULT_BATCH_TRAILING, walk.end - p, walk.row[CELL_RECORD_COUNT])
        return 0
    walk.left -= 1
    if read_varint(&p, walk.end, &length, fault) < 0:
        return -1
    if length < 0 or length > walk.end - p:
        return fail(fault, FAULT_RECORD_LENGTH, length, walk.end - p)
    end = p + length
    if length == 0:
        return fail(fault, FAULT_VARINT, 0, 64)
    p += 1
    if read_varlong(&p, end, &timestamp_delta, fault) < 0 or read_varint(&p, end, &offset_delta, fault) < 0:
        return -1
    record.is_out_of_order = offset_delta <= walk.previous_delta
    record.is_beyond_batch = offset_delta > walk.row[CELL_LAST_OFFSET_DELTA]
    if not record.is_out_of_order:
        walk.previous_delta = offset_delta
    record.offset = <int64_t>(<uint64_t>walk.row[CELL_BASE_OFFSET] + <uint64_t>offset_delta)
    if read_field(&p, end, FAULT_KEY_LENGTH, True, &record.key, &record.key_size, fault) < 0:
        return -1
    if read_field(&p, end, FAULT_VALUE_LENGTH, True, &record.value, &record.value_size, fault) < 0:
        return -1
    if read_varint(&p, end, &record.header_count, fault) < 0:
        return -1
    if record.header_count:
        if record.header_count < 0 or record.header_count > (end - p) // 2 or record.header_count > MAX_HEADERS:
            return fail(fault, FAULT_HEADER_COUNT, record.header_count, end - p)
    elif p != end:
        return fail(fault, FAULT_RECORD_TRAILING, end - p, 0)
    if walk.row[CELL_ATTRIBUTES] & LOG_APPEND_TIME_BIT:
        record.timestamp = walk.row[CELL_MAX_TIMESTAMP]
    else:
        # Wraps around, as in Java.
        record.timestamp = <int64_t>(<uint64_t>walk.row[CELL_BASE_TIMESTAMP] + <uint64_t>timestamp_delta)
    record.headers = p
    record.end = end
    walk.cursor = end
    return 1


cdef struct Tally:
    int64_t row_count
    int64_t batches_done
    int64_t next_offset
    int64_t key_bytes
    int64_t key_nulls
    int64_t value_bytes
    int64_t value_nulls
    int64_t header_lists
    int64_t header_count
    int64_t header_key_bytes
    int64_t header_value_bytes
    int64_t header_value_nulls
    int64_t has_wide_header_keys
    int64_t max_timestamp
    int64_t max_timestamp_offset
    int64_t gap_count


cdef int skip_headers(
    const uint8_t* p, const uint8_t* end, int64_t count, Tally* tally, FaultFound* fault,
) noexcept nogil:
    """Checks the headers and that no bytes follow them; adds them to the tally unless that is NULL."""
    cdef HeaderView header
    cdef int64_t number, index
    cdef uint8_t bits = 0
    for number in range(count):
        if read_header(&p, end, &header, fault) < 0:
            return -1
        if tally == NULL:
            continue
        for index in range(header.key_size):
            bits |= header.key[index]
        tally.header_key_bytes += header.key_size
        if header.value_size >= 0:
            tally.header_value_bytes += header.value_size
        else:
            tally.header_value_nulls += 1
    if p != end:
        return fail(fault, FAULT_RECORD_TRAILING, end - p, 0)
    if tally != NULL:
        tally.header_lists += 1
        tally.header_count += count
        tally.has_wide_header_keys |= bits >> 7
    return 0


cdef int64_t clamp(int64_t offset, int64_t from_offset, int64_t until_offset) noexcept nogil:
    if offset > until_offset:
        offset = until_offset
    return offset if offset > from_offset else from_offset


cdef int measure_batch(
    Walk* walk, int64_t from_offset, int64_t until_offset, int64_t max_rows, Tally* tally,
    int64_t* previous_offset, FaultFound* fault,
) noexcept nogil:
    """1 if a record of the batch is left for a later call; it is then the tally's next offset."""
    cdef RecordView record
    cdef int more
    cdef bint is_wanted
    cdef int stopped = 0
    cdef int64_t stopped_at = 0
    while True:
        more = next_record(walk, &record, fault)
        if more <= 0:
            break
        if record.is_out_of_order or record.is_beyond_batch:
            tally.gap_count += 1
        is_wanted = record.offset >= from_offset and not stopped and not record.is_out_of_order
        if record.is_beyond_batch:
            # The batch ends before it, so a later call could not continue there.
            is_wanted = is_wanted and record.offset < until_offset
        elif is_wanted and (record.offset >= until_offset or tally.row_count == max_rows):
            stopped = 1
            stopped_at = record.offset
            is_wanted = False
        if record.header_count:
            if skip_headers(record.headers, record.end, record.header_count, tally if is_wanted else NULL, fault) < 0:
                return -1
        if not is_wanted:
            continue
        if record.key_size >= 0:
            tally.key_bytes += record.key_size
        else:
            tally.key_nulls += 1
        if record.value_size >= 0:
            tally.value_bytes += record.value_size
        else:
            tally.value_nulls += 1
        if record.timestamp > tally.max_timestamp or tally.max_timestamp_offset < 0:
            if record.timestamp > MIN_INT64:
                tally.max_timestamp = record.timestamp
                tally.max_timestamp_offset = record.offset
        if tally.row_count and record.offset != previous_offset[0] + 1:
            tally.gap_count += 1
        previous_offset[0] = record.offset
        tally.row_count += 1
    if more < 0:
        return -1
    if stopped:
        tally.next_offset = clamp(stopped_at, from_offset, until_offset)
    return stopped


cdef int measure(
    Py_buffer* payloads, int64_t payload_count, const int64_t* table, int64_t row_count, int64_t from_offset,
    int64_t until_offset, int64_t max_rows, Tally* tally, FaultFound* fault,
) noexcept nogil:
    cdef const int64_t* row
    cdef Walk walk
    cdef int outcome
    cdef int64_t number
    cdef int64_t last_offset = -1
    cdef int64_t previous_offset = -1
    for number in range(row_count):
        row = table + number * TABLE_COLUMNS
        fault.row = number
        if row[CELL_BASE_OFFSET] <= last_offset:
            return fail(fault, FAULT_BATCH_ORDER, row[CELL_BASE_OFFSET], last_offset)
        last_offset = row[CELL_BASE_OFFSET] + row[CELL_LAST_OFFSET_DELTA]
        outcome = start_walk(row, payloads, payload_count, &walk, fault)
        if outcome == 0:
            outcome = measure_batch(&walk, from_offset, until_offset, max_rows, tally, &previous_offset, fault)
            if outcome == 1:
                return 0
        if outcome < 0:
            return -1
        tally.batches_done += 1
        tally.next_offset = clamp(last_offset + 1, from_offset, until_offset)
    return 0


cdef HeldBuffers hold_payloads(payloads, int extra):
    cdef HeldBuffers held = HeldBuffers(len(payloads) + extra)
    for payload in payloads:
        held.hold(payload, False)
    return held


def measure_records(payloads, table, int64_t from_offset, int64_t until_offset, int64_t max_rows):
    """See Kernel.measure_records."""
    cdef HeldBuffers held = hold_payloads(payloads, 1)
    cdef Py_buffer* rows = held.hold(table, False)
    cdef Tally tally
    cdef FaultFound fault
    cdef int outcome
    cdef int64_t row_count = rows.len // (TABLE_COLUMNS * sizeof(int64_t))
    memset(&tally, 0, sizeof(tally))
    tally.next_offset = from_offset
    tally.max_timestamp = MIN_INT64
    tally.max_timestamp_offset = -1
    with nogil:
        outcome = measure(
            held.views, held.count - 1, <const int64_t*>rows.buf, row_count,
            from_offset, until_offset, max_rows, &tally, &fault,
        )
    if outcome < 0:
        raise_fault(&fault)
    cdef int64_t* sums = <int64_t*>&tally
    return tuple([sums[index] for index in range(sizeof(tally) // sizeof(int64_t))])


cdef int walk_plain(const uint8_t* p, int64_t size, Tally* tally) noexcept nogil:
    """Whether the bytes are one plain batch; its records in the tally."""
    cdef int64_t row[TABLE_COLUMNS]
    cdef FaultFound fault
    if size < HEADER_BYTES or <int64_t>load_int32(p + 8) + 12 != size or p[16] != 2:
        return 0
    read_row(p, 0, size, row)
    if row[CELL_ATTRIBUTES] & ~TRANSACTIONAL_BIT:
        return 0
    if row[CELL_RECORD_COUNT] <= 0 or row[CELL_RECORD_COUNT] != row[CELL_LAST_OFFSET_DELTA] + 1:
        return 0
    if row[CELL_CRC] != streamlog_crc32c(p + 21, size - 21):
        return 0
    # The walk starts at 0, whatever the producer's base offset is.
    row[CELL_BASE_OFFSET] = 0
    row[CELL_PAYLOAD_START] = 0
    row[CELL_PAYLOAD_END] = size - HEADER_BYTES
    cdef Py_buffer payload
    payload.buf = <void*>(p + HEADER_BYTES)
    payload.len = size - HEADER_BYTES
    memset(tally, 0, sizeof(Tally))
    tally.max_timestamp = MIN_INT64
    tally.max_timestamp_offset = -1
    return measure(&payload, 1, row, 1, 0, MAX_INT64, MAX_INT64, tally, &fault) == 0 and tally.gap_count == 0


def inspect_plain(batch):
    """See Kernel.inspect_plain."""
    cdef HeldBuffers held = HeldBuffers(1)
    cdef Py_buffer* view = held.hold(batch, False)
    cdef Tally tally
    cdef int is_plain
    if view.len <= SOON_WALKED_BYTES:
        # Releasing the GIL would cost more than the walk.
        is_plain = walk_plain(<const uint8_t*>view.buf, view.len, &tally)
    else:
        with nogil:
            is_plain = walk_plain(<const uint8_t*>view.buf, view.len, &tally)
    return (tally.max_timestamp, tally.key_nulls) if is_plain else None
