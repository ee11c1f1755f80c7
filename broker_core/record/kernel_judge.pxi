# Finds the records of a batch that a topic refuses. Included by kernel.pyx.

def find_refused(payload, row, bint needs_key, int64_t earliest_ms, int64_t latest_ms, int64_t max_count):
    """See Kernel.find_refused."""
    cdef HeldBuffers held = HeldBuffers(2)
    cdef Py_buffer* content = held.hold(payload, False)
    cdef Py_buffer* cells = held.hold(row, False)
    cdef RecordView record
    cdef Walk walk
    cdef FaultFound fault
    cdef int more = 0
    cdef int64_t index = 0
    cdef list found = []
    if cells.len < TABLE_COLUMNS * <Py_ssize_t>sizeof(int64_t):
        fail(&fault, FAULT_CHANGED_BUFFER, 0, 0)
        raise_fault(&fault)
    fault.row = -1
    if start_walk(<const int64_t*>cells.buf, content, 1, &walk, &fault) < 0:
        raise_fault(&fault)
    while len(found) < max_count:
        more = next_record(&walk, &record, &fault)
        if more <= 0:
            break
        if needs_key and record.key_size < 0:
            found.append((index, True, record.timestamp))
        elif record.timestamp != -1 and not earliest_ms <= record.timestamp <= latest_ms:
            found.append((index, False, record.timestamp))
        index += 1
    if more < 0:
        raise_fault(&fault)
    return found
