# Batch headers of a buffer to rows of the batch table. Included by kernel.pyx.

cdef enum:
    CELL_POSITION = 0
    CELL_SIZE_BYTES = 1
    CELL_BASE_OFFSET = 2
    CELL_LAST_OFFSET_DELTA = 3
    CELL_ATTRIBUTES = 4
    CELL_BASE_TIMESTAMP = 5
    CELL_MAX_TIMESTAMP = 6
    CELL_PRODUCER_ID = 7
    CELL_PRODUCER_EPOCH = 8
    CELL_BASE_SEQUENCE = 9
    CELL_RECORD_COUNT = 10
    CELL_LEADER_EPOCH = 11
    CELL_PAYLOAD_BUFFER = 12
    CELL_PAYLOAD_START = 13
    CELL_PAYLOAD_END = 14
    CELL_CRC = 15
    LEAST_LEGACY_LENGTH = 14

cdef int64_t LOG_APPEND_TIME_BIT = 0x08
cdef int64_t TRANSACTIONAL_BIT = 0x10
cdef int64_t CONTROL_BIT = 0x20


cdef void read_row(const uint8_t* p, int64_t position, int64_t size, int64_t* row) noexcept nogil:
    row[CELL_POSITION] = position
    row[CELL_SIZE_BYTES] = size
    row[CELL_BASE_OFFSET] = load_int64(p)
    row[CELL_LEADER_EPOCH] = load_int32(p + 12)
    row[CELL_CRC] = <int64_t><uint32_t>load_int32(p + 17)
    row[CELL_ATTRIBUTES] = load_int16(p + 21)
    row[CELL_LAST_OFFSET_DELTA] = load_int32(p + 23)
    row[CELL_BASE_TIMESTAMP] = load_int64(p + 27)
    row[CELL_MAX_TIMESTAMP] = load_int64(p + 35)
    row[CELL_PRODUCER_ID] = load_int64(p + 43)
    row[CELL_PRODUCER_EPOCH] = load_int16(p + 51)
    row[CELL_BASE_SEQUENCE] = load_int32(p + 53)
    row[CELL_RECORD_COUNT] = load_int32(p + 57)
    row[CELL_PAYLOAD_BUFFER] = 0
    row[CELL_PAYLOAD_START] = position + HEADER_BYTES
    row[CELL_PAYLOAD_END] = position + size


cdef int check_frame(const uint8_t* p, int64_t left, FaultFound* fault) noexcept nogil:
    """Magic, length and codec. 1 if the batch is whole, 0 if it is truncated, -1 for a fault. Needs 17 bytes."""
    cdef int64_t length = load_int32(p + 8)
    if length < LEAST_LEGACY_LENGTH:
        return fail(fault, FAULT_HEADER_LENGTH, length, HEADER_BYTES - 12)
    if p[16] != 2:
        return fail(fault, FAULT_LEGACY_MAGIC if p[16] < 2 else FAULT_UNKNOWN_MAGIC, p[16], 2)
    if length < HEADER_BYTES - 12:
        return fail(fault, FAULT_HEADER_LENGTH, length, HEADER_BYTES - 12)
    if length + 12 > left:
        return 0
    if p[22] & 7 > 4:
        return fail(fault, FAULT_UNKNOWN_CODEC, p[22] & 7, 4)
    return 1


cdef struct Scan:
    const uint8_t* data
    int64_t size
    int64_t position
    int64_t* rows
    int64_t row_count
    int64_t capacity
    int64_t fault_offset


cdef int scan(
    Scan* s, int64_t from_offset, int64_t until_offset, int64_t max_bytes, bint check_crc, FaultFound* fault,
) noexcept nogil:
    cdef int64_t row[TABLE_COLUMNS]
    cdef int64_t size
    cdef int64_t taken_bytes = 0
    cdef int whole
    cdef uint32_t crc
    cdef void* larger
    cdef const uint8_t* p
    while s.size - s.position > 16:
        p = s.data + s.position
        s.fault_offset = load_int64(p)
        whole = check_frame(p, s.size - s.position, fault)
        if whole <= 0:
            return whole
        size = <int64_t>load_int32(p + 8) + 12
        read_row(p, s.position, size, row)
        if (row[CELL_BASE_OFFSET] < 0 or row[CELL_LAST_OFFSET_DELTA] < 0 or row[CELL_RECORD_COUNT] < 0
                or row[CELL_BASE_OFFSET] > MAX_INT64 - 1 - row[CELL_LAST_OFFSET_DELTA]):
            return fail(fault, FAULT_HEADER_OFFSETS, row[CELL_BASE_OFFSET], row[CELL_LAST_OFFSET_DELTA])
        if row[CELL_BASE_OFFSET] >= until_offset:
            return 0
        if row[CELL_BASE_OFFSET] + row[CELL_LAST_OFFSET_DELTA] >= from_offset:
            if s.row_count and taken_bytes + size > max_bytes:
                return 0
            if check_crc:
                crc = streamlog_crc32c(p + 21, size - 21)
                if crc != <uint32_t>row[CELL_CRC]:
                    return fail(fault, FAULT_CRC, crc, row[CELL_CRC])
            if s.row_count == s.capacity:
                s.capacity = 2 * s.capacity if s.capacity else 64
                larger = realloc(s.rows, s.capacity * TABLE_COLUMNS * sizeof(int64_t))
                if larger == NULL:
                    return -2
                s.rows = <int64_t*>larger
            memcpy(s.rows + s.row_count * TABLE_COLUMNS, row, sizeof(row))
            s.row_count += 1
            taken_bytes += size
        s.position += size
    return 0


def scan_batches(
    buffer, int64_t position, int64_t from_offset, int64_t until_offset, int64_t max_bytes, bint check_crc,
):
    """See Kernel.scan_batches."""
    cdef HeldBuffers held = HeldBuffers(1)
    cdef Py_buffer* view = held.hold(buffer, False)
    cdef FaultFound fault
    cdef Scan s
    cdef int outcome
    assert position >= 0
    s.data = <const uint8_t*>view.buf
    s.size = view.len
    s.position = position
    s.rows = NULL
    s.row_count = s.capacity = 0
    try:
        with nogil:
            outcome = scan(&s, from_offset, until_offset, max_bytes, check_crc, &fault)
        if outcome == -2:
            raise MemoryError
        table = PyByteArray_FromStringAndSize(<char*>s.rows, s.row_count * TABLE_COLUMNS * sizeof(int64_t))
    finally:
        free(s.rows)
    if outcome < 0:
        return table, s.position, (fault.code, s.position, s.fault_offset, fault.found, fault.bound)
    return table, s.position, None
