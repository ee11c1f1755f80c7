# The bits of keys in a key filter, by MurmurHash3 x64 128. Included by kernel.pyx.

cdef enum:
    # As in broker_core.record.key_places; a test compares what both do.
    FILTER_BLOCK_BYTES = 4096
    FILTER_BLOCK_BITS = 32736
    FILTER_PROBES = 7

cdef inline uint64_t rotated(uint64_t word, int count) noexcept nogil:
    return word << count | word >> (64 - count)

cdef inline uint64_t first_word(uint64_t word) noexcept nogil:
    return rotated(word * <uint64_t>0x87C37B91114253D5ULL, 31) * <uint64_t>0x4CF5AD432745937FULL

cdef inline uint64_t second_word(uint64_t word) noexcept nogil:
    return rotated(word * <uint64_t>0x4CF5AD432745937FULL, 33) * <uint64_t>0x87C37B91114253D5ULL

cdef inline uint64_t finished(uint64_t digest) noexcept nogil:
    digest = (digest ^ digest >> 33) * <uint64_t>0xFF51AFD7ED558CCDULL
    digest = (digest ^ digest >> 33) * <uint64_t>0xC4CEB9FE1A85EC53ULL
    return digest ^ digest >> 33


cdef void murmur3(const uint8_t* p, int64_t size, uint64_t* first, uint64_t* second) noexcept nogil:
    cdef uint64_t low = 0, high = 0
    cdef uint64_t words[2]
    cdef int64_t left = size
    while left >= 16:
        memcpy(words, p, 16)
        low = (rotated(low ^ first_word(words[0]), 27) + high) * 5 + <uint64_t>0x52DCE729
        high = (rotated(high ^ second_word(words[1]), 31) + low) * 5 + <uint64_t>0x38495AB5
        p += 16
        left -= 16
    if left > 0:
        words[0] = words[1] = 0
        memcpy(words, p, left)
        low ^= first_word(words[0])
        high ^= second_word(words[1])
    low ^= <uint64_t>size
    high ^= <uint64_t>size
    low += high
    high += low
    low = finished(low)
    high = finished(high)
    low += high
    high += low
    first[0] = low
    second[0] = high


cdef int mark(
    const BinaryInput* key, int64_t row_count, uint8_t* blocks, uint64_t block_mask, FaultFound* fault,
) noexcept nogil:
    cdef int64_t row
    cdef int probe
    cdef uint32_t place, bit, step
    cdef uint64_t first, second
    cdef uint8_t* block
    cdef Slice found
    for row in range(row_count):
        if read_slice(key, row, row, &found, fault) < 0:
            return -1
        if found.size < 0:
            continue
        murmur3(found.data, found.size, &first, &second)
        block = blocks + (first & block_mask) * FILTER_BLOCK_BYTES
        place = <uint32_t>second
        step = <uint32_t>(second >> 32) | 1
        for probe in range(FILTER_PROBES):
            bit = place % FILTER_BLOCK_BITS
            block[bit >> 3] |= <uint8_t>(1 << (bit & 7))
            place += step
    return 0


def mark_keys(int64_t row_count, key, blocks):
    """See Kernel.mark_keys."""
    cdef HeldBuffers held = HeldBuffers(4)
    cdef BinaryInput keys
    cdef FaultFound fault
    cdef int outcome
    cdef int64_t block_count = memoryview(blocks).nbytes // FILTER_BLOCK_BYTES
    assert block_count > 0 and block_count & (block_count - 1) == 0
    hold_binary_input(held, key, &keys)
    cdef uint8_t* target = <uint8_t*>held.hold_output(blocks, block_count * FILTER_BLOCK_BYTES)
    with nogil:
        outcome = mark(&keys, row_count, target, <uint64_t>(block_count - 1), &fault)
    if outcome < 0:
        raise_fault(&fault)
