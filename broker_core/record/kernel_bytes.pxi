# Basics of the native kernel: buffers, numbers, varints, CRC-32C, faults. Included by kernel.pyx.

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    static uint32_t streamlog_crc_table[8][256];

    static void streamlog_crc_setup(void) {
        for (uint32_t n = 0; n < 256; n++) {
            uint32_t crc = n;
            for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78u : 0);
            streamlog_crc_table[0][n] = crc;
        }
        for (uint32_t n = 0; n < 256; n++)
            for (int k = 1; k < 8; k++) {
                uint32_t crc = streamlog_crc_table[k - 1][n];
                streamlog_crc_table[k][n] = (crc >> 8) ^ streamlog_crc_table[0][crc & 0xFF];
            }
    }

    static uint32_t streamlog_crc_soft(uint32_t crc, const uint8_t *p, size_t n) {
        while (n >= 8) {
            crc ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
            crc = streamlog_crc_table[7][crc & 0xFF] ^ streamlog_crc_table[6][(crc >> 8) & 0xFF]
                ^ streamlog_crc_table[5][(crc >> 16) & 0xFF] ^ streamlog_crc_table[4][crc >> 24]
                ^ streamlog_crc_table[3][p[4]] ^ streamlog_crc_table[2][p[5]]
                ^ streamlog_crc_table[1][p[6]] ^ streamlog_crc_table[0][p[7]];
            p += 8;
            n -= 8;
        }
        while (n--) crc = (crc >> 8) ^ streamlog_crc_table[0][(crc ^ *p++) & 0xFF];
        return crc;
    }

    #if defined(__GNUC__) && defined(__x86_64__)
    #define STREAMLOG_CRC_HARD __attribute__((target("sse4.2")))
    #define STREAMLOG_CRC_BYTE(crc, byte) __builtin_ia32_crc32qi(crc, byte)
    #define STREAMLOG_CRC_WORD(crc, word) __builtin_ia32_crc32di(crc, word)
    static int streamlog_crc_is_hard(void) { __builtin_cpu_init(); return __builtin_cpu_supports("sse4.2"); }
    #elif defined(__ARM_FEATURE_CRC32)
    #include <arm_acle.h>
    #define STREAMLOG_CRC_HARD
    #define STREAMLOG_CRC_BYTE(crc, byte) __crc32cb(crc, byte)
    #define STREAMLOG_CRC_WORD(crc, word) __crc32cd(crc, word)
    static int streamlog_crc_is_hard(void) { return 1; }
    #endif

    #ifdef STREAMLOG_CRC_HARD
    /* The instruction's answer comes three cycles later, so three lanes of a block are worked on at once:

           | lane a | lane b | lane c |      crc = a moved over two lanes ^ b moved over one ^ c

       Moved over n bytes is what it would be had n zero bytes followed: linear, so a table for each of its bytes. */
    #define STREAMLOG_LANE 1024
    static uint32_t streamlog_over_one_lane[4][256], streamlog_over_two_lanes[4][256];

    static uint32_t streamlog_crc_moved(uint32_t over[4][256], uint32_t crc) {
        return over[0][crc & 0xFF] ^ over[1][(crc >> 8) & 0xFF] ^ over[2][(crc >> 16) & 0xFF] ^ over[3][crc >> 24];
    }

    static void streamlog_crc_setup_lanes(void) {
        for (int bit = 0; bit < 32; bit++) {
            uint32_t crc = 1u << bit;
            for (int n = 0; n < STREAMLOG_LANE; n++) crc = (crc >> 8) ^ streamlog_crc_table[0][crc & 0xFF];
            for (int value = 0; value < 256; value++)
                if (value >> (bit & 7) & 1) streamlog_over_one_lane[bit >> 3][value] ^= crc;
        }
        for (int part = 0; part < 4; part++)
            for (int value = 0; value < 256; value++)
                streamlog_over_two_lanes[part][value] =
                    streamlog_crc_moved(streamlog_over_one_lane, streamlog_over_one_lane[part][value]);
    }

    STREAMLOG_CRC_HARD
    static uint32_t streamlog_crc_hard(uint32_t start, const uint8_t *p, size_t n) {
        uint64_t a = start, b, c, words[3];
        for (; n >= 3 * STREAMLOG_LANE; n -= 3 * STREAMLOG_LANE, p += 3 * STREAMLOG_LANE) {
            b = c = 0;
            for (size_t k = 0; k < STREAMLOG_LANE; k += 8) {
                memcpy(&words[0], p + k, 8);
                memcpy(&words[1], p + STREAMLOG_LANE + k, 8);
                memcpy(&words[2], p + 2 * STREAMLOG_LANE + k, 8);
                a = STREAMLOG_CRC_WORD(a, words[0]);
                b = STREAMLOG_CRC_WORD(b, words[1]);
                c = STREAMLOG_CRC_WORD(c, words[2]);
            }
            a = streamlog_crc_moved(streamlog_over_two_lanes, (uint32_t)a)
                ^ streamlog_crc_moved(streamlog_over_one_lane, (uint32_t)b) ^ (uint32_t)c;
        }
        for (; n >= 8; n -= 8, p += 8) {
            memcpy(words, p, 8);
            a = STREAMLOG_CRC_WORD(a, words[0]);
        }
        uint32_t tail = (uint32_t)a;
        while (n--) tail = STREAMLOG_CRC_BYTE(tail, *p++);
        return tail;
    }
    #else
    #define streamlog_crc_hard streamlog_crc_soft
    static void streamlog_crc_setup_lanes(void) {}
    static int streamlog_crc_is_hard(void) { return 0; }
    #endif

    static int streamlog_use_hard_crc = 0;
    static uint32_t streamlog_crc32c(const uint8_t *p, size_t n) {
        uint32_t crc = 0xFFFFFFFFu;
        crc = streamlog_use_hard_crc ? streamlog_crc_hard(crc, p, n) : streamlog_crc_soft(crc, p, n);
        return ~crc;
    }
    static void streamlog_crc_choose(void) {
        streamlog_crc_setup();
        streamlog_use_hard_crc = streamlog_crc_is_hard();
        if (streamlog_use_hard_crc) streamlog_crc_setup_lanes();
    }
    """
    uint32_t streamlog_crc32c(const uint8_t* data, size_t size) nogil
    uint32_t streamlog_crc_soft(uint32_t crc, const uint8_t* data, size_t size) nogil
    void streamlog_crc_choose()


streamlog_crc_choose()

cdef enum:
    HEADER_BYTES = 61
    TABLE_COLUMNS = 16
    # Codes of broker_core.record.faults.Fault; a test compares.
    FAULT_HEADER_LENGTH = 1
    FAULT_LEGACY_MAGIC = 2
    FAULT_UNKNOWN_MAGIC = 3
    FAULT_UNKNOWN_CODEC = 4
    FAULT_CRC = 5
    FAULT_HEADER_OFFSETS = 6
    FAULT_RECORD_COUNT = 7
    FAULT_BATCH_ORDER = 8
    FAULT_VARINT = 10
    FAULT_RECORD_LENGTH = 11
    FAULT_KEY_LENGTH = 13
    FAULT_VALUE_LENGTH = 14
    FAULT_HEADER_COUNT = 15
    FAULT_HEADER_KEY_LENGTH = 16
    FAULT_HEADER_VALUE_LENGTH = 17
    FAULT_RECORD_TRAILING = 18
    FAULT_BATCH_TRAILING = 19
    FAULT_TIMESTAMP_RANGE = 21
    FAULT_CHANGED_BUFFER = 22
    FAULT_ROW_INDEX = 30
    FAULT_RECORD_TOO_LARGE = 31
    FAULT_TIMESTAMP_SPAN = 32
    FAULT_NULL_HEADER_KEY = 33
    FAULT_TOO_MANY_HEADERS = 34
    FAULT_ARROW_OFFSETS = 35
    FAULT_PARTITION_RANGE = 36

cdef int64_t MAX_INT64 = 0x7FFFFFFFFFFFFFFF
cdef int64_t MIN_INT64 = ~MAX_INT64
cdef int64_t MAX_HEADERS = 1 << 20
cdef int64_t MAX_BATCH_BYTES = 0x7FFFFFFF
cdef int64_t SOON_WALKED_BYTES = 1 << 18
cdef int64_t TIMESTAMP_MS_LIMIT = 0x7FFFFFFFFFFFFFFF // 1000

cdef struct FaultFound:
    int code
    int64_t row
    int64_t found
    int64_t bound

cdef inline int fail(FaultFound* fault, int code, int64_t found, int64_t bound) noexcept nogil:
    fault.code = code
    fault.found = found
    fault.bound = bound
    return -1

cdef object raise_fault(FaultFound* fault):
    raise KernelFault(fault.code, row=fault.row, found=fault.found, bound=fault.bound)


cdef class HeldBuffers:
    """Buffers of one call, released with the object, so that no exception leaks one."""

    cdef Py_buffer* views
    cdef int count
    cdef int capacity

    def __cinit__(self, int capacity):
        self.views = <Py_buffer*>calloc(max(1, capacity), sizeof(Py_buffer))
        if self.views == NULL:
            raise MemoryError
        self.capacity = capacity

    def __dealloc__(self):
        for index in range(self.count):
            PyBuffer_Release(&self.views[index])
        free(self.views)

    cdef Py_buffer* hold(self, object buffer, bint writable) except NULL:
        assert self.count < self.capacity
        PyObject_GetBuffer(buffer, &self.views[self.count], PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
        self.count += 1
        return &self.views[self.count - 1]

    cdef uint8_t* hold_output(self, object buffer, int64_t needed) except? NULL:
        """Address of a writable buffer of at least `needed` bytes; NULL for None."""
        if buffer is None:
            return NULL
        cdef Py_buffer* view = self.hold(buffer, True)
        assert view.len >= needed, f"an output of {view.len} bytes where {needed} are needed"
        return <uint8_t*>view.buf


cdef inline int32_t load_int32(const uint8_t* p) noexcept nogil:
    return <int32_t>(<uint32_t>p[0] << 24 | <uint32_t>p[1] << 16 | <uint32_t>p[2] << 8 | <uint32_t>p[3])

cdef inline int64_t load_int64(const uint8_t* p) noexcept nogil:
    return <int64_t>(<uint64_t><uint32_t>load_int32(p) << 32 | <uint64_t><uint32_t>load_int32(p + 4))

cdef inline int32_t load_int16(const uint8_t* p) noexcept nogil:
    cdef int32_t number = <int32_t>p[0] << 8 | p[1]
    return number - 0x10000 if number & 0x8000 else number

cdef inline void store_int16(uint8_t* p, int32_t number) noexcept nogil:
    p[0] = <uint8_t>(number >> 8)
    p[1] = <uint8_t>number

cdef inline void store_int32(uint8_t* p, int64_t number) noexcept nogil:
    cdef uint32_t bits = <uint32_t>number
    p[0] = <uint8_t>(bits >> 24)
    p[1] = <uint8_t>(bits >> 16)
    p[2] = <uint8_t>(bits >> 8)
    p[3] = <uint8_t>bits

cdef inline void store_int64(uint8_t* p, int64_t number) noexcept nogil:
    store_int32(p, number >> 32)
    store_int32(p + 4, number)


cdef inline int long_varint(
    const uint8_t** cursor, const uint8_t* end, int bits, int64_t* number, FaultFound* fault,
) noexcept nogil:
    cdef const uint8_t* p = cursor[0]
    cdef uint64_t raw = 0
    cdef int shift = 0
    cdef uint8_t byte
    while p < end:
        byte = p[0]
        p += 1
        if shift == 63 and byte & 0x7E:
            break
        raw |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            if bits == 32 and raw >> 32:
                break
            number[0] = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
            cursor[0] = p
            return 0
        shift += 7
        if shift >= bits:
            break
    return fail(fault, FAULT_VARINT, 0, bits)

cdef inline int read_varint(
    const uint8_t** cursor, const uint8_t* end, int64_t* number, FaultFound* fault,
) noexcept nogil:
    cdef const uint8_t* p = cursor[0]
    if p < end and p[0] < 0x80:
        number[0] = <int64_t>(p[0] >> 1) ^ -<int64_t>(p[0] & 1)
        cursor[0] = p + 1
        return 0
    return long_varint(cursor, end, 32, number, fault)

cdef inline int read_varlong(
    const uint8_t** cursor, const uint8_t* end, int64_t* number, FaultFound* fault,
) noexcept nogil:
    cdef const uint8_t* p = cursor[0]
    if p < end and p[0] < 0x80:
        number[0] = <int64_t>(p[0] >> 1) ^ -<int64_t>(p[0] & 1)
        cursor[0] = p + 1
        return 0
    return long_varint(cursor, end, 64, number, fault)

cdef inline uint64_t zigzag(int64_t number) noexcept nogil:
    return (<uint64_t>number << 1) ^ <uint64_t>(number >> 63)

cdef inline int varint_bytes(int64_t number) noexcept nogil:
    cdef uint64_t raw = zigzag(number)
    cdef int size = 1
    while raw > 0x7F:
        raw >>= 7
        size += 1
    return size

cdef inline uint8_t* write_varint(uint8_t* p, int64_t number) noexcept nogil:
    cdef uint64_t raw = zigzag(number)
    while raw > 0x7F:
        p[0] = <uint8_t>(raw | 0x80)
        p += 1
        raw >>= 7
    p[0] = <uint8_t>raw
    return p + 1


def crc32c_soft(data):
    """CRC-32C by tables on any processor, for the test that compares it with the hardware's."""
    cdef HeldBuffers held = HeldBuffers(1)
    cdef Py_buffer* view = held.hold(data, False)
    return streamlog_crc_soft(0xFFFFFFFF, <const uint8_t*>view.buf, view.len) ^ <uint32_t>0xFFFFFFFF
