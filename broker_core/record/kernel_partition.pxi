# The partition of each row, and rows by partition. Included by kernel.pyx.

cdef uint32_t hash_key(const uint8_t* p, int64_t size) noexcept nogil:
    cdef uint32_t factor = 0x5BD1E995
    cdef uint32_t digest = <uint32_t>0x9747B28C ^ <uint32_t>size
    cdef uint32_t word
    cdef int64_t left = size
    while left >= 4:
        word = <uint32_t>p[0] | <uint32_t>p[1] << 8 | <uint32_t>p[2] << 16 | <uint32_t>p[3] << 24
        word *= factor
        word ^= word >> 24
        word *= factor
        digest = (digest * factor) ^ word
        p += 4
        left -= 4
    if left == 3:
        digest ^= <uint32_t>p[2] << 16
    if left >= 2:
        digest ^= <uint32_t>p[1] << 8
    if left >= 1:
        digest = (digest ^ p[0]) * factor
    digest = (digest ^ (digest >> 13)) * factor
    return digest ^ (digest >> 15)


def murmur2(data):
    """See Kernel.murmur2."""
    cdef HeldBuffers held = HeldBuffers(1)
    cdef Py_buffer* view = held.hold(data, False)
    return <int32_t>hash_key(<const uint8_t*>view.buf, view.len)


cdef int assign(
    const BinaryInput* key, const NumberInput* explicit, int64_t row_count, int32_t partition_count,
    int32_t sticky, int32_t* output, FaultFound* fault,
) noexcept nogil:
    cdef int64_t row
    cdef int32_t partition
    cdef uint32_t positive
    cdef Slice found
    for row in range(row_count):
        fault.row = row
        if explicit.data != NULL and is_valid(explicit.validity, explicit.start + row):
            partition = (<const int32_t*>explicit.data)[explicit.start + row]
        else:
            if read_slice(key, row, row, &found, fault) < 0:
                return -1
            partition = sticky
            if found.size >= 0:
                positive = hash_key(found.data, found.size) & 0x7FFFFFFF
                partition = <int32_t>(positive % <uint32_t>partition_count)
        if partition < 0 or partition >= partition_count:
            return fail(fault, FAULT_PARTITION_RANGE, partition, partition_count)
        output[row] = partition
    return 0


def assign_partitions(int64_t row_count, key, explicit, int32_t partition_count, int32_t sticky, output):
    """See Kernel.assign_partitions."""
    cdef HeldBuffers held = HeldBuffers(6)
    cdef BinaryInput keys
    cdef NumberInput chosen
    cdef FaultFound fault
    cdef int outcome
    assert partition_count > 0
    hold_binary_input(held, key, &keys)
    hold_number_input(held, explicit, &chosen)
    cdef int32_t* target = <int32_t*>held.hold_output(output, 4 * row_count)
    with nogil:
        outcome = assign(&keys, &chosen, row_count, partition_count, sticky, target, &fault)
    if outcome < 0:
        raise_fault(&fault)


cdef int group(
    const int32_t* partitions, int64_t row_count, int64_t partition_count, int32_t* rows, int64_t* bounds,
    int64_t* cursors, FaultFound* fault,
) noexcept nogil:
    cdef int64_t row, partition, position = 0
    for row in range(row_count):
        partition = partitions[row]
        if partition < 0 or partition >= partition_count:
            fault.row = row
            return fail(fault, FAULT_PARTITION_RANGE, partition, partition_count)
        cursors[partition] += 1
    for partition in range(partition_count):
        bounds[partition] = position
        position += cursors[partition]
        cursors[partition] = bounds[partition]
    bounds[partition_count] = position
    for row in range(row_count):
        partition = partitions[row]
        rows[cursors[partition]] = <int32_t>row
        cursors[partition] += 1
    return 0


def group_rows(partitions, int64_t row_count, int64_t partition_count, rows, bounds):
    """See Kernel.group_rows."""
    cdef HeldBuffers held = HeldBuffers(3)
    cdef Py_buffer* source = held.hold(partitions, False)
    cdef FaultFound fault
    cdef int outcome
    assert source.len >= 4 * row_count
    cdef int32_t* target = <int32_t*>held.hold_output(rows, 4 * row_count)
    cdef int64_t* limits = <int64_t*>held.hold_output(bounds, 8 * (partition_count + 1))
    cdef int64_t* cursors = <int64_t*>calloc(max(1, partition_count), sizeof(int64_t))
    if cursors == NULL:
        raise MemoryError
    try:
        with nogil:
            outcome = group(<const int32_t*>source.buf, row_count, partition_count, target, limits, cursors, &fault)
    finally:
        free(cursors)
    if outcome < 0:
        raise_fault(&fault)
